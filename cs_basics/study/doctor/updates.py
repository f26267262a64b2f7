"""Checks of the updates that were made."""

import math
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from cs_basics.study.doctor.loop import MEASURED, Loop, Seen
from cs_basics.study.doctor.report import Finding, Findings

FEW = 3
"""A finding about gradients needs as many updates that show it."""
ALIKE = 0.05
"""Relative difference of two factors that are the same; rounding makes 1e-6."""
CLIPPED, MOST_CLIPPED = 1.02, 1.5
"""Times the clip that a norm may be: the second if the gradient is not the loss's, since noise is
added on purpose, or several processes clip parts."""
LEAST_COSINE = 0.9
"""Of a gradient at a step and the loss's own; 1 in healthy loops, 0.95 with noise on purpose."""
CHOPPED = 8
"""Entries of equal size that cutting each entry leaves; other gradients have one."""
OFF_SCHEDULE = 0.05
"""Share of the highest rate by which one may differ from the schedule."""
LONG_MEMORY = 0.995
"""Momentum that remembers 200 updates; 0.99 is the most that is usual."""
LARGE_EPS = 1e-4
UPHILL = 0.02
"""Cosine of a first step and the gradient; -0.1 to -1 in healthy runs."""
LEAST_MOVED = 0.8
"""Share of half-precision weights that change at a step; 0.95 where they are in float32."""
UNDONE, MADE_AGAIN = -0.3, 0.05
"""What the weights do until the next step, as a share of this one; 0 in healthy loops."""
MOST_DECAY = 0.5
"""Share of a step that makes weights smaller; 0.2 in a healthy run with a decay of 0.3."""
LEAST_GROWTH = -0.8
"""The same for steps that only make weights larger; -0.5 in first steps from small weights."""
LEAST_GAIN = 0.5
"""Of gains that start at 1; 0.7 after a healthy run."""


def stepping(s: Loop) -> Findings:
    """See that steps are made, one an update, and that they change the weights."""
    updates, cause = s.updates, "no-step"
    changed = [u.seen for u in updates if u.seen and any(u.rates or [1.0])]
    if s.num_calls >= 8 * s.accumulate and not updates:
        seen = f"{s.num_calls} losses, and no optimizer.step() after a backward()"
    elif len(updates) >= FEW and not any(any(u.rates or [1.0]) for u in updates):
        cause, seen = "schedule", f"the rate was 0 in each of {s.step} updates"
    elif changed and all(u.norm == 0 for u in updates[:MEASURED]):
        seen = "every gradient is 0 or None when the optimizer steps"
    elif changed and all(u.moved == 0 for u in changed):
        seen = f"no weight changed in any of {len(changed)} steps that were compared"
    elif updates and s.num_empty_steps > s.step // 2:
        seen = f"{s.step} steps with a new gradient, and {s.num_empty_steps} without one"
        cause = "in-optimizer-twice"
    else:
        return
    yield Finding(cause, seen, s.place)


def gradients(s: Loop) -> Findings:
    """Compare the gradients at each step with what backward brought."""
    watched = s.seen()
    kept = sum(u.is_left for u in watched)
    if len(watched) > 1 and kept >= min(FEW, len(watched) - 1):
        seen = f"in {kept} of {len(watched)} updates that were watched, the gradients of the one "
        yield Finding("not-zeroed", f"{seen}before were still there when backward began", s.place)
    elif s.updates:
        for cause, look in (("accumulation", _accumulated), ("clipping", _clipped)):
            if seen := look(s, watched):
                yield Finding(cause, seen, s.place)


def _accumulated(s: Loop, watched: list[Seen]) -> str | None:
    """Say how micro-batches are joined otherwise than by their mean."""
    parts = median(len(u.parts) for u in s.updates)
    total = median(u.upstream for u in s.updates)
    known = [u.norm / u.seen.right_norm for u in s.updates if u.seen and u.seen.right_norm]
    ratio, most = median(known or [total]), max(parts, s.accumulate)
    is_twice = abs(total * most - 1) < ALIKE or (abs(ratio * most - 1) < ALIKE and not s.clip)
    if watched and all(u.is_wiped for u in watched):
        return f"only the last of {parts:g} micro-batches is in the gradient"
    if s.accumulate > 1 and parts != s.accumulate and len(s.updates) > 1:
        return f"{parts:g} micro-batches an update, not {s.accumulate}"
    if parts > 1 and abs(total / parts - 1) < ALIKE and ratio > 1.2:
        return f"gradients of {parts:g} micro-batches are added: {ratio:.2g} times their mean"
    if most > 1 and is_twice:
        return f"each loss is divided by {most:g} twice, so by {most * most:g}"
    return None


def _clipped(s: Loop, watched: list[Seen]) -> str | None:
    """Say how the gradient at a step is neither that of the loss nor scaled to the clip."""
    clip = s.clip or math.inf
    odd = list[str]()
    for u in s.updates:
        if u.norm > (CLIPPED if u.seen and u.seen.cosine > 0.99 else MOST_CLIPPED) * clip:
            return f"the gradient still has the norm {u.norm:.3g} at the step, for a clip of {clip}"
        if (seen := u.seen) is None:
            continue
        is_small = s.clip and u.norm < 0.8 * min(clip, seen.right_norm)
        if seen.num_largest >= CHOPPED and seen.cosine < 0.999:
            odd.append(f"{seen.num_largest} entries of the gradient are cut to {seen.largest:.3g}")
        elif seen.cosine < LEAST_COSINE:
            told = f"the gradient at the step is another than the loss's: cosine {seen.cosine:.2f}"
            odd.append(told)
        elif is_small and abs(u.upstream * len(u.parts) - 1) > ALIKE:
            odd.append(
                f"a gradient of norm {u.norm:.3g} at the step, {seen.right_norm:.3g} from the loss"
            )
    return odd[-1] if len(odd) >= min(FEW, max(1, len(watched))) else None


