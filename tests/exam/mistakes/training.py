"""Mistakes in AdamW, clipping and the schedule."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from oracles import CHOSEN
from oracles.model import Array, rounded, wide
from oracles.training import joint_norm

from mistakes.functions import Answers, quietly


@quietly
def adamw(
    groups: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    gradients: Sequence[Sequence[Array | None]],
    rates: Sequence[float] | None = None,
    changes: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, list[list[Array]]]:
    """Trails of parameters under each mistake, by a small AdamW with a switch for each."""
    arguments = groups, options, gradients, rates, changes
    switches = {
        "weight decay is added to the gradient (that is Adam with L2, not AdamW)": "l2",
        "bias correction is missing": "no correction",
        "the first moment's bias is not corrected": "no first correction",
        "the second moment's bias is not corrected": "no second correction",
        "the step is counted from 0 in the bias correction": "from 0",
        "the step is one too many in the bias correction": "from 2",
        "the step is always 1 in the bias correction": "always 1",
        "the squared gradient is added to the second moment without 1 - beta2": "unweighted",
        "the two betas are swapped": "swapped",
        "the decay is not multiplied by the learning rate": "decay without rate",
        "the decay uses the bias-corrected rate: use lr itself": "corrected decay",
        "no parameter changes: p = p - ... makes a new tensor, so update in place (p.sub_)": (
            "frozen"
        ),
        "there is no weight decay": "no decay",
        "weight decay has the wrong sign": "growing",
        "eps is added inside the root": "eps inside",
        "eps is missing": "no eps",
        "the root of the second moment is missing": "no root",
        "one step counter is shared by all parameters": "shared counter",
        "a step without a gradient is counted too: each parameter counts its own steps": (
            "count missing"
        ),
        "a missing gradient is treated as zero": "zero gradient",
        "the learning rate is fixed at construction: read it from the group at every step": "fixed",
        "the learning rate is fixed at construction, and one for all groups: read it from the group"
        " at every step": "one rate",
        "an option is fixed at construction: read all from the group at every step": "all fixed",
        "all groups use the options of the first group": "first group",
        "all groups use the constructor's defaults": "defaults only",
        "only the first group is updated": "only first",
        "the betas are always 0.9 and 0.999: the argument is ignored": "usual betas",
        "the betas are always 0.9 and 0.95: the argument is ignored": "other betas",
        "eps is always 1e-8: the argument is ignored": "usual eps",
        "weight_decay is always 0.01: the argument is ignored": "usual decay",
        "the decay is subtracted and added to the gradient as well": "both",
        "the second moment is corrected with beta1": "beta1 for both",
        "the bias correction uses beta * t instead of beta ** t": "times",
        "the update is added instead of subtracted": "ascent",
        "the second moment never falls (that is AMSGrad)": "amsgrad",
        "the moments are kept in bfloat16": "bfloat16",
        "only matrices are decayed": "matrices",
        "each gradient is scaled to length 1 first": "unit gradient",
        "gradients longer than 1 are cut to length 1 first": "cut gradient",
    }
    if "decay_last" in CHOSEN:
        switches["the parameter is decayed before its update, not after it"] = "decay first"
    return {what: faulty_adamw(fault, *arguments) for what, fault in switches.items()}


@quietly
def recounting_adamw(
    groups: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    gradients: Sequence[Sequence[Array | None]],
    restart_after: int,
) -> list[list[Array]]:
    """All parameters after each step if the moments outlive a restart and the steps do not."""
    return faulty_adamw(f"restart {restart_after}", groups, options, gradients, None)


def faulty_adamw(
    fault: str,
    groups: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    gradients: Sequence[Sequence[Array | None]],
    rates: Sequence[float] | None,
    changes: Sequence[Mapping[str, Any]] | None = None,
) -> list[list[Array]]:
    first = {**options, **{k: v for k, v in groups[0].items() if k != "params"}}
    states = []
    for group in groups:
        own = {**options, **{k: v for k, v in group.items() if k != "params"}}
        own = {"first group": first, "defaults only": dict(options)}.get(fault, own)
        is_idle = fault == "only first" and group is not groups[0]
        states += [
            {**own, "first lr": own["lr"], "p": wide(array), "m": 0.0, "v": 0.0, "t": 0}
            | {"is idle": is_idle}
            for array in group["params"]
        ]
    trail, shared = [], 0
    for step, row in enumerate(gradients):
        for s, g in zip(states, row, strict=True):
            is_read = fault not in ("all fixed", "defaults only")
            s |= changes[step] if changes and is_read else {}
            s["t"] = 0 if fault == f"restart {step}" else s["t"]
            if g is None and fault == "zero gradient":
                g = np.zeros_like(s["p"])
            if g is None or s["is idle"] or fault == "frozen":
                s["t"] += fault == "count missing"
                continue
            lr = s["lr"] if rates is None or fault == "defaults only" else rates[step]
            lr = {"fixed": s["first lr"], "one rate": options["lr"]}.get(fault, lr)
            faulty_update(fault, s, wide(g), lr, shared := shared + 1)
        trail.append([s["p"] for s in states])
    return trail


def faulty_update(fault: str, s: dict[str, Any], g: Array, lr: float, shared: int) -> None:
    others = {
        "swapped": s["betas"][::-1],
        "usual betas": (0.9, 0.999),
        "other betas": (0.9, 0.95),
    }
    beta1, beta2 = others.get(fault, s["betas"])
    decay = 0.01 if fault == "usual decay" else s["weight_decay"]
    eps = 1e-8 if fault == "usual eps" else s["eps"]
    s["t"] += 1
    t = {"shared counter": shared, "always 1": 1}.get(fault, s["t"])
    t += {"from 0": -1, "from 2": 1}.get(fault, 0)
    length = float(np.linalg.norm(g))
    if fault == "unit gradient" or (fault == "cut gradient" and length > 1):
        g = g / (length + 1e-6)
    if fault == "matrices" and np.ndim(s["p"]) < 2:
        decay = 0.0
    if fault in ("l2", "both"):
        g = g + decay * s["p"]
    s["m"] = beta1 * s["m"] + (1 - beta1) * g
    share = 1 if fault == "unweighted" else 1 - beta2
    s["v"] = beta2 * s["v"] + share * g**2
    if fault == "bfloat16":
        s["m"], s["v"] = rounded(s["m"], "bfloat16"), rounded(s["v"], "bfloat16")
    correct1 = fault not in ("no correction", "no first correction")
    correct2 = fault not in ("no correction", "no second correction")
    first, second = (beta1 * t, beta2 * t) if fault == "times" else (beta1**t, beta2**t)
    second = beta1**t if fault == "beta1 for both" else second
    m_hat = s["m"] / np.float64(1 - first) if correct1 else s["m"]
    v_hat = s["v"] / np.float64(1 - second) if correct2 else s["v"]
    if fault == "amsgrad":
        v_hat = s["top"] = np.maximum(s.get("top", 0.0), v_hat)
    root = v_hat if fault == "no root" else np.sqrt(v_hat)
    below = {"eps inside": np.sqrt(v_hat + eps), "no eps": root}.get(fault, root + eps)
    corrected = lr * np.sqrt(1 - beta2**t) / (1 - beta1**t) if fault == "corrected decay" else lr
    rate = {"decay without rate": 1.0, "l2": 0.0, "no decay": 0.0, "growing": -lr}
    lr = -lr if fault == "ascent" else lr
    # Counted from 0, the first step divides by 0: who avoids that with some eps does not move.
    update = np.zeros_like(below) if t == 0 else lr * m_hat / below
    kept = 1 - rate.get(fault, corrected) * decay
    is_decay_last = "decay_last" in CHOSEN and fault != "decay first"
    s["p"] = (s["p"] - update) * kept if is_decay_last else s["p"] * kept - update


@quietly
def clipping(gradients: Sequence[Array | None], max_l2_norm: float) -> dict[str, list[Any]]:
    norm = joint_norm(gradients)
    given = [None if g is None else wide(g) for g in gradients]

    def scaled(factor: Callable[[Array], float]) -> list[Any]:
        return [None if g is None else g * factor(g) for g in given]

    def each(g: Array) -> float:
        own = float(np.linalg.norm(g))
        return max_l2_norm / (own + 1e-6) if own > max_l2_norm else 1.0

    right = max_l2_norm / (norm + 1e-6) if norm > max_l2_norm else 1.0

    present = [g for g in given if g is not None]
    norms = [float(np.linalg.norm(g)) for g in present] or [0.0]
    total = sum(float(np.abs(g).sum()) for g in present)
    top = max((float(np.abs(g).max(initial=0)) for g in present), default=0.0)
    places = [place for place, g in enumerate(given) if g is not None]
    count = max(len(places), 1)
    matrices = [g for g in present if g.ndim == 2]
    last = places[-1] if places else 0
    end = next((place for place, g in enumerate(given) if g is None), len(given))
    before = max_l2_norm / (joint_norm(gradients[:end]) + 1e-6)
    return {
        "nothing is clipped: p.grad * factor makes a new tensor, so scale in place (mul_)": scaled(
            lambda _: 1.0
        ),
        "each gradient is clipped by its own norm, not by the joint one": scaled(each),
        "values are clamped, not scaled": [
            None if g is None else np.clip(g, -max_l2_norm, max_l2_norm) for g in given
        ],
        "the root is missing from the norm": scaled(
            lambda _: max_l2_norm / (norm**2 + 1e-6) if norm**2 > max_l2_norm else 1.0
        ),
        "the root is missing from the norm that divides": scaled(
            lambda _: max_l2_norm / (norm**2 + 1e-6) if norm > max_l2_norm else 1.0
        ),
        "the L1 norm is used": scaled(lambda _: min(1.0, max_l2_norm / (total + 1e-6))),
        "the largest value stands in for the norm": scaled(
            lambda _: min(1.0, max_l2_norm / (top + 1e-6))
        ),
        "gradients are normalised to length 1, max_l2_norm is forgotten": scaled(
            lambda _: 1 / (norm + 1e-6)
        ),
        "what is clipped gets length 1, max_l2_norm is forgotten": scaled(
            lambda _: 1 / (norm + 1e-6) if norm > max_l2_norm else 1.0
        ),
        "gradients below the bound are scaled up to it": scaled(
            lambda _: max_l2_norm / norm if norm else 0.0
        ),
        "gradients below the bound are scaled up to it, too": scaled(
            lambda _: max_l2_norm / (norm + 1e-6)
        ),
        "the 1e-6 below the fraction is missing, or much smaller": scaled(
            lambda _: max_l2_norm / norm if norm > max_l2_norm else 1.0
        ),
        **{
            f"{other} is added to the norm, not 1e-6": scaled(
                lambda _, other=other: min(1.0, max_l2_norm / (norm + other))
            )
            for other in (1e-5, 1e-4, 1e-3)
        },
        "the norm is averaged over the parameters": scaled(
            lambda _: min(1.0, max_l2_norm / (norm / math.sqrt(count) + 1e-6))
        ),
        "only matrices are scaled": [
            None if g is None else g * (right if g.ndim == 2 else 1.0) for g in given
        ],
        "what follows the first parameter without a gradient is left out": [
            None if g is None else g * (min(1.0, before) if place < end else 1.0)
            for place, g in enumerate(given)
        ],
        "the last gradient is left out": [
            None if g is None else g * (1.0 if place == last else right)
            for place, g in enumerate(given)
        ],
        "the norm leaves out what is no matrix": scaled(
            lambda _: min(1.0, max_l2_norm / (joint_norm(matrices) + 1e-6))
        ),
        "the norm of the parameters is taken, not of their gradients": scaled(
            lambda _: min(1.0, max_l2_norm / (math.sqrt(sum(g.size for g in present)) + 1e-6))
        ),
        "gradients are divided by the norm and then clamped": [
            None if g is None else np.clip(g / (norm + 1e-6), -max_l2_norm, max_l2_norm)
            for g in given
        ],
        **{
            what: scaled(lambda _, of=of: min(1.0, max_l2_norm / (of(norms) + 1e-6)))
            for what, of in {
                "norms are added up instead of their squares": sum,
                "the largest norm of a gradient stands for the joint norm": max,
                "the smallest norm of a gradient stands for the joint norm": min,
                "the norm of the first gradient stands for the joint norm": lambda of: of[0],
                "the norm of the last gradient stands for the joint norm": lambda of: of[-1],
            }.items()
        },
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
    ) -> list[Array]:
        """With the end of the cycle as its last step, and as the first one after it."""
        return [at_end(up, progress, low, after, wave, is_last) for is_last in (True, False)]

    def at_end(
        up: Callable[[int], float],
        progress: Callable[[int], float],
        low: float,
        after: Callable[[float], float],
        wave: Callable[[float], float],
        is_last: bool,
    ) -> Array:
        rates = []
        for it in iterations:
            if it < warm:
                rates.append(up(it))
            elif it > cycle or (it == cycle and not is_last):
                rates.append(after(low + wave(min(progress(it), 1e9)) * (top - low)))
            else:
                rates.append(low + wave(progress(it)) * (top - low))
        return np.array(rates)

    if warm in (0, cycle):
        return {}
    right = run()[0]
    early = np.array(
        [floor if it >= cycle - 1 else r for it, r in zip(iterations, right, strict=True)]
    )
    return {
        "the warm-up drops the fraction: use / and not //": run(lambda it: it // warm * top),
        "the minimum is reached one step late": np.array(
            [
                floor
                + (1 + math.cos(math.pi * (it - warm) / (cycle + 1 - warm))) / 2 * (top - floor)
                if warm <= it <= cycle
                else r
                for it, r in zip(iterations, right, strict=True)
            ]
        ),
        "the rate is rounded": [np.round(right, digits) for digits in range(1, 9)],
        "the minimum is reached one step too early": early,
        "the warm-up ends one step late, at it = warmup_iters": np.array(
            [
                top * (it + 1) / (warm + 1) if it <= warm else r
                for it, r in zip(iterations, right, strict=True)
            ]
        ),
        "the warm-up is a cosine, not linear": run(
            lambda it: top * 0.5 * (1 - math.cos(math.pi * it / warm))
        ),
        "the warm-up is quadratic, not linear": run(lambda it: top * (it / warm) ** 2),
        "the decay is a parabola, not a cosine": run(wave=lambda t: (1 - t) ** 2),
        "the maximum stays after the warm-up: nothing decays": run(wave=lambda _: 1.0),
        "the rate falls by max_learning_rate, not by the difference to the minimum": run(
            wave=lambda t: 0.5 * (1 + math.cos(math.pi * t)) * top / max(top - floor, 1e-30)
        ),
        "the rate is the fraction of the maximum": right / top,
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
