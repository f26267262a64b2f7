"""Checks of the loss, by logits that are planted in the place of the model's.

For cross-entropy the gradient with respect to them is w (p - y) at each position: it tells which
target y was meant, and with which weight w it counts.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cs_basics.study.doctor.report import Finding, Findings
from cs_basics.study.doctor.subject import (
    Subject,
    first_of,
    padding,
    parts_of,
    undisturbed,
    with_logits,
)

MOST_LOGITS = 2**20
"""Logits of a batch that is examined; a larger one is cut to fewer rows."""
SPREAD = 3.0
"""Standard deviation of the logits that are planted."""
LARGE = 200.0
"""Added to all logits, it changes no cross-entropy; if the maximum stays in, exp overflows."""
SURE, MOST_LEFT = 4.0, 0.5
"""Nats by which the target's logit exceeds all others together in a sure and right answer; and what
this may cost, as a share of equally likely tokens: 0.01 is usual, 0.3 if labels are smoothed."""
LIKE_A_MEAN = 0.67, 1.5
"""Sum of the weights of all positions: 1 for a mean."""
MOST_UNEVEN = 0.2
"""Standard deviation of the weights as a share of their mean; 0 for a mean."""
MOST_UNUSED = 0.02
"""Share of the targets that may be left out for no reason that is known."""
MOST_TRUE = 20
"""Times that the text may hold an id that is left out, alone between others; one that only pads
stands in runs, or nowhere."""
LEAST_PADDED = 0.3
"""Share of the rows that must end with a run of one id for that to be padding."""


@dataclass
class Reading:
    """What a loss and its gradient say of some logits."""

    loss: float
    targets: Tensor
    """The target of each position, (batch, time)."""
    weights: Tensor
    """How much each position counts, (batch, time); the weights of a mean sum to 1."""


def meaning_of_loss(s: Subject) -> Findings:
    """Read what a loss means: which targets, a mean over which of them, at what precision."""
    rows = min(len(s.inputs), max(2, MOST_LOGITS // (s.time * s.vocab)))
    generator = torch.Generator().manual_seed(0)
    logits = SPREAD * torch.randn(rows, s.time, s.vocab, generator=generator)
    if (reading := read(s, logits)) is None:
        return
    looks = {
        "targets-shifted": _shift(s, reading),
        "loss-not-mean": _mean(s, reading),
        "loss-precision": _precision(s, logits, reading),
    }
    for cause, seen in looks.items():
        if seen:
            yield Finding(cause, seen, s.loss_of)


def _shift(s: Subject, reading: Reading) -> str | None:
    """Say how the targets are not the inputs one later."""
    if s.time < 3:
        return None
    inputs, used = s.inputs[: len(reading.targets)].cpu(), reading.weights > 0
    matches = dict[int, float]()
    for shift in (1, 0, 2, -1, 3):
        first, last = max(0, -shift), s.time - max(0, shift)
        same = reading.targets[:, first:last] == inputs[:, first + shift : last + shift]
        matches[shift] = same[used[:, first:last]].double().mean().nan_to_num().item()
    best, ends = max(matches, key=matches.__getitem__), reading.targets[:, -1] == inputs[:, 0]
    if len(ends) > 3 and (ends & used[:, -1]).all() and (inputs != inputs[:, :1]).any():
        return "the last target of each row is its first token, as after torch.roll"
    if matches[1] > 0.5 or not used[:, :-1].any():
        return None
    if matches[best] >= 0.5:
        return f"the targets are the inputs shifted by {best}, not by 1"
    return f"only {matches[1]:.0%} of the targets are the next input; no other shift fits"


def _mean(s: Subject, reading: Reading) -> str | None:
    """Say how the loss is not the mean over all positions that have a target."""
    weights, inputs = reading.weights, s.inputs[: len(reading.weights)].cpu()
    used, total = weights > 0.1 * weights.max(), weights.sum().item()
    is_divided = s.accumulate > 1 and abs(total * s.accumulate - 1) < 0.1
    if not (LIKE_A_MEAN[0] < total < LIKE_A_MEAN[1] or is_divided):
        told = ": a sum" * (abs(total / used.sum() - 1) < 0.1)
        return f"the loss is {total:.3g} times the mean over positions{told}"
    given = parts_of(s.batch)[1][: len(weights)].cpu()
    unused = ~used & (given >= 0)
    unused[:, -1] = False  # A model that shifts by itself has no target for it.
    ids = given[unused].unique().tolist()
    told = f": those of id {ids[0]}, which is a token of the text" if len(ids) == 1 else ""
    if unused.float().mean() > MOST_UNUSED and (len(ids) > 1 or _is_true(s, ids[0])):
        return f"{unused.sum()} of {weights.numel()} targets are left out of the loss{told}"
    padded = padding(inputs) & used
    if padded.any(1).float().mean() > LEAST_PADDED:
        return f"{padded.sum()} targets that are padding count in the loss"
    if used.any() and weights[used].std() > MOST_UNEVEN * weights[used].mean():
        low, high = weights[used].aminmax()
        return f"one position counts {high / low:.1f} times as much as another"
    return None


def _is_true(s: Subject, token: int) -> bool:
    """Tell whether an id is a token of the text, and not only padding."""
    here = np.asarray([] if s.tokens is None else s.tokens[:50_000]) == token
    return int(np.sum(here[1:-1] & ~here[:-2] & ~here[2:])) > MOST_TRUE


def _precision(s: Subject, logits: Tensor, reading: Reading) -> str | None:
    """Say that the loss overflows, or what a right answer costs."""
    if read(s, logits + LARGE) is None:
        return f"with {LARGE:.0f} added to all logits, which changes nothing, it is not finite"
    one_hot = torch.zeros_like(logits).scatter(-1, reading.targets.unsqueeze(-1), 1.0)
    sure, equal = read(s, (math.log(s.vocab) + SURE) * one_hot), read(s, 0 * logits)
    if sure and equal and sure.loss > MOST_LEFT * equal.loss:
        return (
            f"logits that are sure of the right token cost {sure.loss:.3g}, and those that call "
            f"all tokens equally likely {equal.loss:.3g}"
        )
    return None


def read(s: Subject, logits: Tensor) -> Reading | None:
    """Plant logits and read the gradient; None if the loss does not come from them.

    Args:
        s: The subject.
        logits: What the model seems to return for the first rows, (batch, time, vocab), float32.
    """
    planted = list[Tensor]()

    def plant(_module: nn.Module, _args: Any, output: Any) -> Any:  # noqa: ANN401
        planted.append(logits.detach().to(first_of(output).device).requires_grad_())
        return with_logits(output, planted[-1])

    with undisturbed(s.bare), _head(s).register_forward_hook(plant):
        loss = s.loss_of(s.bare, s.cut(len(logits)))
        if len(planted) != 1 or not loss.requires_grad or not loss.isfinite():
            return None
        (gradient,) = torch.autograd.grad(loss, planted, materialize_grads=True)
    if not gradient.any():
        return None
    gradient, z = gradient.cpu().double(), logits.double()
    p = (z - z.amax(-1, keepdim=True)).exp()
    targets = gradient.argmin(-1, keepdim=True)
    weights = gradient.gather(-1, targets) / ((p / p.sum(-1, keepdim=True)).gather(-1, targets) - 1)
    is_used = gradient.abs().amax(-1) > 1e-3 * gradient.abs().max()
    return Reading(loss.item(), targets.squeeze(-1), weights.squeeze(-1).where(is_used, 0.0))


def _head(s: Subject) -> nn.Module:
    """Return what returns the logits: the model, or a part of one that takes the loss as well."""
    *parts, whole = s.calls(s.inputs[:1])
    return [s.bare, *(c.module for c in parts if c.output.equal(whole.output))][-1]