def schedule(s: Loop) -> Findings:
    """Compare the rates of each group with those of the schedule, as shares of the highest."""
    # Not the first update, whose number may be 0: some schedules have no such rate.
    rate_at, updates = s.schedule, s.updates[1:]
    if rate_at is None or len(updates) < FEW:
        return
    for rates in np.array([u.rates for u in updates]).T:
        errors = list[Any]()
        for offset in (0, 1):
            meant = np.array([rate_at(u.number - offset) for u in updates])
            errors.append(abs(rates / (rates.max() or 1) - meant / (meant.max() or 1)))
        error = min(errors, key=np.max)
        if error.max() > OFF_SCHEDULE:
            at, number = error.argmax(), updates[error.argmax()].number
            seen = f"update {number} had lr={rates[at]:.3g}; the schedule gives "
            yield Finding("schedule", f"{seen}{rate_at(number):.3g}", s.place)
            return


def mode(s: Loop) -> Findings:
    """See that the updates are made in training mode, where dropout is part of it."""
    modes, seen = [all(part.is_training for part in u.parts) for u in s.updates], None
    if modes and not all(modes) and (modes[0] or s.has_dropout):
        seen = f"update {s.updates[modes.index(False)].number} was made in evaluation mode"
    elif s.is_random:
        seen = "after model.eval(), two calls with the same ids give different logits"
    if seen:
        yield Finding("train-eval-mode", seen, s.place if not s.is_random else None)


def optimizer(s: Loop) -> Findings:
    """Read the settings that make an optimizer another, and see whether it descends."""
    seen = next(filter(None, (_odd(s, group) for group in s.optimizer.param_groups)), None)
    first = s.updates[0].seen if s.updates and s.updates[0].is_first else None
    if first and first.uphill > UPHILL and first.shrunk < MOST_DECAY:
        seen = f"the first step goes uphill: its cosine with the gradient is {first.uphill:.2f}"
    kind = type(s.optimizer)
    if seen:
        is_torch = kind.__module__.startswith("torch.")
        yield Finding("optimizer-setup", seen, s.place if is_torch else kind.step)


def _odd(s: Loop, group: dict[str, Any]) -> str | None:
    """Say what is odd about the settings of a group."""
    betas, eps = group.get("betas"), group.get("eps")
    memory = betas[0] if betas else group.get("momentum") or 0.0
    count = sum(p.numel() for p in s.trained()) or 1
    typical = median([u.norm for u in s.updates[:MEASURED]] or [0.0]) / count**0.5
    if group.get("maximize"):
        return "maximize=True"
    if betas and betas[0] ** 2 >= betas[1]:
        return f"betas={tuple(betas)}: beta1 is too large for this beta2"
    if memory >= LONG_MEMORY:
        return f"momentum of {memory} remembers more than 200 updates"
    if betas and eps and eps > typical > 0 and eps >= LARGE_EPS:
        return f"eps={eps:g}, more than a typical entry of the gradient, {typical:.2g}"
    return None


def changes(s: Loop) -> Iterator[Finding]:
    """See what the steps did to the weights: how much was decay, and how much was lost."""
    watched = [u for u in s.seen() if u.size]
    half = [p for p in s.trained() if p.dtype.itemsize < 4]
    both = [(u, u.seen) for u in s.updates if u.seen]
    lost = [v.moved for u, v in both if u.norm > 0 and v.moved < LEAST_MOVED and any(u.rates)]
    again = median([u.again for u in watched] or [0.0])
    if half and len(lost) >= FEW:
        seen = f"{1 - lost[-1]:.0%} of the {half[0].dtype} weights do not change at a step: a "
        yield Finding("precision", f"{seen}change below 1/256 of a weight is rounded away", s.place)
    if again < UNDONE:
        seen = f"{-again:.0%} of a step is undone before the next: weights are rounded or put back"
        yield Finding("precision", seen, s.place)
    elif again > MADE_AGAIN:
        seen = f"between two steps the weights move on, by {again:.0%} of the last step"
        yield Finding("in-optimizer-twice", seen, s.place)
    share = median([u.shrunk for u in watched] or [0.0])
    pairs = zip(s.bare.parameters(), s.start, strict=False)
    gains = [p.mean().item() for p, was in pairs if p.dim() == 1 and (was == 1).all()]
    left = median(gains or [1.0])
    most = max(group.get("weight_decay") or 0.0 for group in s.optimizer.param_groups)
    if len(watched) >= FEW and not LEAST_GROWTH < share < MOST_DECAY:
        which = "smaller" if share > 0 else "larger"
        yield Finding("decay", f"{abs(share):.0%} of each step only makes weights {which}", s.place)
    elif 0 <= left < LEAST_GAIN and most > 1:
        seen = f"weight_decay={most:g} has brought the gains of norms from 1 to {left:.2g}"
        yield Finding("decay", seen, s.place)
