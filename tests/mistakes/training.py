"""Mistakes in AdamW, clipping and the schedule."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from oracles.model import Array, wide
from oracles.training import joint_norm

from mistakes.functions import Answers, quietly


@quietly
def adamw(
    groups: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    gradients: Sequence[Sequence[Array | None]],
    rates: Sequence[float] | None = None,
) -> dict[str, list[list[Array]]]:
    """Trails of parameters under each mistake, by a small AdamW with a switch for each."""
    arguments = groups, options, gradients, rates
    switches = {
        "weight decay is added to the gradient (that is Adam with L2, not AdamW)": "l2",
        "bias correction is missing": "no correction",
        "the first moment's bias is not corrected": "no first correction",
        "the second moment's bias is not corrected": "no second correction",
        "the step is counted from 0 in the bias correction": "from 0",
        "the step is one too many in the bias correction": "from 2",
        "the two betas are swapped": "swapped",
        "the decay is not multiplied by the learning rate": "decay without rate",
        "the decay uses the bias-corrected rate: use lr itself": "corrected decay",
        "there is no weight decay": "no decay",
        "weight decay has the wrong sign": "growing",
        "eps is added inside the root": "eps inside",
        "eps is missing": "no eps",
        "the root of the second moment is missing": "no root",
        "the second moment keeps the gradient, not its square": "no square",
        "one step counter is shared by all parameters": "shared counter",
        "a step without a gradient is counted too": "count missing",
        "a missing gradient is treated as zero": "zero gradient",
        "the learning rate is fixed at construction: read it from the group at every step": "fixed",
        "all groups use the options of the first group": "first group",
        "all groups use the constructor's defaults": "defaults only",
    }
    return {what: faulty_adamw(fault, *arguments) for what, fault in switches.items()}


def faulty_adamw(
    fault: str,
    groups: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    gradients: Sequence[Sequence[Array | None]],
    rates: Sequence[float] | None,
) -> list[list[Array]]:
    first = {**options, **{k: v for k, v in groups[0].items() if k != "params"}}
    states = []
    for group in groups:
        own = {**options, **{k: v for k, v in group.items() if k != "params"}}
        own = {"first group": first, "defaults only": dict(options)}.get(fault, own)
        states += [
            {**own, "p": wide(array), "m": 0.0, "v": 0.0, "t": 0} for array in group["params"]
        ]
    trail, shared = [], 0
    for step, row in enumerate(gradients):
        for s, g in zip(states, row, strict=True):
            if g is None and fault == "zero gradient":
                g = np.zeros_like(s["p"])
            if g is None:
                s["t"] += fault == "count missing"
                continue
            lr = s["lr"] if rates is None or fault == "fixed" else rates[step]
            faulty_update(fault, s, wide(g), lr, shared := shared + 1)
        trail.append([s["p"] for s in states])
    return trail


def faulty_update(fault: str, s: dict[str, Any], g: Array, lr: float, shared: int) -> None:
    beta1, beta2 = s["betas"][::-1] if fault == "swapped" else s["betas"]
    decay, eps = s["weight_decay"], s["eps"]
    s["t"] += 1
    t = shared if fault == "shared counter" else s["t"]
    t += {"from 0": -1, "from 2": 1}.get(fault, 0)
    if fault == "l2":
        g = g + decay * s["p"]
    s["m"] = beta1 * s["m"] + (1 - beta1) * g
    s["v"] = beta2 * s["v"] + (1 - beta2) * (g if fault == "no square" else g**2)
    correct1 = fault not in ("no correction", "no first correction")
    correct2 = fault not in ("no correction", "no second correction")
    m_hat = s["m"] / np.float64(1 - beta1**t) if correct1 else s["m"]
    v_hat = s["v"] / np.float64(1 - beta2**t) if correct2 else s["v"]
    root = v_hat if fault == "no root" else np.sqrt(v_hat)
    below = {"eps inside": np.sqrt(v_hat + eps), "no eps": root}.get(fault, root + eps)
    corrected = lr * np.sqrt(1 - beta2**t) / (1 - beta1**t) if fault == "corrected decay" else lr
    rate = {"decay without rate": 1.0, "l2": 0.0, "no decay": 0.0, "growing": -lr}
    s["p"] = s["p"] - rate.get(fault, corrected) * decay * s["p"] - lr * m_hat / below


@quietly
def clipping(gradients: Sequence[Array | None], max_l2_norm: float) -> dict[str, list[Any]]:
    norm = joint_norm(gradients)
    given = [None if g is None else wide(g) for g in gradients]

    def scaled(factor: Callable[[Array], float]) -> list[Any]:
        return [None if g is None else g * factor(g) for g in given]

    def each(g: Array) -> float:
        own = float(np.linalg.norm(g))
        return max_l2_norm / (own + 1e-6) if own > max_l2_norm else 1.0

    present = [g for g in given if g is not None]
    total = sum(float(np.abs(g).sum()) for g in present)
    top = max((float(np.abs(g).max()) for g in present), default=0.0)
    return {
        "nothing is clipped (a generator of parameters can be walked through only once)": scaled(
            lambda _: 1.0
        ),
        "each gradient is clipped by its own norm, not by the joint one": scaled(each),
        "values are clamped, not scaled": [
            None if g is None else np.clip(g, -max_l2_norm, max_l2_norm) for g in given
        ],
        "the root is missing from the norm": scaled(lambda _: max_l2_norm / (norm**2 + 1e-6)),
        "the L1 norm is used": scaled(lambda _: max_l2_norm / (total + 1e-6)),
        "the largest value stands in for the norm": scaled(lambda _: max_l2_norm / (top + 1e-6)),
        "gradients are normalised to length 1, max_l2_norm is forgotten": scaled(
            lambda _: 1 / (norm + 1e-6)
        ),
        "gradients below the bound are scaled up to it": scaled(lambda _: max_l2_norm / norm),
        "gradients below the bound are scaled up to it, too": scaled(
            lambda _: max_l2_norm / (norm + 1e-6)
        ),
        "the 1e-6 below the fraction is missing": scaled(lambda _: max_l2_norm / norm),
        "norms are added up instead of their squares": scaled(
            lambda _: max_l2_norm / (sum(float(np.linalg.norm(g)) for g in present) + 1e-6)
        ),
    }


@quietly
def schedule(iterations: Sequence[int], settings: Mapping[str, Any]) -> Answers:
    top, floor = settings["max_learning_rate"], settings["min_learning_rate"]
    warm, cycle = settings["warmup_iters"], settings["cosine_cycle_iters"]

    def run(
        up: Callable[[int], float] = lambda it: it / warm * top,
        progress: Callable[[int], float] = lambda it: (it - warm) / (cycle - warm),
        low: float = floor,
        after: Callable[[float], float] = lambda _: floor,
        wave: Callable[[float], float] = lambda t: 0.5 * (1 + math.cos(math.pi * t)),
    ) -> Array:
        rates = []
        for it in iterations:
            if it < warm:
                rates.append(up(it))
            elif it > cycle:
                rates.append(after(low + wave(min(progress(it), 1e9)) * (top - low)))
            else:
                rates.append(low + wave(progress(it)) * (top - low))
        return np.array(rates)

    if warm in (0, cycle):
        return {}
    return {
        "the warm-up is off by one, (it + 1) / warmup_iters": run(lambda it: (it + 1) / warm * top),
        "the warm-up starts at the minimum": run(lambda it: floor + it / warm * (top - floor)),
        "there is no warm-up": run(lambda _: top),
        "the rate does not stay at the minimum after the cycle: the cosine rises again": run(
            after=lambda rate: rate
        ),
        "the rate is 0 after the cycle instead of the minimum": run(after=lambda _: 0.0),
        "the rate falls to 0 instead of the minimum": run(low=0.0),
        "the rate falls to 0 and then jumps to 0": run(low=0.0, after=lambda _: 0.0),
        "the cosine ignores the warm-up: it / cosine_cycle_iters": run(
            progress=lambda it: it / cycle
        ),
        "the cosine lasts for cosine_cycle_iters after the warm-up": run(
            progress=lambda it: (it - warm) / cycle
        ),
        "the decay is linear, not a cosine": run(wave=lambda t: 1 - t),
        "the cosine runs a full period: use pi, not 2 pi": run(
            wave=lambda t: 0.5 * (1 + math.cos(2 * math.pi * t))
        ),
        "the cosine runs a quarter period": run(wave=lambda t: math.cos(math.pi * t / 2)),
        "the cosine is one step late": run(progress=lambda it: (it - warm - 1) / (cycle - warm)),
        "the cosine is one step early": run(progress=lambda it: (it - warm + 1) / (cycle - warm)),
        "the factor 1/2 is missing": run(wave=lambda t: 1 + math.cos(math.pi * t)),
    }
