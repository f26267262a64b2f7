"""Checks of the updates that were watched."""

import re
import statistics
from collections.abc import Callable, Iterator

import numpy as np

from cs_basics.study.doctor.finding import Finding
from cs_basics.study.doctor.subject import Subject, line_of
from cs_basics.study.doctor.watch import Fit, Update, Watch
from cs_basics.study.doctor.weights import no_gradient

FEW = 3
"""A finding about gradients needs as many updates that show it."""


def stepping(s: Subject, watch: Watch) -> Iterator[Finding]:
    """See that steps are made, one an update, and that they change the weights."""
    expected = "one step an update, which changes the weights"
    updates = watch.updates
    changed = [u for u in updates if u.change and any(u.rates or [1.0])]
    if watch.num_calls >= 8 * (s.options.get("accumulate") or 1) and not updates:
        seen = f"{watch.num_calls} losses and no step of this optimizer with a gradient"
    elif changed and all(u.norm == 0 for u in updates):
        seen = "every gradient is 0 or None when the optimizer steps"
    elif changed and all(u.change.moved == 0 for u in changed if u.change):
        seen = f"{len(changed)} steps that were compared changed no weight"
    elif updates and watch.num_empty_steps >= len(updates) // 2 + 1:
        yield Finding(
            "in-optimizer-twice",
            f"{watch.num_empty_steps} steps without a new gradient beside {len(updates)} with one",
            expected,
            "count the calls of optimizer.step() in the loop",
            updates[-1].place,
        )
        return
    else:
        return
    yield Finding(
        "no-step",
        seen,
        expected,
        "w = next(model.parameters()).clone(); optimizer.step(); compare",
        updates[-1].place if updates else None,
    )


def silent(s: Subject, watch: Watch) -> Iterator[Finding]:
    """Name the parameters without a gradient, and the matrices whose gradient was always 0."""
    trained = [(n, p) for n, p in s.bare.named_parameters() if p.requires_grad]
    without = [name for name, p in trained if id(p) not in watch.reached]
    quiet = [n for n, p in trained if p.dim() > 1 and id(p) not in watch.loud and n not in without]
    loud = [name for name, p in trained if id(p) in watch.loud]
    without, quiet = ([n for n in some if not _is_expert(n, loud)] for some in (without, quiet))
    if without and len(without) < len(trained):
        yield no_gradient(s, without, "get no gradient from any batch")
    elif quiet and watch.loud and sum(u.fit is not None for u in watch.updates) >= FEW:
        yield no_gradient(s, quiet, "have a gradient of 0 in every batch")


def _is_expert(name: str, others: list[str]) -> bool:
    """Tell whether others in the same block differ in a number: an expert may be chosen rarely."""
    block, *rest = re.split(r"(?<=\d)(?=\.)", name, maxsplit=1)
    kinds = {re.sub(r"\d+", "", other) for other in others if other.startswith(block + ".")}
    return any(re.search(r"\d", part) for part in rest) and re.sub(r"\d+", "", name) in kinds


def gradients(s: Subject, watch: Watch) -> Iterator[Finding]:
    """Compare the gradients at each step with those of its batches alone."""
    fits = [(u, u.fit) for u in watch.updates if u.fit is not None]
    kept = [(u, f) for u, f in fits if f.left > 0.3 * abs(f.right) and f.error < 0.1]
    if len(kept) >= min(FEW, max(1, len(fits) - 1)) and len(fits) > 1:
        u, f = kept[-1]
        yield Finding(
            "not-zeroed",
            f"the gradient at a step is that of its batch and {f.left / f.right:.2g} times what "
            "the step before had left",
            "that of its batch alone",
            "optimizer.zero_grad() before each backward of an update",
            u.place,
        )
        return
    yield from _accumulation(s, fits, watch.updates)
    yield from _clipping(s, fits, watch.updates)


