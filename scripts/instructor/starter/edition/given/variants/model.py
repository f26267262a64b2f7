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
    """Return a freshly initialised TransformerLM.

    Raises:
        ValueError: The configuration is of an ensemble (`build_models` of ensemble.py builds it).
    """
    sizes = asdict(config)
    if (num_models := sizes.pop("num_models")) > 1:
        raise ValueError(
            f"num_models={num_models}: this needs one model: train with --num-models 1"
        )
    return TransformerLM(**sizes, device=device, dtype=dtype)
