"""Checks by trying: one batch learnt at other rates, the program's evaluation, the last weights."""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cs_basics.study.doctor.loop import Loop, flat
from cs_basics.study.doctor.model import not_finite
from cs_basics.study.doctor.report import Finding, Findings
from cs_basics.study.doctor.subject import undisturbed, weights_of
from cs_basics.study.doctor.text import MOST_REPEATED, Places, entropy

STEPS = 16
MOST_TOKENS = 2048
"""Of the batch that is learnt."""
LEARNT = 0.7
"""Of the entropy of single tokens: a healthy run gets below it in some fifty updates."""
LEAST_LOSSES = 8
STUCK, SLOW, HALF = 0.9, 0.6, 0.5
"""Of a loss before STEPS updates on one batch: what a lost run leaves, a slow one, and what another
rate must reach to be clearly better than a slow one. Healthy runs leave 0.3 to 0.6."""
LEAST_FALL = 0.35
"""Of the way to the entropy of single tokens; from there on a run learns, if slowly."""
MOST_DROPPED = 0.5
"""Nats that dropout may cost; 0.2 for a rate of 0.3."""
MOST_READ = 0.9
"""Share of the windows of an evaluation that are training text; half, where both are measured."""
MOST_STRANGE = 1.5
"""Nats that a token of the evaluation may cost, by the frequencies of the training text, above one
of that text; 0.3 for other texts in the same language."""


