"""Your model, built as a ModelConfig describes it."""

from dataclasses import asdict

import torch
from cs_basics.variants.config import ModelConfig

from cs_basics.transformer import TransformerLM


class Transformer(TransformerLM):
    """Your TransformerLM, built from a configuration.

    Args:
        config: The sizes.
        device: Where the weights live.
        dtype: Float type of the weights.
    """

    def __init__(
        self,
        config: ModelConfig,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(**asdict(config), device=device, dtype=dtype)
        # generate.py reads both, which a model of yours need not keep.
        for name in ("vocab_size", "context_length"):
            if not hasattr(self, name):
                setattr(self, name, getattr(config, name))
