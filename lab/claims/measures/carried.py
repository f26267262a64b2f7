"""A norm that adds first, and a model whose norms carry the residual stream."""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from cs_basics.variants.model import Transformer
from lab.claims.measures.depth import SHAPE
from lab.claims.measures.draws import largest
from lab.claims.rules import Figures
from lab.norms.add_rms_norm import add_and_normalise


class OptionalResidualNorm(RMSNorm):
    """The module that circulates: given a residual, it adds first, and returns two tensors."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]  that is the form
        self, x: Tensor, residual: Tensor | None = None
    ) -> Any:  # noqa: ANN401
        """Return RMSNorm(x), or with a residual the normalised unrounded sum and the sum."""
        if residual is None:
            return super().forward(x)
        return add_and_normalise(self, x, residual, reads_rounded=False)


def optional(norm: RMSNorm) -> OptionalResidualNorm:
    """Return the module with the weights of a norm."""
    module = OptionalResidualNorm(norm.d_model, norm.eps)
    module.weight = norm.weight
    return module


def carried_logits(model: Any, ids: Tensor, *, keeps_stream: bool) -> Tensor:  # noqa: ANN401
    """Run a model such that every norm but the first adds what the part before it gave.

    Args:
        model: Its weights are used.
        ids: Tokens, (batch, positions).
        keeps_stream: False: forget the stream after the first block, a mistake.
    """
    x, residual = model.token_embeddings(ids), None
    for block in model.layers:
        for norm, part in ((block.ln1, block.attn), (block.ln2, block.ffn)):
            if residual is None:
                residual, x = x, optional(norm)(x)
            else:
                x, residual = optional(norm)(x, residual)
            x = part(x)
        residual = residual if keeps_stream else torch.zeros_like(x)
    x, _ = optional(model.ln_final)(x, residual)
    return model.lm_head(x)


@torch.no_grad()
def carried(seed: int, *, dtype: str, keeps_stream: bool = True) -> Figures:
    """Largest difference of logits between the carried stream and the plain model."""
    torch.manual_seed(seed)
    model = Transformer(dataclasses.replace(SHAPE, num_layers=4), dtype=getattr(torch, dtype))
    ids = torch.randint(256, (4, 32))
    plain, other = model(ids), carried_logits(model, ids, keeps_stream=keeps_stream)
    return {"difference": largest(plain - other)}
