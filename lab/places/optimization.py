"""What AdamW and gradient clipping may hold on the way, by name, and inputs to trace them with."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from oracles.model import Array, wide

Quantities = dict[str, Any]


def steps_to_trace() -> Iterator[Mapping[str, Any]]:
    """Few steps with large rates, so that nothing that may be left out is too small to see."""
    rng = np.random.default_rng(0)
    parameters = [rng.standard_normal(shape).astype(np.float32) for shape in [(3, 2), (5,)]]
    gradients = [
        [rng.uniform(0.5, 2, p.shape).astype(np.float32) * (-1) ** step for p in parameters]
        for step in range(3)
    ]
    options = {"lr": 0.11, "betas": (0.8, 0.95), "eps": 1e-8, "weight_decay": 0.3}
    yield {"parameters": parameters, "options": options, "gradients": gradients}
    # Here eps matters. Moments may be corrected before it is added or after: both are right.
    yield {
        "parameters": parameters[:1],
        "options": {**options, "weight_decay": 0.0, "betas": (0.0, 0.0), "eps": 0.5},
        "gradients": [row[:1] for row in gradients[:1]],
    }


def adamw(
    parameters: Sequence[Array], options: Mapping[str, Any], gradients: Sequence[Sequence[Array]]
) -> tuple[Quantities, list[tuple[str, tuple[Array, ...]]]]:
    """Return the quantities of all steps, and what each parameter may be after each step."""
    lr, (beta1, beta2) = options["lr"], options["betas"]
    eps, weight_decay = options["eps"], options["weight_decay"]
    found: Quantities = {
        "the rate": lr,
        "beta1": beta1,
        "beta2": beta2,
        "1 - beta1": 1 - beta1,
        "1 - beta2": 1 - beta2,
        "eps": eps,
        "the weight decay": weight_decay,
        "the rate times the weight decay": lr * weight_decay,
        "1 - the rate times the weight decay": 1 - lr * weight_decay,
    }
    wanted = []
    states = [{"m": 0 * wide(p), "v": 0 * wide(p), "p": wide(p), "q": wide(p)} for p in parameters]
    for step, row in enumerate(gradients, 1):
        for place, (state, gradient) in enumerate(zip(states, row, strict=True)):
            which = f"of parameter {place} in step {step}"
            steps = one_step(state, wide(gradient), step, lr, beta1, beta2, eps, weight_decay)
            found |= {f"{name} {which}": value for name, value in steps.items()}
            state |= {"m": steps["the moment m"], "v": steps["the moment v"]}
            state |= {"p": steps["the new value"], "q": steps["the new value (decay last)"]}
            wanted.append((f"the new value {which}", (state["p"], state["q"])))
    return found, wanted


def one_step(
    state: Mapping[str, Array],
    g: Array,
    t: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> Quantities:
    """What a step may compute. The decay may come first ("p") or last ("q")."""
    m = beta1 * state["m"] + (1 - beta1) * g
    v = beta2 * state["v"] + (1 - beta2) * g**2
    left1, left2 = 1 - beta1**t, 1 - beta2**t
    root, root_hat = np.sqrt(v), np.sqrt(v / left2)
    rate = lr * math.sqrt(left2) / left1
    move = lr * (m / left1) / (root_hat + eps)
    keep = 1 - lr * weight_decay
    return {
        "the gradient": g,
        "the squared gradient": g**2,
        "the old value": state["p"],
        "the old value (decay last)": state["q"],
        "the old m": state["m"],
        "the old v": state["v"],
        "beta1 times the old m": beta1 * state["m"],
        "(1 - beta1) times the gradient": (1 - beta1) * g,
        "the gradient less the old m": g - state["m"],
        "beta2 times the old v": beta2 * state["v"],
        "(1 - beta2) times the squared gradient": (1 - beta2) * g**2,
        "the squared gradient less the old v": g**2 - state["v"],
        "the moment m": m,
        "the moment v": v,
        "beta1 to the power of the step": beta1**t,
        "beta2 to the power of the step": beta2**t,
        "the correction of m": left1,
        "the correction of v": left2,
        "the root of the correction of v": math.sqrt(left2),
        "the quotient of the corrections": math.sqrt(left2) / left1,
        "the rate over the correction of m": lr / left1,
        "the rate times the root of the correction of v": lr * math.sqrt(left2),
        "the corrected rate": rate,
        "the corrected m": m / left1,
        "the corrected v": v / left2,
        "the root of v": root,
        "the root of v plus eps": root + eps,
        "the root of the corrected v": root_hat,
        "the root of the corrected v plus eps": root_hat + eps,
        "m over the root of v plus eps": m / (root + eps),
        "m over the root of the corrected v plus eps": m / (root_hat + eps),
        "the corrected rate times m": rate * m,
        "the rate times the corrected m": lr * m / left1,
        "the corrected m over the root of the corrected v plus eps": move / lr if lr else move,
        "the update": move,
        "the weight decay times the old value": weight_decay * state["p"],
        "the decay of the old value": lr * weight_decay * state["p"],
        "the decayed old value": keep * state["p"],
        "the direction with the decay": move / lr + weight_decay * state["p"] if lr else move,
        "the update with the decay": move + lr * weight_decay * state["p"],
        "the old value less the update": state["p"] - move,
        "the old value less the update (decay last)": state["q"] - move,
        "the decay of the value": lr * weight_decay * (state["q"] - move),
        "the weight decay times the value": weight_decay * (state["q"] - move),
        "the new value": keep * state["p"] - move,
        "the new value (decay last)": keep * (state["q"] - move),
    }


def clippings_to_trace() -> Iterator[Mapping[str, Any]]:
    """One case above the limit and one below it."""
    rng = np.random.default_rng(0)
    gradients = [rng.standard_normal(shape).astype(np.float32) for shape in [(3, 2), (5,), (4,)]]
    yield {"gradients": gradients, "max_l2_norm": 0.7}
    yield {"gradients": gradients, "max_l2_norm": 70.0}


def clipping(gradients: Sequence[Array], max_l2_norm: float) -> Quantities:
    squares = [float(np.sum(wide(g) ** 2)) for g in gradients]
    total = math.sqrt(sum(squares))
    factor = max_l2_norm / (total + 1e-6)
    is_over = total > max_l2_norm
    found: Quantities = {"the limit": max_l2_norm}
    for place, gradient in enumerate(gradients):
        g = wide(gradient)
        found |= {
            f"gradient {place}": g,
            f"gradient {place}, flat": g.ravel(),
            f"the sizes of gradient {place}": np.abs(g),
            f"the squares of gradient {place}": g**2,
            f"the sum of squares of gradient {place}": squares[place],
            f"the norm of gradient {place}": math.sqrt(squares[place]),
            f"the sum of squares up to gradient {place}": sum(squares[: place + 1]),
        }
    everything = np.concatenate([wide(g).ravel() for g in gradients])
    found |= {
        "all gradients, joined": everything,
        "all squares, joined": everything**2,
        "the sums of squares": np.array(squares),
        "the norms": np.sqrt(squares),
        "the joint sum of squares": sum(squares),
        "the joint norm": total,
        "the joint norm plus 1e-6": total + 1e-6,
        "the limit over the joint norm": factor,
        "the factor": min(factor, 1.0),
    }
    for place, gradient in enumerate(gradients):
        found[f"gradient {place}, clipped"] = wide(gradient) * (factor if is_over else 1.0)
    return found
