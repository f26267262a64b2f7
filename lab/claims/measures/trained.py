"""What small trainings end with, and what their models look like inside."""

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from cs_basics.functional import silu
from cs_basics.norms import RMSNorm
from cs_basics.study.microscope.reading import norms_of, read
from cs_basics.transformer import TransformerLM
from cs_basics.variants.feed_forward import ACTIVATIONS
from cs_basics.variants.model import Transformer
from cs_basics.variants.norms import LayerNorm
from lab.claims.measures.depth import change_by_eps
from lab.claims.measures.draws import normal
from lab.claims.measures.trainings import Trained
from lab.claims.rules import Figures

Runs = Mapping[str, Trained]
LEVELS = 127
"""Of an int8, on either side of 0."""
BROKEN = 0.3
"""A run that ends this many bits per byte above the best one counts as broken."""


def gained_norms(model: TransformerLM) -> dict[str, RMSNorm | LayerNorm]:
    """Return the norms of the residual stream that have a gain, by name."""
    return {
        name: norm
        for name, norm in norms_of(model).items()
        if isinstance(norm, RMSNorm | LayerNorm)
    }


@contextlib.contextmanager
def changed(modules: Iterable[nn.Module], change: Callable[[Tensor], Tensor]) -> Generator[None]:
    """Pass the output of every module through a function."""

    def hook(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return change(output)

    hooks = [module.register_forward_hook(hook) for module in modules]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


def bits(runs: Runs) -> Figures:
    """Bits per byte of each run, and its largest gradient before clipping."""
    return {name: run.bits_per_byte for name, run in runs.items()} | {
        f"{name}_gradient": run.result.largest_grad_norm or 0.0 for name, run in runs.items()
    }


def highest(runs: Runs) -> Figures:
    """Highest rate (or depth) at which a kind of run is not broken; names: KIND_0_01 and the like.

    A rate that is too low also ends far above the best run, so lower rates say nothing.
    """
    best = min(run.bits_per_byte for run in runs.values())
    sound: dict[str, float] = {}
    for name, run in runs.items():
        kind, _, number = name.partition("_")
        is_sound = run.bits_per_byte <= best + BROKEN
        value = float(number.replace("_", ".")) if is_sound else 0.0
        sound[kind] = max(sound.get(kind, 0.0), value)
    return sound


def readings(runs: Runs) -> Figures:
    """Statistics of what the norms read, and attention logits, of trained and of fresh models."""
    figures: dict[str, float] = {}
    for name, run in runs.items():
        torch.manual_seed(run.config.run.seed)
        for age, model in (("fresh", Transformer(run.config.model)), ("trained", run.model())):
            seen = read(model, run.sequences()[:64, :-1], run.result.steps)
            spreads = zip(seen.partial_spread, seen.partial_ratio, strict=True)
            figures |= {
                f"{name}_{age}_mean_percent": 100 * max(seen.mean_share),
                f"{name}_{age}_late_mean_percent": 100 * max(seen.mean_share[4:]),
                f"{name}_{age}_growth": seen.rms[-1] / seen.rms[0],
                f"{name}_{age}_logit": max(seen.score_largest),
                f"{name}_{age}_spread": max(spread / mean for spread, mean in spreads),
            }
    return figures


def eps_moved(runs: Runs) -> Figures:
    """Change of the loss when eps moves out of the root."""
    (run,) = runs.values()
    return change_by_eps(run.model(), lambda model: torch.tensor(run.loss_of(model)))


def other_order(runs: Runs) -> Figures:
    """Share of logits and likeliest tokens, in bfloat16, that Llama's order of cast changes."""
    (run,) = runs.values()
    model, ids = run.model(), run.sequences()[:64]
    other = Transformer(dataclasses.replace(run.config.model, norm="rmsnorm-llama"))
    other.load_state_dict(model.state_dict())
    before, after = (one.bfloat16()(ids[:, :-1]).detach() for one in (model, other))
    return {
        "logits_percent": 100 * (before != after).double().mean().item(),
        "tokens_percent": 100 * (before.argmax(-1) != after.argmax(-1)).double().mean().item(),
    }


def rounded(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Round to 255 steps, whose size is that of the largest value along these axes."""
    step = x.abs().amax(dim=axes, keepdim=True) / LEVELS
    return (x / step).round() * step


def without_mean(x: Tensor) -> Tensor:
    """Take the mean away."""
    return x - x.mean(-1, keepdim=True)


def without_random(x: Tensor) -> Tensor:
    """Take a random direction away, beside which the mean is judged."""
    direction = normal(1, x.shape[-1], dtype=x.dtype)
    direction = direction / direction.norm()
    return x - (x @ direction).unsqueeze(-1) * direction


INTERVENTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "per_tensor": partial(rounded, axes=(0, 1, 2)),
    "per_feature": partial(rounded, axes=(0, 1)),
    "without_mean": without_mean,
    "without_random": without_random,
}
"""What is done to what all norms give, and the parts read."""


def intervened(runs: Runs) -> Figures:
    """How much the loss grows by each intervention, in thousandths of a nat."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        model = run.model()
        plain = run.loss_of(model)
        for form, change in INTERVENTIONS.items():
            with changed(gained_norms(model).values(), change):
                values[f"{name}_{form}"] = 1000 * (run.loss_of(model) - plain)
    return values


@torch.no_grad()
def outliers(runs: Runs) -> Figures:
    """Largest value over RMS of what comes out of a norm, worst norm; normal values: about 5."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        ratios: list[float] = []

        def note(y: Tensor, ratios: list[float] = ratios) -> Tensor:
            ratios.append((y.abs().max() / y.square().mean().sqrt()).item())
            return y

        model = run.model()
        with changed(gained_norms(model).values(), note):
            model(run.sequences()[:64, :-1])
        values[name] = max(ratios)
    return values


def dead_units(runs: Runs) -> Figures:
    """Share of hidden units whose activation has no slope above 0.001 on 64 sequences, %."""
    values: dict[str, float] = {}
    for name, run in runs.items():
        model: Any = run.model()
        activation, steepest = ACTIVATIONS.get(run.config.model.ffn, silu), list[Tensor]()

        def note(
            y: Tensor, f: Callable[[Tensor], Tensor] = activation, to: list[Tensor] = steepest
        ) -> Tensor:
            hidden = y.detach().requires_grad_()
            (slope,) = torch.autograd.grad(f(hidden).sum(), hidden)
            to.append(slope.abs().flatten(0, -2).amax(0))
            return y

        with changed([block.ffn.w1 for block in model.layers], note):
            model(run.sequences()[:64, :-1])
        values[name] = 100 * (torch.cat(steepest) < 1e-3).double().mean().item()
    return values
