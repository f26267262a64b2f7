"""Gradient clipping and the learning rate schedule."""

import math

import numpy as np
import torch

from faults.bank import REFERENCE, fault, variant

CLIPPING = "gradient_clipping"
SCHEDULE = "learning_rate_schedule"


def joint_norm(gradients):
    wide = (g.to(torch.promote_types(g.dtype, torch.float32)) for g in gradients)
    return torch.sqrt(sum((g**2).sum() for g in wide)) if gradients else torch.tensor(0.0)


def scale_in_place(p, factor):
    p.grad.mul_(factor)


def clipping(
    norm_of=joint_norm,
    is_clipped=lambda norm, bound: norm > bound,
    factor=lambda norm, bound: bound / (norm + 1e-6),
    scale=scale_in_place,
    listed=list,
):
    """Make an adapter of right clipping with some of its parts exchanged."""

    @torch.no_grad()
    def run_gradient_clipping(parameters, max_l2_norm):
        parameters = listed(parameters)
        norm = norm_of([p.grad for p in parameters if p.grad is not None])
        if is_clipped(norm, max_l2_norm):
            for p in parameters:
                if p.grad is not None:
                    scale(p, factor(norm, max_l2_norm))

    return run_gradient_clipping


def on_each(change):
    """Make an adapter that calls `change(gradient, bound)` on one gradient after the other."""

    def run_gradient_clipping(parameters, max_l2_norm):
        for p in parameters:
            if p.grad is not None:
                change(p.grad, max_l2_norm)

    return run_gradient_clipping


fault(CLIPPING, "values are clamped", "clamped")(on_each(lambda g, bound: g.clamp_(-bound, bound)))
fault(CLIPPING, "each gradient is clipped by its own norm", "own norm")(
    on_each(lambda g, bound: g.mul_(min(1.0, float(bound / (g.norm() + 1e-6)))))
)
fault(CLIPPING, "a generator is walked through twice", "generator")(clipping(listed=lambda p: p))
fault(CLIPPING, "small gradients are scaled up to the bound", "below the bound")(
    clipping(is_clipped=lambda *_: True)
)
fault(CLIPPING, "squares of bfloat16 are summed in bfloat16", "eight binary digits")(
    clipping(lambda gs: (sum((g**2).sum() for g in gs) or torch.zeros(())) ** 0.5)
)
fault(CLIPPING, "the L1 norm is used", "L1")(clipping(lambda gs: sum(g.abs().sum() for g in gs)))
fault(CLIPPING, "the largest value stands in for the norm", "largest value")(
    clipping(lambda gs: max((g.abs().max() for g in gs), default=0))
)
fault(CLIPPING, "the norms are added up", "norms are added up")(
    clipping(lambda gs: sum(g.norm() for g in gs))
)
fault(CLIPPING, "the norm is averaged over the parameters", "norm is averaged")(
    clipping(lambda gs: joint_norm(gs) / max(len(gs), 1) ** 0.5)
)
fault(CLIPPING, "the 1e-6 is missing", "1e-6")(clipping(factor=lambda norm, bound: bound / norm))
fault(CLIPPING, "the norm's square divides", "root is missing")(
    clipping(factor=lambda norm, bound: bound / (norm**2 + 1e-6))
)
fault(CLIPPING, "gradients are scaled to length 1", "max_l2_norm is forgotten")(
    clipping(factor=lambda norm, _: 1 / (norm + 1e-6))
)
fault(CLIPPING, "the gradient is replaced by a new tensor", "new tensor")(
    clipping(scale=lambda p, factor: setattr(p, "grad", p.grad * factor))
)
fault(CLIPPING, "the product is not kept", "scale in place (mul_)")(
    clipping(scale=lambda p, factor: p.grad * factor)
)
fault(CLIPPING, "the parameters are scaled too", "changed a parameter")(
    clipping(scale=lambda p, factor: (p.grad.mul_(factor), p.mul_(factor)))
)
fault(CLIPPING, "only matrices are scaled", "only matrices are scaled")(
    clipping(scale=lambda p, factor: p.grad.mul_(factor if p.grad.ndim == 2 else 1.0))
)
fault(CLIPPING, "the norm leaves out what is no matrix", "leaves out what is no matrix")(
    clipping(lambda gs: joint_norm([g for g in gs if g.ndim == 2]))
)
fault(CLIPPING, "nothing is clipped", "nothing is clipped")(clipping(is_clipped=lambda *_: False))