def learn(
    s: Loop, rates: Sequence[float], start: Sequence[Tensor] = (), *, is_clipped: bool = True
) -> tuple[float, float]:
    """Make STEPS updates by one batch; return its first loss and its last, infinity for NaN.

    Args:
        s: The subject.
        rates: Of each group of the optimizer.
        start: Weights to begin with, without a state of the optimizer; none: both as they are.
        is_clipped: Whether gradients are scaled to the clip.
    """
    optimizer, found, held = s.optimizer, list[float](), s.trained()
    batch, clip = s.cut(max(1, MOST_TOKENS // s.time)), math.inf
    if is_clipped and s.clip:
        clip = s.clip
    with undisturbed(s.bare, optimizer):
        if start:
            optimizer.state.clear()
            with torch.no_grad():
                for tensor, value in zip(weights_of(s.bare), start, strict=True):
                    tensor.copy_(value)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        for _ in range(STEPS):
            loss = s.loss_of(s.bare, batch)
            found.append(loss.item())
            if not loss.isfinite():
                return found[0], math.inf
            # Not backward, by which gradients would be shared out over processes.
            grads = torch.autograd.grad(loss, held, materialize_grads=True)
            share = min(1.0, clip / (flat(grads).norm().item() + 1e-6))
            for p, grad in zip(held, grads, strict=True):
                p.grad = grad * share
            optimizer.step()
    return found[0], found[-1]


def rates(s: Loop, losses: Sequence[float], highest: Sequence[float], single: float) -> Findings:
    """Where a run learns nothing, learn one batch at its rate and at others.

    Too high a rate ruins the first weights; too short a step leaves the last ones where they are.

    Args:
        s: The loop.
        losses: All losses of the run.
        highest: Rates of each group, as high as they were.
        single: Entropy of single tokens. A run that gets well below it learns, whatever its rate.
    """
    if len(losses) < LEAST_LOSSES or not s.updates or not any(highest):
        return
    first, last = losses[0], fmean(losses[-max(2, len(losses) // 8) :])
    if last < LEARNT * single:
        return
    begin, end = learn(s, highest, s.start)
    is_stuck = end > STUCK * begin or not last < first
    for scale in (0.1, 0.01, 0.001) if is_stuck or end > SLOW * begin else ():
        other = learn(s, [scale * rate for rate in highest], s.start)[1]
        if other < (STUCK if is_stuck else HALF) * min(begin, end):
            seen = (
                f"{STEPS} updates on one batch take its loss from {begin:.3g} to {end:.3g} at "
                f"lr={max(highest):.2g}, and to {other:.3g} at {scale:g} times that; the run ends "
                f"at {last:.3g}"
            )
            yield Finding("rate-too-high", seen, s.place, f"lr={max(highest) * scale:.2g}")
            return
    if not first - last > LEAST_FALL * (first - min(last, single)):
        yield from _too_short(s, highest, last, is_stuck=is_stuck)


def _too_short(s: Loop, highest: Sequence[float], last: float, *, is_stuck: bool) -> Findings:
    """See whether a higher rate moves the last weights, and what made the steps of this one short.

    Args:
        s: The loop.
        highest: Rates of each group, as high as they were.
        last: The loss at which the run ends.
        is_stuck: Whether the first weights learn nothing at these rates.
    """
    now = [median(rates) for rates in zip(*(u.rates for u in s.updates), strict=True)]
    begin, end = learn(s, now)
    most = STUCK * min(begin, end)
    told = f"from the last weights, {STEPS} updates on one batch take its loss from {begin:.3g} to "
    told += f"{end:.3g} at lr={max(now):.2g}"
    for times in (3.0, *(10.0**power for power in range(1, 8))):
        other = learn(s, [times * rate for rate in now])[1]
        if other < most:
            told += f", and to {other:.3g} at {times:g} times that"
            break
    else:
        if is_stuck and end > STUCK * begin and math.isfinite(end):
            seen = f"the loss of one batch does not fall from {begin:.3g} at any learning rate"
            yield Finding("optimizer-setup", seen, s.place)
        return
    if (same := learn(s, now, is_clipped=False)[1]) < most:
        seen = f"{told}; without the clip, {s.clip:g}, it falls to {same:.3g}"
        yield Finding("step-too-small", seen, s.place)
    elif (same := learn(s, highest)[1]) < most:
        seen = f"{told}; at lr={max(highest):.2g}, where the schedule was highest, to {same:.3g}"
        yield Finding("step-too-small", seen, s.place)
    else:
        seen = f"{told}; the run ends at {last:.3g}"
        yield Finding("rate-too-low", seen, s.place, f"lr={times * max(now):.2g}")


def evaluation(s: Loop) -> Findings:
    """Call the program's evaluation, and look at what it reads and changes."""
    if s.evaluate is None:
        return
    read, modes = list[Tensor](), list[bool]()

    def note(module: Any, args: Any, kwargs: Any, _: Any) -> None:  # noqa: ANN401
        ids = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if ids is not None and not ids.is_floating_point():
            read.append(ids.detach().cpu())
            modes.append(module.training)

    with undisturbed(s.bare), s.bare.register_forward_hook(note, with_kwargs=True):
        seen = _changed_by(s) or _of_other_text(s, read)
    if s.has_dropout and any(modes):
        told = "evaluate() calls the model in training mode, with dropout on"
        yield Finding("train-eval-mode", told, s.evaluate)
    if seen:
        yield Finding("evaluation", seen, s.evaluate)


def _changed_by(s: Loop) -> str | None:
    """Make two evaluations, and say what they change that is not theirs."""
    tensors, ends = list(s.bare.parameters()), list[Tensor]()
    s.bare.train()
    for p in tensors:
        p.grad = torch.ones_like(p)
    before = flat(tensors).nan_to_num()
    for seed in (1, 2):
        torch.manual_seed(seed)
        s.evaluate()
        ends.append(torch.get_rng_state())
    if not torch.equal(before, flat(tensors).nan_to_num()):
        return "evaluate() changes the weights"
    if not all(p.grad is not None and (p.grad == 1).all() for p in tensors):
        return "evaluate() changes the gradients"
    if torch.equal(*ends):
        return "evaluate() seeds the global generator, so training draws the same numbers again"
    return None


def _of_other_text(s: Loop, read: list[Tensor]) -> str | None:
    """Say how the batches of an evaluation are the training text, or not of its vocabulary."""
    if s.tokens is None or not read:
        return None
    # Evenly, since many programs also measure the training loss: that is half of what is read.
    windows = [row.numpy() for ids in read[:: -(-len(read) // 8)] for row in ids[:8]]
    size, places = len(windows[0]), Places(s.tokens)
    share = sum(places.find(window) is not None for window in windows) / len(windows)
    is_learnt = share > MOST_READ and size >= 8 and len(s.tokens) > 200
    if is_learnt and places.share_repeated(size) < MOST_REPEATED:
        return f"{share:.0%} of the windows that evaluate() reads are in the training text"
    ids = np.concatenate(windows)
    counts = np.bincount(places.ids, minlength=max(s.vocab, int(ids.max()) + 1)) + 1
    cost, single = np.log(counts.sum() / counts[ids]).mean(), entropy(s)
    if cost > single + MOST_STRANGE:
        return (
            f"a token that evaluate() reads costs {cost:.2f} nats by the frequencies of the "
            f"training text, and one of that text {single:.2f}: is it of the same tokenizer?"
        )
    return None


def last_loss(s: Loop) -> Findings:
    """Look for losses that are not finite, and for dropout that costs too much."""
    bad = [
        u.number for u in s.updates if not math.isfinite(u.loss + (u.seen.norm if u.seen else 0))
    ]
    if bad and all(found.cause != "not-finite" for found in s.findings):
        yield not_finite(s, f"the loss or gradient of update {bad[0]}")
    if bad or s.inputs.unique().numel() < 8 or len(s.updates) < 8:
        return
    with s.quiet():
        losses = list[float]()
        for is_training in (True, False):
            s.bare.train(is_training)
            losses.append(s.loss_of(s.bare, s.batch).item())
    # A model that is worse than a guess has been driven there by something else.
    if math.log(s.vocab) > losses[1] and losses[0] > losses[1] + MOST_DROPPED:
        seen = f"a loss of {losses[0]:.3f} in training mode, {losses[1]:.3f} in evaluation mode"
        yield Finding("dropout", seen)
