"""Checks by trying: one batch learnt at other rates, an evaluation, a checkpoint read back."""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.study.doctor.loop import Loop, flat
from cs_basics.study.doctor.model import not_finite
from cs_basics.study.doctor.report import Finding, Findings
from cs_basics.study.doctor.subject import (
    held_by,
    undisturbed,
)
from cs_basics.study.doctor.text import Places

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
MOST_DEAD = 0.5
"""Share of a module's outputs that are the same for every token; 0.2 behind a ReLU."""
MOST_DROPPED = 0.5
"""Nats that dropout may cost; 0.2 for a rate of 0.3."""
MOST_READ = 0.9
"""Share of the windows of an evaluation that are training text; half, where both are measured."""


def learn(
    s: Loop, rates: Sequence[float], start: list[Tensor] | None, **settings: float
) -> tuple[float, float]:
    """Make STEPS updates by one batch; return its first loss and its last, infinity for NaN.

    Args:
        s: The subject.
        rates: Of each group of the optimizer.
        start: Weights to begin with, without a state of the optimizer; None: both as they are.
        settings: What else is set in each group; "clip": the norm to which gradients are scaled.
    """
    optimizer, found, held = s.optimizer, list[float](), s.trained()
    batch, clip = s.cut(max(1, MOST_TOKENS // s.time)), settings.pop("clip", s.clip or math.inf)
    with undisturbed(s.bare, optimizer, start):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group.update(settings, lr=rate)
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


def rates(  # noqa: C901
    s: Loop, losses: Sequence[float], highest: Sequence[float], entropy: float
) -> Findings:
    """Where a run learns nothing, learn one batch at its rate and at others.

    Too high a rate ruins the first weights; too short a step leaves the last ones where they are.

    Args:
        s: The loop.
        losses: All losses of the run.
        highest: Rates of each group, as high as they were.
        entropy: Of single tokens. A run that gets well below it learns, whatever its rate.
    """
    if len(losses) < LEAST_LOSSES or not s.updates or not any(highest):
        return
    first, last = losses[0], fmean(losses[-max(2, len(losses) // 8) :])
    if last < LEARNT * entropy:
        return
    begin, end = learn(s, highest, s.start)
    is_stuck = end > STUCK * begin or not last < first
    told = f"{STEPS} updates on one batch take its loss from {begin:.3g} to {end:.3g} at lr="
    told += f"{max(highest):.2g}"
    for scale in (0.1, 0.01, 0.001) if is_stuck or end > SLOW * begin else ():
        other = learn(s, [scale * rate for rate in highest], s.start)[1]
        if other < (STUCK if is_stuck else HALF) * min(begin, end):
            told += f", and to {other:.3g} at {scale:g} times that"
            seen = f"{told}; the run ends at {last:.3g}"
            yield Finding("rate-too-high", seen, s.place, f"lr={max(highest) * scale:.2g}")
            return
    if first - last > LEAST_FALL * (first - min(last, entropy)):
        return  # It learns, if slowly.
    now = [median(rates) for rates in zip(*(u.rates for u in s.updates), strict=True)]
    begin, end = learn(s, now, None)
    told = f"from the last weights, {STEPS} updates on one batch take its loss from {begin:.3g} to "
    told += f"{end:.3g} at lr={max(now):.2g}, and to "
    for times in (3.0, *(10.0**power for power in range(1, 8))):
        other = learn(s, [times * rate for rate in now], None)[1]
        if other < STUCK * min(begin, end):
            told += f"{other:.3g} at {times:g} times that"
            break
    else:
        if is_stuck and end > STUCK * begin and math.isfinite(end):
            seen = f"the loss of one batch does not fall from {begin:.3g} at any learning rate"
            yield Finding("optimizer-setup", seen, s.place)
        return
    changed = {
        f"without the clip, {s.clip:g}" if s.clip else "without a clip": (now, {"clip": math.inf}),
        f"at lr={max(highest):.2g}, where the schedule was highest": (highest, {}),
    }
    for name, (own, settings) in changed.items():
        same = learn(s, own, None, **settings)[1]
        if same < STUCK * min(begin, end):
            yield Finding("step-too-small", f"{told}; {name}, it falls to {same:.3g}", s.place)
            return
    seen = f"{told}; the run ends at {last:.3g}"
    yield Finding("rate-too-low", seen, s.place, f"lr={times * max(now):.2g}")


def evaluation(s: Loop) -> Findings:  # noqa: C901
    """Call the program's evaluation, and look at what it reads and changes."""
    if s.evaluate is None:
        return
    read = list[tuple[Tensor, bool]]()

    def note(module: Any, args: Any, kwargs: Any, _: Any) -> None:  # noqa: ANN401
        ids = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if ids is not None and not ids.is_floating_point():
            read.append((ids.detach(), module.training))

    tensors, seen, ends = list(s.bare.parameters()), None, list[Tensor]()
    with undisturbed(s.bare), s.bare.register_forward_hook(note, with_kwargs=True):
        s.bare.train()
        for p in tensors:
            p.grad = torch.ones_like(p)
        before = flat(tensors).nan_to_num()
        for seed in (1, 2):
            torch.manual_seed(seed)
            s.evaluate()
            ends.append(torch.get_rng_state())
        if not torch.equal(before, flat(tensors).nan_to_num()):
            seen = "evaluate() changes the weights"
        elif not all(p.grad is not None and (p.grad == 1).all() for p in tensors):
            seen = "evaluate() changes the gradients"
        elif torch.equal(*ends):
            seen = "evaluate() seeds the global generator, so training draws the same numbers again"
    if s.has_dropout and any(is_training for _, is_training in read):
        seen_mode = "evaluate() calls the model in training mode, with dropout on"
        yield Finding("train-eval-mode", seen_mode, s.evaluate)
    if seen := seen or _of_training_text(s, [ids for ids, _ in read]):
        yield Finding("evaluation", seen, s.evaluate)


def _of_training_text(s: Loop, read: list[Tensor]) -> str | None:
    """Say how much of the batches of an evaluation is in the training text."""
    if s.tokens is None or not read:
        return None
    # Evenly, since many programs also measure the training loss: that is half of what is read.
    windows = [row.cpu().numpy() for ids in read[:: -(-len(read) // 8)] for row in ids[:8]]
    size, places = len(windows[0]), Places(s.tokens)
    share = sum(places.find(window) is not None for window in windows) / len(windows)
    is_learnt = share > MOST_READ and size >= 8 and len(s.tokens) > 200
    if not is_learnt or places.share_repeated(size) >= HALF:
        return None
    return f"{share:.0%} of the windows that evaluate() reads are in the training text"


def checkpoint(s: Loop) -> Findings:
    """Save, read back into fresh objects, and compare weights and optimizer."""
    if s.save_and_load is None:
        return
    with undisturbed(s.bare):
        try:
            model, optimizer, *_ = s.save_and_load()
            seen = _lost(s, getattr(model, "module", model), optimizer)
        except Exception as error:  # whatever reading back raises is the finding
            seen = f"reading back raises {type(error).__name__}: {error}"
    if seen:
        yield Finding("checkpoint", seen, s.save_and_load)


def _lost(s: Loop, model: nn.Module, optimizer: Optimizer) -> str | None:
    """Say what of a model and its optimizer was not restored."""
    held = held_by(optimizer)
    if len(held) != len(held_by(s.optimizer)):
        return "the optimizer holds another number of parameters after loading"
    if not {id(p) for p in held} & {id(p) for p in model.parameters()}:
        return "the optimizer read back holds other parameters than the model read back"
    if len([*model.parameters()]) != len([*s.bare.parameters()]):
        return "weights that were tied are two after loading"
    exact: Any = {"rtol": 0, "atol": 0, "equal_nan": True}
    exact |= dict.fromkeys(("check_device", "check_dtype", "check_stride"), False)
    for name, mine, theirs in (("model", s.bare, model), ("optimizer", s.optimizer, optimizer)):
        try:
            torch.testing.assert_close({**theirs.state_dict()}, {**mine.state_dict()}, **exact)
        except AssertionError as error:
            return f"the {name} differs after loading: {' '.join(str(error).split())}"
    return None


def ending(s: Loop) -> Findings:  # noqa: C901
    """Look for losses that are not finite, for dropout, and for units that are always the same."""
    if bad := [u.number for u in s.updates if not math.isfinite(u.loss + u.norm)]:
        if all(found.key != "not-finite" for found in s.findings):
            yield not_finite(s, f"the loss or gradient of update {bad[0]}")
        return
    if s.inputs.unique().numel() < 8 or len(s.updates) < 8:
        return
    with s.quiet():
        losses = list[float]()
        for is_training in (True, False):
            s.bare.train(is_training)
            losses.append(s.loss_of(s.bare, s.batch).item())
    if losses[0] > losses[1] + MOST_DROPPED:
        seen = f"a loss of {losses[0]:.3f} in training mode, {losses[1]:.3f} in evaluation mode"
        yield Finding("dropout", seen)
    worst, name = 0.0, ""
    for call in s.calls(s.inputs):
        for x in call.ends():
            if x.dim() == 3 and x.shape[-1] >= 8 and x.is_floating_point():
                spread, size = x.float().flatten(0, 1).std(0), x.float().abs().mean() + 1e-12
                share = (spread < 1e-5 * size).float().mean().item()
                if share > worst:
                    worst, name = share, call.name
    if worst > MOST_DEAD:
        seen = f"{worst:.0%} of the outputs of {name} are the same for every token"
        yield Finding("dead-units", seen)