@variant(CLIPPING, "float64 is refused")
def without_float64(parameters, max_l2_norm):
    parameters = list(parameters)
    assert all(p.dtype != torch.float64 for p in parameters)
    clipping()(parameters, max_l2_norm)


@fault(CLIPPING, "a parameter without a gradient is an error", "if every parameter has a gradient")
def gradients_required(parameters, max_l2_norm):
    parameters = list(parameters)
    norm = joint_norm([p.grad.detach() for p in parameters])
    for p in parameters:
        p.grad.mul_(min(1.0, float(max_l2_norm / (norm + 1e-6))))


@fault(CLIPPING, "parameters without a gradient get zeros", "although it had none")
def zeros_for_missing(parameters, max_l2_norm):
    parameters = list(parameters)
    clipping()(parameters, max_l2_norm)
    for p in parameters:
        if p.grad is None:
            p.grad = torch.zeros_like(p)


@fault(
    CLIPPING,
    "parameters without a gradient are taken to be frozen",
    "if every parameter has a gradient",
)
def by_requires_grad(parameters, max_l2_norm):
    parameters = [p for p in parameters if p.requires_grad]
    norm = joint_norm([p.grad.detach() for p in parameters])
    if norm > max_l2_norm:
        for p in parameters:
            p.grad.mul_(max_l2_norm / (norm + 1e-6))


@fault(CLIPPING, "the norm of the parameters is taken", "norm of the parameters is taken")
def by_parameters(parameters, max_l2_norm):
    parameters = [p for p in parameters if p.grad is not None]
    norm = joint_norm([p.detach() for p in parameters])
    for p in parameters:
        p.grad.mul_(min(1.0, float(max_l2_norm / (norm + 1e-6))))


@fault(CLIPPING, "the last gradient is left out", "last gradient is left out")
def all_but_the_last(parameters, max_l2_norm):
    parameters = [p for p in parameters if p.grad is not None]
    norm = joint_norm([p.grad for p in parameters])
    for p in parameters[:-1]:
        p.grad.mul_(min(1.0, float(max_l2_norm / (norm + 1e-6))))


variant(CLIPPING, "written out")(clipping())


@variant(CLIPPING, "torch's own clip_grad_norm_")
def torch_clipping(parameters, max_l2_norm):
    return torch.nn.utils.clip_grad_norm_(parameters, max_l2_norm)


@variant(CLIPPING, "the norm is a Python float")
def with_floats(parameters, max_l2_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(g.norm().item() ** 2 for g in gradients))
    if norm >= max_l2_norm:
        for gradient in gradients:
            gradient.mul_(max_l2_norm / (norm + 1e-6))


