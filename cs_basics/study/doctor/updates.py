"""Checks of the updates that were made."""

from statistics import median
from typing import Any

import numpy as np

from cs_basics.study.doctor.loop import Loop, Seen
from cs_basics.study.doctor.report import Finding, Findings

FEW = 3
"""A finding about gradients needs as many updates that show it."""
ALIKE = 0.05
"""Relative difference of two factors that are the same; rounding makes 1e-6."""
LEAST_CLIPPED, MOST_CLIPPED = 0.8, 1.5
"""Times the clip, or a smaller norm that backward brought, that a norm may be at the step: 1 is
right, and more if several processes clip parts."""
OFF_SCHEDULE = 0.05
"""Share of the highest rate by which one may differ from the schedule."""
MOST_LOWEST, LEAST_UPDATES = 0.65, 20
"""Share of the updates at the lowest rate, of so many at least; 0.3 where it falls in steps."""
LONG_MEMORY = 0.995
"""Momentum that remembers 200 updates; 0.99 is the most that is usual."""
LARGE_EPS = 1e-3
"""Adam divides by the root of the mean square of a gradient plus this; 1e-8 is usual."""
LEAST_MOVED = 0.8
"""Share of half-precision weights that change at a step; 0.95 where they are in float32."""
UPHILL = 0.02
"""Cosine of a first step and the gradient; -0.1 to -1 in healthy runs."""
MOST_DECAY = 0.5
"""Share of a step that makes weights smaller; 0.2 in a healthy run with a decay of 0.3."""
LEAST_GROWTH = -0.8
"""The same for steps that only make weights larger; -0.5 in first steps from small weights."""
LARGE_DECAY = 5.0
"""A weight_decay that leaves little of a weight; 0.3 is large."""


def steps(s: Loop) -> Findings:
    """See that steps are made, and that they change the weights."""
    updates, cause = s.updates, "no-step"
    changed = [u.seen for u in updates if u.seen and any(u.rates or [1.0])]
    if s.num_calls >= 8 * s.accumulate and not updates:
        seen = f"{s.num_calls} losses, and no optimizer.step() after a backward()"
    elif len(updates) >= FEW and not any(any(u.rates or [1.0]) for u in updates):
        cause, seen = "schedule", f"the rate was 0 in each of {s.step} updates"
    elif changed and all(u.norm == 0 for u in changed):
        seen = "every gradient is 0 or None when the optimizer steps"
    elif changed and all(u.moved == 0 for u in changed):
        seen = f"no weight changed in any of {len(changed)} steps that were compared"
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
    elif watched and (seen := _accumulated(s, watched)):
        yield Finding("accumulation", seen, s.place)
    elif watched and s.clip and (seen := _clipped(s, s.clip)):
        yield Finding("clipping", seen, s.place)


def _accumulated(s: Loop, watched: list[Seen]) -> str | None:
    """Say how micro-batches are joined otherwise than by their mean."""
    parts = median(len(u.losses) for u in s.updates)
    weight = median(u.weight for u in s.updates)
    # By what the gradient was multiplied after backward, such as by 1 / parts for a mean.
    factor = median(u.norm / u.brought_norm if u.brought_norm else 1.0 for u in watched)
    most = max(parts, s.accumulate)
    if all(u.is_wiped for u in watched):
        return f"only the last of {parts:g} micro-batches is in the gradient"
    if s.accumulate > 1 and parts != s.accumulate and len(s.updates) > 1:
        return f"{parts:g} micro-batches an update, not {s.accumulate}"
    if parts > 1 and abs(weight / parts - 1) < ALIKE and weight * factor > 1 + ALIKE:
        return f"gradients of {parts:g} micro-batches are added, not averaged"
    if most > 1 and abs(weight * most - 1) < ALIKE:
        return f"each loss is divided by {most:g} twice, so by {most * most:g}"
    return None


def _clipped(s: Loop, clip: float) -> str | None:
    """Say how the gradient at a step is neither that of the loss nor scaled to the clip."""
    small = list[str]()
    for update in s.updates:
        if (seen := update.seen) is None:
            continue
        told, right = f"a gradient of norm {seen.norm:.3g} at the step", seen.brought_norm
        if seen.norm > MOST_CLIPPED * clip:
            return f"{told}, for a clip of {clip:g}"
        right /= abs(update.weight or 1.0)
        if s.world_size == 1 and seen.norm < LEAST_CLIPPED * min(clip, right):
            small.append(f"{told}, {right:.3g} from the loss, for a clip of {clip:g}")
    return small[-1] if len(small) >= FEW else None


