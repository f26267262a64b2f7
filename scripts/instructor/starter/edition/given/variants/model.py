"""Your model, built as a ModelConfig describes it."""

from dataclasses import asdict

import torch

from cs_basics.transformer import TransformerLM
from cs_basics.variants.config import ModelConfig


def build_model(
    config: ModelConfig,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> TransformerLM:
    """Return a freshly initialised TransformerLM."""
    model = TransformerLM(**asdict(config), device=device, dtype=dtype)
    # generate.py reads both, which a model of yours need not keep.
    for name in ("vocab_size", "context_length"):
        if not hasattr(model, name):
            setattr(model, name, getattr(config, name))
    return model