@variant(CLIPPING, "one norm of all gradients joined end to end")
def joined(parameters, max_l2_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if gradients:
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        torch._foreach_mul_(gradients, min(1.0, float(max_l2_norm / (norm + 1e-6))))


def cosine(t):
    return 0.5 * (1 + math.cos(math.pi * t))


def schedule(
    warms_up=lambda it, warmup: it < warmup,
    warm=lambda it, warmup, top, floor: it / warmup * top,  # noqa: ARG005
    progress=lambda it, warmup, cycle: (it - warmup) / (cycle - warmup),
    wave=cosine,
    is_over=lambda it, warmup, cycle: it > cycle or warmup == cycle,
    low=lambda floor: floor,
    after=lambda floor: floor,
):
    """Make an adapter of a right schedule with some of its parts exchanged."""

    def run_get_lr_cosine_schedule(
        it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters
    ):
        if warms_up(it, warmup_iters):
            return warm(it, warmup_iters, max_learning_rate, min_learning_rate)
        if is_over(it, warmup_iters, cosine_cycle_iters):
            return after(min_learning_rate)
        end = low(min_learning_rate)
        return end + wave(progress(it, warmup_iters, cosine_cycle_iters)) * (
            max_learning_rate - end
        )

    return run_get_lr_cosine_schedule


fault(SCHEDULE, "the warm-up is one step early", "off by one")(
    schedule(warm=lambda it, warmup, top, _: (it + 1) / warmup * top)
)
fault(SCHEDULE, "the warm-up starts at the minimum", "starts at the minimum")(
    schedule(warm=lambda it, warmup, top, floor: floor + it / warmup * (top - floor))
)
fault(SCHEDULE, "there is no warm-up", "no warm-up")(schedule(warm=lambda _, __, top, ___: top))
fault(SCHEDULE, "the rate rises again after the cycle", "rises again")(
    schedule(is_over=lambda *_: False)
)
fault(SCHEDULE, "the rate is 0 after the cycle", "0 after the cycle")(schedule(after=lambda _: 0.0))
fault(SCHEDULE, "the rate falls to 0", "falls to 0")(schedule(low=lambda _: 0.0))
fault(SCHEDULE, "the rate falls to 0 and stays there", "falls to 0 and then")(
    schedule(low=lambda _: 0.0, after=lambda _: 0.0)
)
fault(SCHEDULE, "the cosine ignores the warm-up", "ignores the warm-up")(
    schedule(progress=lambda it, _, cycle: it / cycle)
)
fault(SCHEDULE, "the cosine lasts a whole cycle after the warm-up", "lasts for")(
    schedule(progress=lambda it, warmup, cycle: (it - warmup) / cycle)
)
fault(SCHEDULE, "the cosine is one step late", "one step late")(
    schedule(progress=lambda it, warmup, cycle: (it - warmup - 1) / (cycle - warmup))
)
fault(SCHEDULE, "the cosine is one step early", "one step early")(
    schedule(progress=lambda it, warmup, cycle: (it - warmup + 1) / (cycle - warmup))
)
fault(SCHEDULE, "the decay is linear", "linear")(schedule(wave=lambda t: 1 - t))
fault(SCHEDULE, "the cosine runs a full period", "full period")(
    schedule(wave=lambda t: cosine(2 * t))
)
fault(SCHEDULE, "the cosine runs a quarter period", "quarter period")(
    schedule(wave=lambda t: math.cos(math.pi * t / 2))
)
fault(SCHEDULE, "the factor 1/2 is missing", "factor 1/2")(schedule(wave=lambda t: 2 * cosine(t)))
fault(SCHEDULE, "the warm-up drops the fraction", "drops the fraction")(
    schedule(warm=lambda it, warmup, top, _: it // warmup * top)
)
fault(SCHEDULE, "the warm-up is a cosine", "warm-up is a cosine")(
    schedule(warm=lambda it, warmup, top, _: top * (1 - cosine(it / warmup)))
)
fault(SCHEDULE, "the minimum is reached one step late", "one step late")(
    schedule(progress=lambda it, warmup, cycle: (it - warmup) / (cycle + 1 - warmup))
)
fault(SCHEDULE, "no warm-up divides by zero", "with warmup_iters = 1")(
    schedule(warms_up=lambda it, warmup: it <= warmup)
)
fault(SCHEDULE, "the minimum is reached one step too early", "one step too early")(
    schedule(is_over=lambda it, _, cycle: it >= cycle - 1)
)


@fault(SCHEDULE, "a tensor is returned", "expected a float")
def tensor_rate(**given):
    return torch.tensor(REFERENCE.run_get_lr_cosine_schedule(**given))


@fault(SCHEDULE, "the rate is rounded to four digits", "the rate is rounded")
def rounded_rate(**given):
    return round(REFERENCE.run_get_lr_cosine_schedule(**given), 4)


variant(SCHEDULE, "written out")(schedule())
variant(SCHEDULE, "a cycle as long as the warm-up divides by zero, which is free")(
    schedule(is_over=lambda it, _, cycle: it > cycle)
)


@variant(SCHEDULE, "a NumPy float")
def numpy_rate(**given):
    return np.float64(REFERENCE.run_get_lr_cosine_schedule(**given))


@variant(SCHEDULE, "by the square of a cosine")
def squared_cosine(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it >= cosine_cycle_iters:
        return min_learning_rate
    half_angle = math.pi / 2 * (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    span = max_learning_rate - min_learning_rate
    return min_learning_rate + math.cos(half_angle) ** 2 * span
