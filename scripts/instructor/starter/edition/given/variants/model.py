"""Your model, built as a ModelConfig describes it."""

from dataclasses import fields

import torch

from cs_basics.transformer import TransformerLM
from cs_basics.variants.config import ModelConfig

SIZES = (
    "vocab_size", "context_length", "d_model", "num_layers", "num_heads", "d_ff", "rope_theta",
)  # fmt: skip


def build_model(
    config: ModelConfig,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> TransformerLM:
    """Return a freshly initialised TransformerLM.

    Raises:
        ValueError: The configuration asks for another model.
    """
    for field in fields(ModelConfig):
        value = getattr(config, field.name)
        if field.name not in SIZES and value != field.default:
            raise ValueError(
                f"{field.name}={value}: the student edition builds the model of the handout only, "
                f"{field.name}={field.default}"
            )
    sizes = {name: getattr(config, name) for name in SIZES}
    return TransformerLM(**sizes, device=device, dtype=dtype)