def schedule(s: Loop) -> Findings:
    """Compare the rates of each group with those of the schedule, as shares of the highest."""
    # Not the first update, whose number may be 0: some schedules have no such rate.
    updates = s.updates[1:]
    if len(updates) < FEW:
        return
    for rates in np.array([u.rates for u in updates]).T:
        numbers, seen, remedy = [u.number for u in updates], "", ""
        lowest = np.mean(rates == rates.min())
        if len(rates) >= LEAST_UPDATES and MOST_LOWEST < lowest < 1:
            seen = f"{lowest:.0%} of the updates had the lowest rate, {rates.min():.3g}"
            remedy = "let the schedule end with the last update"
        elif s.schedule is not None:
            errors = list[Any]()
            for offset in (0, 1):
                meant = np.array([s.schedule(number - offset) for number in numbers])
                errors.append(abs(rates / (rates.max() or 1) - meant / (meant.max() or 1)))
            error = min(errors, key=np.max)
            if error.max() > OFF_SCHEDULE:
                at = error.argmax()
                seen = f"update {numbers[at]} had lr={rates[at]:.3g}; the schedule gives "
                seen += f"{s.schedule(numbers[at]):.3g}"
        if seen:
            yield Finding("schedule", seen, s.place, remedy)
            return


def mode(s: Loop) -> Findings:
    """See that the updates are made in training mode, where dropout is part of it."""
    modes, seen = [u.is_training for u in s.updates], None
    if modes and not all(modes) and (modes[0] or s.has_dropout):
        seen = f"update {s.updates[modes.index(False)].number} was made in evaluation mode"
    elif s.is_random:
        seen = "after model.eval(), two calls with the same ids give different logits"
    if seen:
        yield Finding("train-eval-mode", seen, s.place if not s.is_random else None)


def optimizer(s: Loop) -> Findings:
    """Read the settings that make an optimizer another, and see how much of a step is decay."""
    seen = next(filter(None, map(_odd, s.optimizer.param_groups)), None)
    shares = [u.shrunk for u in s.seen()]
    for first in s.seen()[:1]:
        if first.is_first and first.uphill > UPHILL and first.shrunk < MOST_DECAY:
            seen = f"the first step goes uphill: its cosine with the gradient is {first.uphill:.2f}"
    if seen:
        kind = type(s.optimizer)
        is_torch = kind.__module__.startswith("torch.")
        yield Finding("optimizer-setup", seen, s.place if is_torch else kind.step)
        return
    share = median(shares or [0.0])
    most = max(group.get("weight_decay") or 0.0 for group in s.optimizer.param_groups)
    if len(shares) >= FEW and not LEAST_GROWTH < share < MOST_DECAY:
        which = "smaller" if share > 0 else "larger"
        yield Finding("decay", f"{abs(share):.0%} of each step only makes weights {which}", s.place)
    elif most > LARGE_DECAY:
        yield Finding("decay", f"weight_decay={most:g}", s.place)


def _odd(group: dict[str, Any]) -> str | None:
    """Say what is odd about the settings of a group."""
    betas, eps = group.get("betas"), group.get("eps")
    memory = betas[0] if betas else group.get("momentum") or 0.0
    if group.get("maximize"):
        return "maximize=True"
    if betas and betas[0] ** 2 >= betas[1]:
        return f"betas={tuple(betas)}: beta1 is too large for this beta2"
    if memory >= LONG_MEMORY:
        return f"momentum of {memory} remembers more than 200 updates"
    if betas and eps and eps >= LARGE_EPS:
        return f"eps={eps:g}, more than a typical entry of the gradient"
    return None


def precision(s: Loop) -> Findings:
    """See whether steps are lost because the weights are rounded."""
    half = [p for p in s.trained() if p.dtype.itemsize < 4]
    updates = [(u.seen, any(u.rates)) for u in s.updates if u.seen]
    lost = [v.moved for v, has_rate in updates if v.norm > 0 and v.moved < LEAST_MOVED and has_rate]
    if half and len(lost) >= FEW:
        seen = f"{1 - lost[-1]:.0%} of the {half[0].dtype} weights do not change at a step: a "
        yield Finding("precision", f"{seen}change below 1/256 of a weight is rounded away", s.place)
