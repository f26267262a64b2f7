"""Checks of the updates that were watched."""

import math
import re
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from cs_basics.study.doctor.finding import Finding, Findings
from cs_basics.study.doctor.watch import Update, Watch
from cs_basics.study.doctor.weights import no_gradient

FEW = 3
"""A finding about gradients needs as many updates that show it."""


def silent(s: Watch, *, is_zero: bool = False) -> Findings:
    """Name the parameters without a gradient, or else the matrices whose gradient was always 0."""
    if len(s.updates) < FEW:
        return
    held = set(map(id, s.trained()))
    trained = {name: p for name, p in s.bare.named_parameters() if id(p) in held}
    loud = [name for name, p in trained.items() if s.reached.get(id(p))]
    others = [n for n in trained if n not in loud and not _is_expert(n, loud)]
    without = [name for name in others if id(trained[name]) not in s.reached]
    quiet = [n for n in others if n not in without and trained[n].dim() > 1]
    if not is_zero and without and len(without) < len(trained):
        yield no_gradient(without, "parameters whose .grad is None at every step")
    elif is_zero and quiet and loud and sum(u.is_fitted for u in s.updates) >= FEW:
        yield no_gradient(quiet, "parameters whose gradient is all 0 at every step")


def zeros(s: Watch) -> Findings:
    """Name the matrices whose gradient was always 0, unless something else explains it."""
    if not {"context-unused", "dead-units", "attention-collapsed"} & {f.cause for f in s.findings}:
        yield from silent(s, is_zero=True)


def stepping(s: Watch) -> Findings:
    """See that steps are made, one an update, and that they change the weights."""
    updates, cause = s.updates, "no-step"
    try_it = "check the order: zero_grad(), backward(), clip, step()"
    changed = [u for u in updates if u.is_compared and any(u.rates or [1.0])]
    if s.num_calls >= 8 * s.accumulate and not updates:
        seen = f"{s.num_calls} losses, and no optimizer.step() after a backward()"
    elif changed and all(u.norm == 0 for u in updates):
        seen = "every gradient is 0 or None when the optimizer steps"
    elif changed and all(u.moved == 0 for u in changed):
        seen = f"no weight changed in any of {len(changed)} steps that were compared"
    elif updates and s.num_empty_steps > len(updates) // 2:
        seen = f"{len(updates)} steps with a new gradient, and {s.num_empty_steps} without one"
        cause, try_it = "in-optimizer-twice", "count the calls of optimizer.step() in the loop"
    else:
        return
    yield Finding(cause, seen, "one step an update, which changes the weights", try_it, s.place)


def _is_expert(name: str, others: list[str]) -> bool:
    """Tell whether others in the same block differ in a number: an expert may be chosen rarely."""
    block, *rest = re.split(r"(?<=\d)(?=\.)", name, maxsplit=1)
    kinds = {re.sub(r"\d+", "", other) for other in others if other.startswith(block + ".")}
    return any(re.search(r"\d", part) for part in rest) and re.sub(r"\d+", "", name) in kinds


def gradients(s: Watch) -> Findings:
    """Compare the gradients at each step with those of its batches alone."""
    fits = [u for u in s.updates if u.is_fitted]
    kept = [u for u in fits if u.left > 0.3 * abs(u.right) and u.error < 0.1]
    if len(kept) >= min(FEW, max(1, len(fits) - 1)) and len(fits) > 1:
        yield Finding(
            "not-zeroed",
            "the gradient at a step is that of its batch, plus "
            f"{kept[-1].left / kept[-1].right:.2g} times that of the step before",
            "the gradient of its batch alone",
            "optimizer.zero_grad() once an update, before its first backward()",
            s.place,
        )
    elif s.updates:
        yield from _accumulation(s, fits)
        yield from _clipping(s, fits)


