"""The smallest steps of AdamW that go wrong: one number, whole gradients, round options."""

from collections.abc import Callable
from typing import Any

import numpy as np
from oracles import training as oracles
from probes.training import optimize

from lab.places.matching import are_close
from lab.places.sentences import on_paper, shown

Run = Callable[..., Any]

OPTIONS: dict[str, Any] = {"lr": 0.5, "betas": (0.5, 0.75), "eps": 1e-8, "weight_decay": 0.0}
# Each asks for more than the one before: a step, the moments, the decay, several parameters. Where
# there is decay the gradient is 0, so that it may come before the update or after it.
ON_PAPER: tuple[tuple[list[list[float]], list[list[list[float]]], dict[str, float]], ...] = (
    ([[1.0]], [[[2.0]]], {}),
    ([[1.0]], [[[2.0]], [[-1.0]]], {}),
    ([[1.0]], [[[0.0]]], {"weight_decay": 0.5}),
    ([[1.0], [3.0]], [[[2.0], [1.0]], [[-1.0], [2.0]]], {}),
)


def smallest_steps(run: Run) -> str:
    """Show the first of a few small calls that fails; "" if none does."""
    for starts, rows, others in ON_PAPER:
        parameters = [np.array(start, np.float32) for start in starts]
        case: dict[str, Any] = {
            "groups": [{"params": parameters}],
            "options": {**OPTIONS, **others},
            "gradients": [[np.array(g, np.float32) for g in row] for row in rows],
        }
        got = [one["values"] for one in run(optimize, **case)["trail"][-1]]
        right = oracles.adamw(**case)[-1]
        if not all(are_close(np.asarray(g, float), r) for g, r in zip(got, right, strict=True)):
            options = ", ".join(f"{name}={value}" for name, value in case["options"].items())
            asked = (
                f"AdamW(parameters {', '.join(map(shown, parameters))}, {options}),"
                f" steps with gradients {'; '.join(map(str, rows))}"
            )
            return on_paper(asked, *(", ".join(map(shown, values)) for values in (got, right)))
    return ""
