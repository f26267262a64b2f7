"""The same results, faster: the one door from the book to speed.

`accelerate(thing)` exchanges what the two tables below name, by identity: a class of the same name
that somebody else wrote is never touched, and what is in no table is returned as it is. The twin of
a module is a subclass that shares its parameters and overrides `forward`: state dicts, optimizers
and checkpoints see no difference. `compile_training` compiles the step made of these parts. Every
twin has a test of equality with what it replaces.

layers.py        one matrix product for W1 and W3 of SwiGLU
attention.py     fused QKV, half-split RoPE, FlashAttention-style tiles (flash_attention.py) or, in
                 compiled code on a CPU, a C++ kernel (native/)
rms_norm.py      RMSNorm with a derived backward; triton_norms.py and triton_attention.py for GPUs
chunked_loss.py  the loss without its logits (transformer.py stops before them); loss.py decides
adamw.py         the update rule of AdamW, compiled
compilation.py   torch.compile where it works; training.py: the whole step; native/: ahead of time
cached.py        keys and values kept while a text grows; decoding.py: many texts, one compiled step
                 per token; sampling.py: sampling for a compiler
activation_checkpointing.py  less memory for more time
text/            the tokenizer on arrays and several processes

What none of this needs is imported before it is used: encoding a text imports no torch.
"""

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from cs_basics.fast.loss import LossFunction
    from cs_basics.variants.config import ModelConfig

Thing = TypeVar("Thing")


def accelerate(thing: Thing) -> Thing:
    """Return what computes the same faster.

    Args:
        thing: A class or function, whose twin is returned; or a model, whose parts are exchanged
            in place (the parameters stay the same objects). Anything unknown is returned as it is.
    """
    if hasattr(thing, "named_modules") and not isinstance(thing, type):
        twins = twins_of_the_model()
        for module in list(thing.modules()):  # pyright: ignore[reportAttributeAccessIssue]
            module.__class__ = twins.get(type(module), type(module))
        return thing
    # By identity: a dictionary of classes and functions compares them so.
    of_text = getattr(thing, "__module__", None) in ("cs_basics.tokenizer", "cs_basics.bpe")
    return (twins_of_the_tokenizer() if of_text else twins_of_the_model()).get(thing, thing)


def twins_of_the_model() -> dict[Any, Any]:
    """Return the table of model, optimizer and generation: the clear thing, and its fast twin."""
    from cs_basics.attention import CausalSelfAttention
    from cs_basics.fast.adamw import OnePassAdamW
    from cs_basics.fast.attention import FlashGroupedQueryAttention, FlashSelfAttention
    from cs_basics.fast.cached import generate as generate_with_cache
    from cs_basics.fast.layers import FusedSwiGLU
    from cs_basics.fast.native.lookup import OrderedEmbedding
    from cs_basics.fast.rms_norm import FusedLlamaRMSNorm, FusedRMSNorm
    from cs_basics.fast.transformer import FastTransformerLM
    from cs_basics.generate import generate
    from cs_basics.layers import Embedding, SwiGLU
    from cs_basics.norms import RMSNorm
    from cs_basics.optim import AdamW
    from cs_basics.transformer import TransformerLM
    from cs_basics.variants.attention import GroupedQueryAttention
    from cs_basics.variants.norms import LlamaRMSNorm

    return {
        Embedding: OrderedEmbedding,
        RMSNorm: FusedRMSNorm,
        LlamaRMSNorm: FusedLlamaRMSNorm,
        CausalSelfAttention: FlashSelfAttention,
        GroupedQueryAttention: FlashGroupedQueryAttention,
        SwiGLU: FusedSwiGLU,
        TransformerLM: FastTransformerLM,
        AdamW: OnePassAdamW,
        generate: generate_with_cache,
    }


def twins_of_the_tokenizer() -> dict[Any, Any]:
    """Return the table of the tokenizer, which imports no torch."""
    from cs_basics.bpe import train_bpe
    from cs_basics.fast.text.tokenizer import FastTokenizer
    from cs_basics.fast.text.train_bpe import train_bpe as train_bpe_in_parallel
    from cs_basics.tokenizer import Tokenizer

    return {
        Tokenizer: FastTokenizer,
        train_bpe: train_bpe_in_parallel,
    }


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


def batch_generator(model: "torch.nn.Module") -> "Callable[..., Iterator[list[int | None]]] | None":
    """Return `generate_batch` of decoding.py, or None for a model whose parts it does not know."""
    from cs_basics.fast.cached import decoding_model
    from cs_basics.fast.decoding import generate_batch

    return None if decoding_model(model) is None else generate_batch


def compile_if_possible(function: Thing, device: "torch.device") -> Thing:
    """Return the compiled function, or the function itself and a logged warning that says why."""
    from cs_basics.fast.compilation import compile_if_possible

    return compile_if_possible(function, device)  # pyright: ignore[reportArgumentType, reportReturnType]
