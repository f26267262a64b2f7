"""Add + norm in one: the norm reads the rounded sum or the unrounded one."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from cs_basics.norms import RMSNorm
from cs_basics.run.model_config import ModelConfig
from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.model import Transformer
from lab.claims.measures.draws import normal
from lab.claims.rules import Figures
from lab.norms.add_rms_norm import (
    add_and_normalise,
    add_rms_norm,
    add_rms_norm_,
    add_rms_norm_unrounded,
)

D = 512
Form = Callable[[RMSNorm, Tensor, Tensor], tuple[Tensor, Tensor]]


def engine_lines(norm: RMSNorm, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the lines of inference engines return where nothing aliases."""
    total = x.float() + residual.float()
    normed = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + norm.eps)
    return (normed * norm.weight).to(x.dtype), total.to(x.dtype)


def in_place(norm: RMSNorm, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """Return what is written over copies of the inputs."""
    return add_rms_norm_(norm, x.clone(), residual.clone())


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


def carried_logits(model: TransformerLM, ids: Tensor, *, keeps_stream: bool = True) -> Tensor:
    """Run a model such that every norm but the first adds what the part before it gave.

    Args:
        model: Its weights are used.
        ids: Tokens, (batch, positions).
        keeps_stream: False: forget the stream after the first block, a mistake.
    """
    x, residual = model.token_embeddings(ids), None
    for block in model.layers:
        assert isinstance(block, TransformerBlock)
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
    """Largest difference of logits, carried stream / plain model, and likeliest tokens."""
    torch.manual_seed(seed)
    config = ModelConfig(vocab_size=256, context_length=32, d_model=128, d_ff=344, num_heads=4)
    model = Transformer(config, dtype=getattr(torch, dtype))
    ids = torch.randint(256, (4, 32))
    plain, other = model(ids), carried_logits(model, ids, keeps_stream=keeps_stream)
    return {
        "difference": (plain - other).abs().max().item(),
        "largest_logit": plain.abs().max().item(),
    }


FORMS: Mapping[str, Form] = {
    "rounded": add_rms_norm,
    "unrounded": add_rms_norm_unrounded,
    "in place": in_place,
    "the engines' lines": engine_lines,
    "without the addition": lambda norm, x, residual: (norm(x), residual),
    "the module": lambda norm, x, residual: optional(norm)(x, residual),
    "the module without residual": lambda norm, x, residual: (optional(norm)(x), residual + x),
}


@torch.no_grad()
def compare(
    seed: int,
    *,
    one: str,
    other: str,
    dtype: str = "bfloat16",
    compiled: bool = False,
    update: float = 1.0,
    stream: float = 0.0,
) -> Figures:
    """Compare two forms: normalised values, the stream, and errors against float64.

    Args:
        seed: Decides the vectors.
        one: A key of FORMS.
        other: Another; compiled or not.
        dtype: Of x and of the stream.
        compiled: Compile the other form.
        update: Size of x.
        stream: Mean of the residual stream, whose spread is 10.
    """
    kind, norm = getattr(torch, dtype), RMSNorm(D)
    x = (update * normal(seed, 200, D).clamp(-1, 1)).to(kind)
    residual = (stream + 10 * normal(seed + 1, 200, D)).to(kind)
    right, _ = add_rms_norm(RMSNorm(D).double(), x.double(), residual.double())
    second = FORMS[other]
    if compiled:
        torch.compiler.reset()
        second = torch.compile(second, fullgraph=True)
    (y, total), (z, other_total) = FORMS[one](norm, x, residual), second(norm, x, residual)
    return {
        "difference": (y.double() - z.double()).abs().max().item(),
        "differ_percent": share(y != z),
        "stream_differ_percent": share(total != other_total),
        "arrived_percent": share(total != residual),
        "error_one_percent": 100 * ((y - right).norm() / right.norm()).item(),
        "error_other_percent": 100 * ((z - right).norm() / right.norm()).item(),
    }


def share(condition: Tensor) -> float:
    """Return the share that is true, in percent."""
    return 100 * condition.double().mean().item()