def _accumulation(s: Watch, fits: list[Update]) -> Findings:
    meant = s.accumulate
    parts = median(u.parts for u in s.updates)
    total = median(u.upstream for u in s.updates)
    ratio = median([u.right for u in fits] or [total])
    most = max(parts, meant)
    is_twice = abs(total * most - 1) < 0.05 or (abs(ratio * most - 1) < 0.05 and not s.clip)
    if fits and all(u.is_last for u in fits):
        seen = f"only the last of {parts:g} micro-batches is in the gradient"
    elif meant > 1 and parts != meant and len(s.updates) > 1:
        seen = f"{parts:g} micro-batches an update, not {meant}"
    elif parts > 1 and abs(total / parts - 1) < 0.05 and ratio > 1.2:
        seen = f"gradients of {parts:g} micro-batches are added: {ratio:.2g} times their mean"
    elif most > 1 and is_twice:
        seen = f"each loss is divided by {most:g} twice, so by {most * most:g}"
    else:
        return
    yield Finding(
        "accumulation",
        seen,
        "the mean over the micro-batches: each loss divided by their number, once",
        "zero_grad() once an update; (loss / num_micro_batches).backward(), no other division",
        s.place,
    )


def _clipping(s: Watch, fits: list[Update]) -> Findings:
    clip = s.clip or math.inf
    large = [u.norm for u in s.updates if u.norm > (1.02 if u.cosine > 0.99 else 1.5) * clip]
    odd = list[str]()
    for u in fits:
        is_small = u.norm < 0.8 * min(clip, u.right_norm) and s.clip
        if u.num_largest >= 8 and u.cosine < 0.999:
            odd.append(
                f"{u.num_largest} entries of the gradient are cut to one size, {u.largest:.3g}"
            )
        elif u.cosine < 0.9 and u.error > 0.2 and u.left < 0.3 * abs(u.right):
            odd.append(
                f"the gradient at the step is not the loss's: their cosine is {u.cosine:.2f}"
            )
        elif is_small and abs(u.upstream * u.parts - 1) > 0.05:
            odd.append(
                f"a gradient of norm {u.norm:.3g} at the step, {u.right_norm:.3g} from the loss"
            )
    if large:
        odd = [f"the gradient still has the norm {large[0]:.3g} at the step"]
    elif len(odd) < min(FEW, max(1, len(fits))):
        return
    yield Finding(
        "clipping",
        odd[-1],
        "the gradient of the loss" + f", scaled to a norm of at most {clip:g}" * (clip < math.inf),
        "clip_grad_norm_(model.parameters(), MAX_NORM) after the last backward(), before step()",
        s.place,
    )


def schedule(s: Watch) -> Findings:
    """Compare the rates with those of the schedule, up to a factor for each group."""
    rate_at, updates = s.schedule, s.updates
    if rate_at is None or len(updates) < 4:
        return
    for rates in zip(*(u.rates for u in updates), strict=True):
        error, at = min(_distance(rates, rate_at, offset) for offset in (0, 1))
        if error > 0.05:
            yield Finding(
                "schedule",
                f"update {at + 1} had lr={rates[at]:.3g}",
                f"lr={rate_at(at + 1):.3g}, which the schedule gives for that update",
                "print(optimizer.param_groups[0]['lr']) at each update; step the scheduler once an "
                "update, and restore its step on resuming",
                updates[at].place,
            )
            return


