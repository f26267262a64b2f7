"""Checks of the model: what a position sees, in which order, and how the first loss stands."""

import itertools
import math

import torch
from torch import Tensor, nn

from cs_basics.study.doctor.finding import Finding, Findings
from cs_basics.study.doctor.subject import Call, Subject, first_of, nats_of

NOISE = 0.02
"""Added to all weights before a model is probed: what starts at 0 would hide what it multiplies."""
ROUNDING = 2e-6
"""Change of a logit, as a share of the largest, that is rounding: positions that do not see a token
compute exactly the same."""
LEAST_REACH = 8
"""Positions that even a narrow window lets a token reach in a few layers."""
MOST_EXCESS = 1.5
"""Nats by which the first loss may exceed ln(vocab): logits of standard deviation s cost s^2/2."""
LEAST_IDENTITY = 0.2
"""Mean diagonal of a block's derivative; 1 with a residual connection, 0 without."""


def sees(s: Subject) -> Findings:
    """Change one token, and look where logits move: never before it, always after it."""
    with s.quiet():
        probe = Probe(s)
        time = probe.ids.shape[1]
        for at in sorted({1, time // 2, time - 1} - {0, time}):
            early = probe.moved(probe.other_at(at))[:at]
            if early.max() > probe.tolerance:
                seen = int(early.argmax())
                yield Finding(
                    "future-leak",
                    f"changing the token at position {at} changes the logits of position {seen} "
                    f"by {early.max():.2g}",
                    "no change at earlier positions: one that sees the token it has to predict "
                    "learns to copy it. Is the causal mask right?",
                    f"model.eval(); y = model(ids)[:, {seen}]; ids[:, {at}:] = 0; "
                    f"print((model(ids)[:, {seen}] - y).abs().max())  # ids of a batch; 0 if right",
                    probe.first_to_see(at),
                )
                return
        moved = probe.moved(probe.other_at(1 % time))[1:] > probe.tolerance
        reach = int(moved.nonzero().max()) if moved.any() else 0
        expected = min(time - 2, LEAST_REACH)
        exchanged = torch.cat([probe.ids[:, :2].flip(1), probe.ids[:, 2:]], 1)
        if reach < expected:
            yield Finding(
                "context-unused",
                f"a changed token reaches the logits of {reach} later positions",
                f"at least {expected}: a position can only use what it sees",
                "print a head's attention weights: is the past masked? is axis 0 the batch?",
            )
        elif expected > 0 and probe.moved(exchanged)[2:].max() <= probe.tolerance:
            yield Finding(
                "no-positions",
                "swapping two earlier tokens leaves all later logits as they were",
                "a change: 'dog bites man' is not 'man bites dog'",
                "print the position indices in forward: are they 0, 1, 2, ..., and used?",
            )


class Probe:
    """Logits of some rows that begin with different tokens, and how far they move with the ids.

    It adds a little noise to every weight.
    """

    def __init__(self, s: Subject) -> None:
        self.s, self.ids = s, s.inputs[:2].clone()
        self.ids[:, 0] = (self.ids[:, 1 % self.ids.shape[1]] + 1) % s.vocab
        generator = torch.Generator().manual_seed(0)
        for p in s.bare.parameters():
            if p.is_floating_point():
                p += NOISE * torch.randn(p.shape, generator=generator).to(p)
        self.base = self._logits(self.ids)
        noise, largest = self.moved(self.ids).max().item(), self.base.abs().max().item()
        self.tolerance = max(ROUNDING * largest, 10 * noise)

    def _logits(self, ids: Tensor) -> Tensor:
        torch.manual_seed(0)  # The same dropout each time.
        return self.s.logits(ids).float()

    def other_at(self, at: int) -> Tensor:
        """Return the ids with another token at one place."""
        ids = self.ids.clone()
        ids[:, at] = (ids[:, at] + 1) % self.s.vocab
        return ids

    def moved(self, ids: Tensor) -> Tensor:
        """Return the largest change of a logit by position."""
        return (self._logits(ids) - self.base).abs().amax((0, 2))

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


def position_table(s: Subject) -> Findings:
    """See whether the last row of each table of positions makes a difference."""
    time = s.time
    rows_of = {
        name: p
        for name, p in s.bare.named_parameters()
        if "pos" in name
        or "Embedding" in type(s.bare.get_submodule(name.rpartition(".")[0])).__name__
    }
    rows_of |= {name: b for name, b in s.bare.named_buffers() if _is_waves(b)}
    with s.quiet():
        probe = Probe(s)
        for name, table in rows_of.items():
            axis = next((i for i, n in enumerate(table.shape) if n >= time), None)
            if axis is None or time < 2 or s.vocab in table.shape:
                continue
            row = table.select(axis, time - 1)
            kept = row.clone()
            row += torch.linspace(0.3, 1, kept.numel()).to(row).view_as(row)
            moved = probe.moved(probe.ids)
            row.copy_(kept)
            if moved[-1] <= probe.tolerance:
                yield Finding(
                    "no-positions",
                    f"row {time - 1} of {name} {tuple(table.shape)} is not used: no logit "
                    "depends on it",
                    f"each of the {time} positions of a batch uses a row of its own",
                    f"print the indices into {name} in forward: are they 0, 1, ..., {time - 1}?",
                )
                return


def _is_waves(buffer: Tensor) -> bool:
    """Tell whether a buffer holds sines and cosines."""
    sizes = torch.view_as_real(buffer) if buffer.is_complex() else buffer.float()
    is_mask = ((sizes == 0) | (sizes == 1)).all()
    is_bounded = buffer.dim() > 1 and sizes.abs().max() <= 1.001
    return bool(is_bounded and sizes.std() > 0.1 and not is_mask)


def residual(s: Subject) -> Findings:
    """Blocks that follow each other keep their input: the mean diagonal of their derivative is 1.

    It is estimated by random vectors v, as the mean of v (block(x + h v) - block(x)) / h.
    """
    with s.quiet():
        s.bare.eval()
        blocks = _blocks(s.calls(s.inputs[:2]))
        for one, block in itertools.pairwise(blocks):
            x = block.args[0]
            if type(one.module) is not type(block.module) or not torch.equal(one.output, x):
                continue
            step = 1e-2 * x.float().square().mean().sqrt().to(x)
            v = torch.randn_like(x)
            moved = first_of(block.module(x + step * v, *block.args[1:], **block.kwargs))
            identity = (v * (moved - block.output)).float().mean().item() / step.item()
            if abs(identity) < LEAST_IDENTITY:
                yield Finding(
                    "architecture",
                    f"a {type(block.module).__name__} does not pass its input on: the mean "
                    f"diagonal of its derivative is {identity:.2f}",
                    "about 1: a residual connection x + f(x) keeps its input, so that gradients "
                    "reach the first block",
                    "x = x + attention(norm(x)), then x = x + feed_forward(norm(x))",
                    block.module,
                )
                return


def _blocks(calls: list[Call]) -> list[Call]:
    """Return the calls of modules with parts that keep the shape, inside no other of these."""
    kept = [
        call
        for call in calls
        if [x.dim() for x in call.ends()] == [3, 3]
        and call.args[0].shape == call.output.shape
        and [*call.module.children()]
    ]
    inside = {part for call in kept for part in call.module.modules() if part is not call.module}
    return [call for call in kept if call.module not in inside]


def start_loss(s: Subject) -> Findings:
    """Compare the first loss with that of equally likely tokens; say where NaN first stands."""
    with s.quiet():
        ids = s.inputs[:8]
        logits = s.logits(ids).cpu().double()
        if not logits.isfinite().all():
            yield not_finite(s, "the logits before the first update")
            return
        if s.time < 2:
            return
        equal = (logits == logits.amin(-1, keepdim=True)).double().mean().item()
        if 0.2 < equal - 1 / s.vocab < 0.9:
            yield Finding(
                "architecture",
                f"{equal:.0%} of the logits equal the lowest at their position, {logits.min():.3g}",
                "one logit at each position: what a ReLU or a clamp cuts off gets no gradient",
                "logits = head(norm(x))  # with no activation after it",
            )
        loss = nats_of(logits[:, :-1], ids[:, 1:]).mean().item()
        size = math.log(s.vocab)
        if loss > size + MOST_EXCESS:
            yield Finding(
                "start-loss",
                f"the first loss is {loss:.2f}; logits have the standard deviation "
                f"{logits.std():.2f}",
                f"near ln({s.vocab}) = {size:.2f}: a model that knows nothing gives all "
                "tokens the same probability",
                "print({n: p.std().item() for n, p in model.named_parameters()})  # usual: 0.02",
            )


def not_finite(s: Subject, what: str) -> Finding:
    """Name the first module whose output is not finite though its input is."""
    name, module = "the loss or its gradient (the model's outputs are finite)", s.bare
    for call in reversed(s.calls(s.inputs)):
        if not call.output.isfinite().all():
            name, module = call.name or type(s.bare).__name__, call.module
    return Finding(
        "not-finite",
        f"NaN or infinity in {what}, first in the output of {name}",
        "finite numbers: no division by 0, log(0), or row that is masked entirely",
        "torch.autograd.set_detect_anomaly(True) before the loop names what makes the first NaN",
        module,
    )
