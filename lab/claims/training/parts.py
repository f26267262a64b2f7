"""Small trainings with other feed-forward parts."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cs_basics.transformer import TransformerBlock
from cs_basics.variants.feed_forward import FeedForward
from lab.claims.claim import NOT_SEEN, Values, claim
from lab.claims.training.quality import (
    D_MODEL,
    compared,
    first_is_better,
)
from lab.claims.trainings import Trained

PLAIN = {"relu": "ReLU", "gelu": "GELU", "relu-squared": "ReLU squared"}


@claim(
    "dead-units",
    lambda v: v["ReLU: dead units, %"].least > 10 or NOT_SEEN,
    trains={PLAIN[kind]: {"ffn": kind, "d_ff": 4 * D_MODEL} for kind in ("relu", "relu-squared")},
)
@torch.no_grad()
def dead_units(runs: Mapping[str, Trained]) -> Values:
    """Share of hidden units that are never above 0 on 64 validation sequences."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        model, highest = run.model(), list[Tensor]()

        def note(
            _module: nn.Module, _inputs: object, hidden: Tensor, to: list[Tensor] = highest
        ) -> None:
            to.append(hidden.flatten(0, -2).amax(0))

        for block in model.layers:
            assert isinstance(block, TransformerBlock)
            assert isinstance(block.ffn, FeedForward)
            block.ffn.w1.register_forward_hook(note)
        model(run.sequences()[:64, :-1])
        dead = torch.cat(highest) <= 0
        values[f"{name}: dead units, %"] = 100 * dead.double().mean().item()
    return values


for _kind, _name in PLAIN.items():
    compared(
        f"swiglu-{_kind}",
        {"SwiGLU": {}, f"{_name}, 4 d": {"ffn": _kind, "d_ff": 4 * D_MODEL}},
        first_is_better,
    )
