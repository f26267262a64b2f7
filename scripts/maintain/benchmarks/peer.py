"""The model of the transformers package that ours is compared to, and ours of the same shape."""

import importlib
from typing import Any

import torch

from cs_basics.run.config import TrainConfig
from cs_basics.run.folder import build_model
from cs_basics.transformer import TransformerLM

SHAPE = TrainConfig(
    vocab_size=10_000,
    context_length=256,
    d_model=256,
    d_ff=688,
    num_layers=4,
    num_heads=8,
    batch_size=16,
    max_steps=1,
    merge_projections=True,
)
"""A model that a laptop trains in a night."""


def ours(shape: TrainConfig = SHAPE, seed: int = 0) -> TransformerLM:
    """Return our model of a shape, freshly initialised."""
    torch.manual_seed(seed)
    return build_model(shape)


def llama(shape: TrainConfig = SHAPE, dtype: torch.dtype = torch.float32) -> Any:  # noqa: ANN401
    """Return LlamaForCausalLM of the same shape: SDPA attention, untied head.

    Raises:
        ValueError: transformers is not installed.
    """
    try:
        package = importlib.import_module("transformers")
    except ImportError as error:
        raise ValueError(f"the peer needs transformers: pip install transformers ({error})") from (
            None
        )
    config = package.LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.d_model,
        intermediate_size=shape.d_ff,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        max_position_embeddings=shape.context_length,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        attn_implementation="sdpa",
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    return package.LlamaForCausalLM(config).to(dtype)