def _accumulation(
    s: Subject, fits: list[tuple[Update, Fit]], updates: list[Update]
) -> Iterator[Finding]:
    if not updates:
        return
    meant, most_norm = s.options.get("accumulate") or 1, s.options.get("clip")
    parts = statistics.median(u.parts for u in updates)
    total = statistics.median(u.upstream for u in updates)
    ratios = [f.right for _, f in fits]
    ratio = statistics.median(ratios) if ratios else total
    seen = None
    if fits and all(f.is_last for _, f in fits):
        seen = f"the gradient is that of the last of {parts:g} micro-batches"
    elif meant > 1 and parts != meant and len(updates) > 1:
        seen = f"{parts:g} micro-batches an update, not {meant}"
    elif parts > 1 and abs(total / parts - 1) < 0.05 and ratio > 1.2:
        seen = f"the gradients of {parts:g} micro-batches are added undivided: {ratio:.2g} times"
    elif meant > 1 or parts > 1:
        most = max(parts, meant)
        if abs(total * most - 1) < 0.05 or (abs(ratio * most - 1) < 0.05 and not most_norm):
            seen = f"each loss is divided by {most:g} twice"
    if seen:
        yield Finding(
            "accumulation",
            seen,
            "the mean over the micro-batches: each loss divided by their number, once",
            "(loss / num_micro_batches).backward()",
            updates[-1].place,
        )


def _clipping(
    s: Subject, fits: list[tuple[Update, Fit]], updates: list[Update]
) -> Iterator[Finding]:
    clip, seen, place = s.options.get("clip"), None, None
    if clip:
        for u in updates:
            is_right = u.fit is not None and u.fit.cosine > 0.99
            if u.norm > (1.02 if is_right else 1.5) * clip:
                seen, place = f"a gradient of norm {u.norm:.3g} at the step", u.place
                break
    odd: list[tuple[Update, str]] = []
    for u, f in fits:
        is_small = clip and u.norm < 0.8 * min(clip, f.right_norm)
        if u.num_largest >= 8 and f.cosine < 0.999:
            odd.append((u, f"{u.num_largest} numbers of the gradient are {u.largest:.3g} at most"))
        elif f.cosine < 0.9 and f.error > 0.2 and f.left < 0.3 * abs(f.right):
            odd.append((u, f"the gradient has the cosine {f.cosine:.2f} with the right one"))
        elif is_small and abs(u.upstream * u.parts - 1) > 0.05:
            odd.append((u, f"a gradient of norm {u.norm:.3g}, by itself {f.right_norm:.3g}"))
    if seen is None and len(odd) >= min(FEW, max(1, len(fits))):
        place, seen = odd[-1][0].place, odd[-1][1]
    if seen:
        yield Finding(
            "clipping",
            seen,
            f"the right gradient, at most {clip:g} long" if clip else "the right gradient",
            "clip between backward and step, by the joint norm of this model's gradients",
            place,
        )


def schedule(s: Subject, watch: Watch) -> Iterator[Finding]:
    """Compare the rates with those of the schedule, up to a factor for each group."""
    rate_at, updates = s.options.get("schedule"), watch.updates
    if rate_at is None or len(updates) < 4:
        return
    for group in range(len(updates[0].rates)):
        rates = [u.rates[group] for u in updates]
        wrong = [_distance(rates, rate_at, offset) for offset in (0, 1)]
        error, at = min(wrong)
        if error > 0.05:
            yield Finding(
                "schedule",
                f"update {at + 1} had the rate {rates[at]:.3g}",
                f"{rate_at(at + 1):.3g} by the schedule, which counts updates",
                "print(optimizer.param_groups[0]['lr']) at each update; step the scheduler once an "
                "update, and resume it at its step",
                updates[at].place,
            )
            return


def _distance(
    rates: list[float], rate_at: Callable[[int], float], offset: int
) -> tuple[float, int]:
    """Return the largest deviation from a multiple of the schedule, and where it is."""
    # Not the first update, whose number may be 0: some schedules have no such rate.
    meant = np.array([rate_at(i + offset) for i in range(1, len(rates))])
    highest, found = meant.max() or 1.0, np.array(rates[1:])
    is_high = meant > 0.01 * highest
    factor = np.median(found[is_high] / meant[is_high]) if is_high.any() else 1.0
    factor = 1.0 if abs(factor - 1) < 0.05 or not factor else factor
    off = np.abs(found - factor * meant) / (factor * highest)
    return float(off.max()), int(off.argmax()) + 1


def mode(s: Subject, watch: Watch) -> Iterator[Finding]:
    """See that the updates are made in training mode, where dropout is part of it."""
    modes = [u.is_training for u in watch.updates]
    if modes and not all(modes) and (modes[0] or s.options.get("has_dropout")):
        at = modes.index(False)
        yield Finding(
            "train-eval-mode",
            f"update {at + 1} was made in evaluation mode",
            "training mode in every update: evaluation switches dropout off",
            "model.train() after each evaluation",
            watch.updates[at].place,
        )
    elif s.options.get("is_random"):
        yield Finding(
            "train-eval-mode",
            "in evaluation mode two calls of the model give different logits",
            "equal ones: evaluation mode switches dropout off",
            "F.dropout(x, p, training=self.training), or nn.Dropout",
            line_of(s.bare),
        )


