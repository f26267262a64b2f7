"""Checks of the loss, by its gradient with respect to logits that are planted in it.

For cross-entropy the gradient is w (p - y) at each position: it tells which target y was meant, and
with which weight w it counts. Planted logits take the place of the model's.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cs_basics.study.doctor.report import Finding, Findings
from cs_basics.study.doctor.subject import (
    Subject,
    first_of,
    log_total,
    padding,
    parts_of,
    undisturbed,
    with_logits,
)

MOST_LOGITS = 2**20
"""Logits of a batch that is examined; a larger one is cut to fewer rows."""
LARGE = 200.0
"""Added to all logits, it changes no loss; without the maximum taken off, exp overflows."""
SPREADS = (3.0, 3.0, 8.0)
MOST_ERROR = 1e-3
"""Relative error of a loss; float32 has 1e-6, bfloat16 up to 4e-3."""
MOST_UNUSED = 0.02
"""Share of the targets that may be left out for no reason that is known."""
MOST_TRUE = 20
"""Times that the text may hold an id that is left out, alone between others; one that only pads
stands in runs, or nowhere."""


class Reading:
    """What the loss's gradient says of each position.

    It is w (p - y), y being 1 at the target; with smoothing, y has another value in all places. The
    gradient at the target and at the smallest logit tell both.
    """

    def __init__(self, loss: float, logits: Tensor, gradient: Tensor) -> None:
        self.loss, rest = loss, logits.shape[-1] - 1
        nats, best = log_total(logits).unsqueeze(-1) - logits, gradient.argmin(-1, keepdim=True)
        low = logits.scatter(-1, best, torch.inf).argmin(-1, keepdim=True)
        (p, g), (p_low, g_low) = (
            ((-nats).gather(-1, at).exp(), gradient.gather(-1, at)) for at in (best, low)
        )
        w = (g + rest * g_low) / (p - 1 + rest * p_low) if rest > 2 else g / (p - 1)
        w = w.where(gradient.abs().amax(-1, keepdim=True) > 1e-3 * gradient.abs().max(), 0.0)
        smoothing = (w * p_low - g_low) * (rest + 1)
        self.targets, self.weights = best.squeeze(-1), w.squeeze(-1)
        """The target of each position, and how much it counts, (batch, time); the weights of a mean
        sum to 1."""
        own = (w - smoothing) * nats.gather(-1, best) + smoothing * nats.mean(-1, keepdim=True)
        self.own = own.sum().item()
        """The loss recomputed in float64 from the same logits."""
        # Rounding has either sign; what else the loss holds, such as a z-loss, has one.
        self.is_pure = bool(gradient.sum(-1).mean().abs() < 5e-4 * gradient.abs().max())
        """Whether the loss is a cross-entropy, possibly smoothed, and nothing else."""


def targets(s: Subject) -> Findings:
    """Compare the targets that the loss means with the inputs one later."""
    if (reading := read(s)) is None or s.time < 3:
        return
    inputs, used = s.inputs[: len(reading.targets)].cpu(), reading.weights > 0
    matches = dict[int, float]()
    for shift in (1, 0, 2, -1, 3):
        first, last = max(0, -shift), s.time - max(0, shift)
        same = reading.targets[:, first:last] == inputs[:, first + shift : last + shift]
        matches[shift] = same[used[:, first:last]].double().mean().nan_to_num().item()
    best, seen = max(matches, key=matches.__getitem__), None
    ends = reading.targets[:, -1] == inputs[:, 0]
    if len(ends) > 3 and (ends & used[:, -1]).all() and (inputs != inputs[:, :1]).any():
        seen = "the last target of each row is its first token, as after torch.roll"
    elif matches[1] <= 0.5 and used[:, :-1].any():
        seen = f"only {matches[1]:.0%} of the targets are the next input; no other shift fits"
        if matches[best] >= 0.5:
            seen = f"the targets are the inputs shifted by {best}, not by 1"
    if seen:
        yield Finding("targets-shifted", seen, s.loss_of)


def mean(s: Subject) -> Findings:
    """Read how much each position counts: all that have a target the same, one together."""
    if (reading := read(s)) is None:
        return
    weights, ids = reading.weights, s.inputs[: len(reading.weights)].cpu()
    used = weights > 0.1 * weights.max()
    total = weights.sum().item()
    given = parts_of(s.batch)[1][: len(weights)].cpu()
    unused = ~used & (given >= 0)
    # A model that shifts by itself has no target for the last position, a padded one a single id.
    unused[:, -1] = False
    left_out = given[unused].unique()
    padded, text = padding(ids) & used, np.asarray([] if s.tokens is None else s.tokens[:50_000])
    # Where the text itself repeats a token often, a run of it is no padding.
    is_dull = ((text[2:] == text[1:-1]) & (text[2:] == text[:-2])).any()
    is_divided = s.accumulate > 1 and abs(total * s.accumulate - 1) < 0.1
    alone = len(left_out) == 1 and (text[1:-1] == left_out[0].item())
    true = np.count_nonzero(alone & (text[1:-1] != text[2:]) & (text[1:-1] != text[:-2]))
    if not 0.67 < total < 1.5 and not is_divided:
        seen = f"the loss is {total:.3g} times the mean over positions"
        seen += ": a sum" if abs(total / used.sum() - 1) < 0.1 else ""
    elif unused.float().mean() > MOST_UNUSED and (len(left_out) > 1 or true > MOST_TRUE):
        seen = f"{unused.sum()} of {weights.numel()} targets are left out of the loss"
        seen += f": those of id {left_out[0]}, which is a token of the text" * (len(left_out) == 1)
    elif padded.any() and not is_dull:
        seen = f"{padded.sum()} targets that are padding count in the loss"
    elif used.any() and weights[used].std() > 0.2 * weights[used].mean():
        low, high = weights[used].aminmax()
        seen = f"one position counts {high / low:.1f} times as much as another"
    else:
        return
    yield Finding("loss-not-mean", seen, s.loss_of)


def precision(s: Subject) -> Findings:
    """Recompute the loss in float64 from logits of several sizes."""
    worst, at = 0.0, 0.0
    for seed, spread in enumerate(SPREADS):
        if (reading := read(s, spread, seed, is_natural=True)) is None or not reading.is_pure:
            return
        error = abs(reading.loss - reading.own) / reading.own
        if not error <= worst:
            worst, at = error, spread
    large, plain = read(s, shift=LARGE), read(s)
    if not worst <= MOST_ERROR:
        seen = f"for random logits of standard deviation {at:.0f} the loss is off by {worst:.2%}"
    elif plain and (large is None or not abs(large.loss / plain.loss - 1) < 1e-2):
        found = "not finite" if large is None else f"{large.loss:.3g}, not {plain.loss:.3g}"
        seen = f"adding {LARGE:.0f} to all logits must not change the loss, and makes it {found}"
    else:
        return
    yield Finding("loss-precision", seen, s.loss_of)


def read(
    s: Subject, spread: float = 3.0, seed: int = 0, *, shift: float = 0.0, is_natural: bool = False
) -> Reading | None:
    """Plant logits and read the gradient; None if the loss does not come from them.

    Args:
        s: The subject.
        spread: Standard deviation of the logits.
        seed: Seed of the logits.
        shift: Added to all of them.
        is_natural: Keep the model's own dtype; else float32.
    """
    planted = list[Tensor]()

    def plant(_module: nn.Module, _args: Any, output: Any) -> Any:  # noqa: ANN401
        natural = first_of(output)
        generator = torch.Generator().manual_seed(seed)
        values = spread * torch.randn(natural.shape, generator=generator) + shift
        values = values.to(natural.device, natural.dtype if is_natural else torch.float32)
        planted.append(values.requires_grad_())
        return with_logits(output, planted[-1])

    with undisturbed(s.bare):
        rows = max(2, MOST_LOGITS // (s.time * s.vocab))
        batch = s.batch if rows >= len(s.inputs) else s.cut(rows)
        with _head(s).register_forward_hook(plant):
            loss = s.loss_of(s.bare, batch)
        if len(planted) != 1 or not loss.requires_grad or not loss.isfinite():
            return None
        (gradient,) = torch.autograd.grad(loss, planted, materialize_grads=True)
    if not gradient.any():
        return None
    return Reading(loss.item(), planted[0].detach().cpu().double(), gradient.cpu().double())


def _head(s: Subject) -> nn.Module:
    """Return what returns the logits: the model, or a part of one that takes the loss as well."""
    *parts, whole = s.calls(s.inputs[:1])
    return [s.bare, *(c.module for c in parts if c.output.equal(whole.output))][-1]