def _distance(
    rates: Sequence[float], rate_at: Callable[[int], float], offset: int
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


def mode(s: Watch) -> Findings:
    """See that the updates are made in training mode, where dropout is part of it."""
    modes = [u.is_training for u in s.updates]
    if modes and not all(modes) and (modes[0] or s.has_dropout):
        at = modes.index(False)
        yield Finding(
            "train-eval-mode",
            f"update {at + 1} was made in evaluation mode",
            "training mode in every update: evaluation mode switches dropout off",
            "model.train() before the first update and after each evaluation",
            s.updates[at].place,
        )
    elif s.is_random:
        yield Finding(
            "train-eval-mode",
            "after model.eval(), two calls with the same ids give different logits",
            "equal logits: model.eval() switches dropout off",
            "F.dropout(x, p, training=self.training), nothing else random in forward",
        )


def optimizer(s: Watch) -> Findings:
    """Read the settings that make an optimizer another, and see whether it descends."""
    updates, seen = s.updates, None
    first = next((u for u in updates if u.is_first and u.is_fitted), None)
    count = sum(p.numel() for p in s.trained()) or 1
    typical = median([u.norm for u in updates] or [0.0]) / count**0.5
    for group in s.optimizer.param_groups:
        betas, eps = group.get("betas"), group.get("eps")
        memory = betas[0] if betas else group.get("momentum") or 0.0
        if group.get("maximize"):
            seen = "maximize=True"
        elif betas and betas[0] ** 2 >= betas[1]:
            seen = f"betas={tuple(betas)}: beta1 is too large for this beta2"
        elif memory >= 0.995:
            seen = f"momentum of {memory} remembers more than 200 updates"
        elif betas and eps and typical and eps > typical and eps >= 1e-4:
            seen = f"eps={eps:g}, more than a typical entry of the gradient, {typical:.2g}"
    if first and first.uphill > 0.02 and first.shrunk < 0.5:
        seen = f"the first step goes uphill: its cosine with the gradient is {first.uphill:.2f}"
    kind = type(s.optimizer)
    is_torch = kind.__module__.startswith("torch.")
    if seen:
        yield Finding(
            "optimizer-setup",
            seen,
            "steps against the gradient; usual: momentum=0.9, betas=(0.9, 0.95), eps=1e-8",
            "torch.optim.AdamW instead: if that learns, check signs and settings of your optimizer",
            s.place if is_torch else kind.step,
        )


def changes(s: Watch) -> Findings:
    """See what the steps did to the weights: how much was decay, and how much was lost."""
    watched = [u for u in s.updates if u.size]
    half = [p for p in s.trained() if p.dtype.itemsize < 4]
    lost = [u.moved for u in s.updates if u.norm > 0 and u.moved < 0.8 and any(u.rates)]
    if half and len(lost) >= FEW:
        yield Finding(
            "precision",
            f"{1 - lost[-1]:.0%} of the {half[0].dtype} weights do not change at a step",
            "few: bfloat16 has 8 bits, so a change below 1/256 of a weight is rounded away",
            "keep the weights in float32, and compute in bfloat16 by torch.autocast",
            s.place,
        )
    again = median([u.again for u in watched] or [0.0])
    if again < -0.3:
        yield Finding(
            "precision",
            f"{-again:.0%} of a step is undone before the next: weights are rounded or put back",
            "weights that stay as the optimizer leaves them",
            "w = next(model.parameters()).clone() after a step; compare before the next",
            s.place,
        )
    elif again > 0.05:
        yield Finding(
            "in-optimizer-twice",
            f"between two steps the weights move on, by {again:.0%} of the last step",
            "one step of each weight an update",
            "look for a second optimizer that holds some of these parameters",
            s.place,
        )
    share = median([u.shrunk for u in watched] or [0.0])
    both = zip(s.bare.parameters(), s.start, strict=False)
    gains = [p.mean().item() for p, was in both if p.dim() == 1 and (was == 1).all()]
    left = median(gains or [1.0])
    most = max(group.get("weight_decay") or 0.0 for group in s.optimizer.param_groups)
    if len(watched) >= FEW and not -0.8 < share < 0.5:
        which = "smaller" if share > 0 else "larger"
        seen = f"{abs(share):.0%} of each step only makes weights {which}"
    elif 0 <= left < 0.5 and most > 1:
        seen = f"weight_decay={most:g} has brought the gains of norms from 1 to {left:.2g}"
    else:
        return
    yield Finding(
        "decay",
        seen,
        "a small share: decay should balance learning, not undo it",
        "weight_decay=0.1, or 0 to compare; AdamW decays by lr * weight_decay * p a step",
        s.place,
    )