def optimizer(s: Subject, watch: Watch) -> Iterator[Finding]:
    """Read the settings that make an optimizer another, and see whether it descends."""
    updates, seen = watch.updates, None
    first = next((u for u in updates if u.is_first and u.change and u.fit), None)
    count = sum(p.numel() for p in s.held()) or 1
    typical = statistics.median([u.norm for u in updates] or [0.0]) / count**0.5
    for group in s.optimizer.param_groups:
        betas, eps = group.get("betas"), group.get("eps")
        memory = betas[0] if betas else group.get("momentum") or 0.0
        if group.get("maximize"):
            seen = "maximize=True"
        elif betas and betas[0] ** 2 >= betas[1]:
            seen = f"betas={tuple(betas)}: beta1^2 is not below beta2"
        elif memory >= 0.995:
            seen = f"momentum of {memory} remembers more than 200 updates"
        elif betas and eps and typical and eps > typical and eps >= 1e-4:
            seen = f"eps={eps:g}, while a gradient is {typical:.2g}"
    if first and first.change and first.change.uphill > 0.02 and first.change.shrunk < 0.5:
        seen = f"the first step has the cosine {first.change.uphill:.2f} with the gradient"
    if seen:
        yield Finding(
            "optimizer-setup",
            seen,
            "steps against the gradient; for Adam beta1^2 < beta2 < 1, and eps far below the size "
            "of a gradient, which it would replace",
            "AdamW(parameters, lr, betas=(0.9, 0.95), eps=1e-8)",
            updates[0].place if updates else None,
        )


def changes(s: Subject, watch: Watch) -> Iterator[Finding]:
    """See what the steps did to the weights: how much was decay, and how much was lost."""
    watched = [u for u in watch.updates if u.change and u.change.size]
    half = [p for p in s.held() if p.dtype.itemsize < 4]
    lost = [
        (u, u.change.moved)
        for u in watch.updates
        if u.change and u.norm > 0 and u.change.moved < 0.8 and any(u.rates)
    ]
    if half and len(lost) >= FEW:
        yield Finding(
            "precision",
            f"{1 - lost[-1][1]:.0%} of the weights, {half[0].dtype}, stay as they are at a step",
            "few: bfloat16 keeps 8 bits, so that a change below 1/256 of a weight is lost",
            "keep the weights in float32, and autocast",
            lost[-1][0].place,
        )
    again = statistics.median([u.again for u in watched] or [0.0])
    if again < -0.3:
        yield Finding(
            "precision",
            f"{-again:.0%} of a step is undone before the next: weights are rounded or put back",
            "weights that stay as the optimizer leaves them",
            "w = next(model.parameters()).clone() after a step; compare before the next",
            watched[-1].place,
        )
    elif again > 0.05:
        yield Finding(
            "in-optimizer-twice",
            f"between steps the weights go on in the direction of the last, {again:.0%} as far",
            "each weight makes one step an update",
            "look for a second optimizer that holds some of these parameters",
            watched[-1].place,
        )
    shares, seen = [u.change.shrunk for u in watched if u.change], None
    share = statistics.median(shares or [0.0])
    gains = [(p, was) for p, was in zip(s.bare.parameters(), s.start, strict=False) if p.dim() == 1]
    left = [(p.mean() / was.mean()).item() for p, was in gains if bool((was == 1).all())]
    most = max(group.get("weight_decay") or 0.0 for group in s.optimizer.param_groups)
    if len(shares) >= FEW and not -0.8 < share < 0.5:
        seen = (
            f"{abs(share):.0%} of a step only makes weights {'smaller' if share > 0 else 'larger'}"
        )
    elif left and 0 <= statistics.median(left) < 0.5 and most > 1:
        seen = f"a decay of {most:g} has brought gains from 1 to {statistics.median(left):.2g}"
    if seen:
        yield Finding(
            "decay",
            seen,
            "a small share: decay is to balance learning, not to undo it",
            "for group in optimizer.param_groups: group['weight_decay'] = 0",
            watched[-1].place,
        )
