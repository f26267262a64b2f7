"""The same results, faster: the one door from the book to speed.

`accelerate(thing)` exchanges what the table below names, by identity: a class of the same name that
somebody else wrote is never touched, and what is not in the table is returned as it is. The twin of
a module is a subclass that shares its parameters and overrides `forward`: state dicts, optimizers
and checkpoints see no difference. `compile_training` compiles the step made of these parts. Every
twin has a test of equality with what it replaces.

layers.py        one matrix product for gate and up (SwiGLU)
attention.py     fused QKV, half-split RoPE, FlashAttention-style tiles (flash_attention.py) or, in
                 compiled code on a CPU, a C++ kernel (native/)
rms_norm.py      RMSNorm with a derived backward; triton_norms.py and triton_attention.py for GPUs
chunked_loss.py  the loss without its logits (transformer.py stops before them); loss.py decides when
adamw.py         the update rule of AdamW, compiled
compilation.py   torch.compile where it works; training.py: the whole step; native/: ahead of time
cached.py        keys and values kept while a text grows; decoding.py: many texts, one compiled step
                 per token; sampling.py: sampling for a compiler
activation_checkpointing.py  less memory for more time
text/            the tokenizer on arrays and several processes

What none of this needs is imported before it is used: encoding a text imports no torch.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

    from cs_basics.fast.loss import LossFunction
    from cs_basics.variants.config import ModelConfig

Thing = TypeVar("Thing")

TWINS = {
    "cs_basics.layers.Embedding": "cs_basics.fast.native.lookup.OrderedEmbedding",
    "cs_basics.layers.SwiGLU": "cs_basics.fast.layers.FusedSwiGLU",
    "cs_basics.attention.CausalSelfAttention": "cs_basics.fast.attention.FlashSelfAttention",
    "cs_basics.variants.attention.GroupedQueryAttention": (
        "cs_basics.fast.attention.FlashGroupedQueryAttention"
    ),
    "cs_basics.norms.RMSNorm": "cs_basics.fast.rms_norm.FusedRMSNorm",
    "cs_basics.variants.norms.LlamaRMSNorm": "cs_basics.fast.rms_norm.FusedLlamaRMSNorm",
    "cs_basics.transformer.TransformerLM": "cs_basics.fast.transformer.FastTransformerLM",
    "cs_basics.optim.AdamW": "cs_basics.fast.adamw.OnePassAdamW",
    "cs_basics.generate.generate": "cs_basics.fast.cached.generate",
    "cs_basics.tokenizer.Tokenizer": "cs_basics.fast.text.tokenizer.FastTokenizer",
    "cs_basics.bpe.train_bpe": "cs_basics.fast.text.train_bpe.train_bpe",
}
"""The clear thing, and what computes the same faster."""


def accelerate(thing: Thing) -> Thing:
    """Return what computes the same faster.

    Args:
        thing: A class or function, whose twin is returned; or a model, whose parts are exchanged
            in place (the parameters stay the same objects). Anything unknown is returned as it is.
    """
    if hasattr(thing, "named_modules") and not isinstance(thing, type):
        for module in list(thing.modules()):  # pyright: ignore[reportAttributeAccessIssue]
            module.__class__ = _twin_of(type(module))
        return thing
    return _twin_of(thing)


def _twin_of(thing: Any) -> Any:  # noqa: ANN401  a class or a function
    """Return the twin of a class or function of the book; of anything else, itself."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    twin = TWINS.get(f"{module}.{name}")
    if twin is None or thing is not getattr(sys.modules.get(module or ""), name or "", None):
        return thing
    module, _, name = twin.rpartition(".")
    return getattr(import_module(module), name)


def compile_training(
    model: "torch.nn.Module",
    config: "ModelConfig",
    optimizer: "torch.optim.Optimizer",
    dtype: "torch.dtype",
    num_rows: int,
    *,
    is_alone: bool = True,
    checkpoints_activations: bool = False,
) -> "LossFunction":
    """Compile the loss of a model, which is returned, and the update of its optimizer.

    Where something cannot be compiled, a logged line says why and it runs uncompiled.

    Args:
        model: The model that is trained.
        config: What it was built from.
        optimizer: Updates its weights.
        dtype: Type of the matrix products.
        num_rows: Sequences of a batch.
        is_alone: Whether no other process trains the same model.
        checkpoints_activations: Whether `checkpoint_blocks` was called on the model.
    """
    from cs_basics.fast.training import compile_training

    return compile_training(
        model,
        config,
        optimizer,
        dtype,
        num_rows,
        is_alone=is_alone,
        checkpoints_activations=checkpoints_activations,
    )


def checkpoint_blocks(model: "torch.nn.Module") -> None:
    """Keep only what enters each block and compute the rest again in the backward, in place."""
    from cs_basics.fast.activation_checkpointing import checkpoint_blocks

    checkpoint_blocks(model)
