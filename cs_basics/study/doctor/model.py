"""Checks of the model: what a position sees, what bounds its logits, how the first loss stands."""

import math

import torch
from torch import Tensor, nn

from cs_basics.study.doctor.report import Finding, Findings
from cs_basics.study.doctor.subject import Subject

NOISE = 0.02
"""Added to all weights before a model is probed: what starts at 0 would hide what it multiplies."""
ROUNDING = 2e-6
"""Change of a logit, as a share of the largest, that is rounding: positions that do not see a token
compute exactly the same."""
MOST_MIXED = 1e-3
"""The same for another row of the batch; experts that share out its tokens reach 1e-5."""
LEAST_REACH = 8
"""Positions that even a narrow window lets a token reach in a few layers."""
MOST_EXCESS = 1.5
"""Nats by which the first loss may exceed ln(vocab): logits of standard deviation s cost s^2/2."""
ENLARGED = 1000.0
MOST_FLOOR = 0.05
"""Nats that bounded logits may leave; a soft cap at 15 leaves 1e-8."""
MOST_CONSTANT = 0.5
"""Share of the matrices that start constant; zero heads and ends of branches are 5 of 10."""


def positions_seen(s: Subject) -> Findings:
    """Change one token, and look where logits move: never before it, always after it."""
    with s.quiet():
        probe = Probe(s)
        time = probe.ids.shape[1]
        for at in sorted({1, time // 2, time - 1} - {0, time}):
            early = probe.moved(probe.other_at(at))[0, :at]
            if early.max() > probe.tolerance:
                yield Finding(
                    "future-leak",
                    f"changing the token at position {at} changes the logits of position "
                    f"{int(early.argmax())} by {early.max():.2g}",
                    probe.first_to_see(at),
                )
                return
        other = probe.ids.clone()
        other[1:] = (other[1:] + 1) % s.vocab
        if len(other) > 1 and (mixed := probe.moved(other)[0].max()) > MOST_MIXED * probe.largest:
            seen = f"changing the ids of one row moves the logits of another by {mixed:.2g}"
            yield Finding("rows-mixed", seen)
            return
        moved = probe.moved(probe.other_at(1 % time)).amax(0)[1:] > probe.tolerance
        reach = int(moved.nonzero().max()) if moved.any() else 0
        expected = min(time - 2, LEAST_REACH)
        if reach < expected:
            seen = f"a changed token reaches the logits of {reach} later positions, not {expected}"
            yield Finding("context-unused", seen)


class Probe:
    """Logits of some rows that begin with different tokens, and how far they move with the ids.

    It adds a little noise to every weight.

    Raises:
        ValueError: The model keeps something from one call to the next.
    """

    def __init__(self, s: Subject) -> None:
        self.s, self.ids = s, s.inputs[:2].clone()
        self.ids[:, 0] = (self.ids[:, 1 % self.ids.shape[1]] + 1) % s.vocab
        generator = torch.Generator().manual_seed(0)
        for p in s.bare.parameters():
            if p.is_floating_point():
                p += NOISE * torch.randn(p.shape, generator=generator).to(p)
        s.bare.eval()
        self.base = self._logits(self.ids)
        self.largest = self.base.abs().max().item()
        self._logits(self.other_at(0))  # A model that keeps a state has another one now.
        noise = self.moved(self.ids).max().item()
        if noise > MOST_MIXED * self.largest:
            raise ValueError("the model keeps a state: the same ids, again, give other logits")
        self.tolerance = max(ROUNDING * self.largest, 10 * noise)

    def _logits(self, ids: Tensor) -> Tensor:
        torch.manual_seed(0)  # The same dropout each time.
        return self.s.logits(ids).float()

    def other_at(self, at: int) -> Tensor:
        """Return the ids with another token at one place."""
        ids = self.ids.clone()
        ids[:, at] = (ids[:, at] + 1) % self.s.vocab
        return ids

    def moved(self, ids: Tensor) -> Tensor:
        """Return the largest change of a logit, (row, position)."""
        return (self._logits(ids) - self.base).abs().amax(2)

    def first_to_see(self, at: int) -> nn.Module:
        """Return the first module whose output moves before a place where its input does not."""
        both = (self.s.calls(ids) for ids in (self.ids, self.other_at(at)))
        for one, two in zip(*both, strict=False):
            moves = [
                not torch.equal(x[:, :at], y[:, :at])
                for x, y in zip(one.ends(), two.ends(), strict=True)
                if x.dim() > 1
            ]
            if moves == [False, True]:
                return one.module
        return self.s.bare


def range_of_logits(s: Subject) -> Findings:
    """Enlarge all matrices, and see whether the logits' range B grows.

    The loss is at least log(1 + (vocab - 1) exp(-B)).
    """
    with s.quiet():
        probe = Probe(s)
        for p in s.bare.parameters():
            if p.dim() > 1:
                p *= ENLARGED
        logits = s.logits(probe.ids).double()
    bound = (logits.amax(-1) - logits.amin(-1)).max().item()
    floor = math.log1p((s.vocab - 1) * math.exp(-bound))
    if floor > MOST_FLOOR:
        seen = (
            f"of matrices {ENLARGED:.0f} times as large, the logits span no more than {bound:.3g}"
        )
        yield Finding("logits-bounded", f"{seen}: the loss cannot fall below {floor:.2f}")


def start_weights(s: Subject) -> Findings:
    """Count the trained matrices that start with all entries equal."""
    matrices = [p for p in s.trained() if p.dim() > 1 and p.numel() > 1]
    constant = sum(bool((p == p.flatten()[0]).all()) for p in matrices)
    if constant > MOST_CONSTANT * len(matrices):
        seen = f"{constant} of {len(matrices)} matrices start with all their entries equal"
        yield Finding("start-weights", seen)


def start_loss(s: Subject) -> Findings:
    """Compare the first loss with that of equally likely tokens; say where NaN first stands."""
    with s.quiet():
        s.bare.eval()
        logits = s.logits(s.inputs[:8])
        loss, size = s.loss_of(s.bare, s.batch).item(), math.log(s.vocab)
    if not logits.isfinite().all():
        yield not_finite(s, "the logits before the first update")
    elif loss > size + MOST_EXCESS:
        seen = f"the first loss is {loss:.2f}, not near ln({s.vocab}) = {size:.2f}; logits have "
        yield Finding("start-loss", f"{seen}the standard deviation {logits.std():.2f}")


def not_finite(s: Subject, what: str) -> Finding:
    """Name the first module whose output is not finite though its input is."""
    name, module = "the loss or its gradient (the model's outputs are finite)", s.bare
    for call in reversed(s.calls(s.inputs)):
        if not call.output.isfinite().all():
            name, module = call.name or type(s.bare).__name__, call.module
    seen = f"NaN or infinity in {what}, first in the output of {name}"
    return Finding("not-finite", seen, module)
