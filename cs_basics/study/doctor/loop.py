"""What is seen of a loop while it runs: calls of the loss, batches, steps of the optimizer."""

import contextlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from cs_basics.study.doctor.subject import Subject, caller, parts_of

FIRST = 4
"""The updates that are watched: this many from the first on, then each power of two."""
MOST_ROWS, LEAST_BATCHES = 1024, 8
"""Batches are kept until they have so many rows; but so many batches at least."""
KEPT = 10_000
"""Updates of which all are kept; of later ones the last, and those that are watched."""


@dataclass
class Seen:
    """What is seen of an update that is watched."""

    is_left: bool = False
    """Whether gradients of the update before were still there when backward began."""
    is_wiped: bool = False
    """Whether those of one part were gone when the next began."""
    brought: dict[int, Tensor] = field(default_factory=dict)
    """Norm of each parameter's gradient after the last backward, by its place in `trained`."""
    brought_norm: float = 0.0
    """Norm of them together."""
    norm: float = 0.0
    """Norm of the gradients at the step."""
    is_first: bool = False
    """Whether the optimizer had no state."""
    before: Tensor | None = None
    """All parameters before the step; None after it."""
    moved: float = 1.0
    """Share of the numbers with a gradient that have changed."""
    shrunk: float = 0.0
    """Share of the change of matrices that only makes them smaller; negative: larger."""
    uphill: float = 0.0
    """Cosine of the change and the gradient: negative for a descent."""


@dataclass
class Update:
    """One update of the weights."""

    number: int
    losses: list[Tensor]
    """Of its parts; they wait on the device."""
    upstream: list[Tensor]
    """With what backward began at each loss: 1, or what the loss was multiplied by."""
    is_training: bool
    """Whether all parts were computed in training mode."""
    rates: list[float] = field(default_factory=list)
    seen: Seen | None = None

    @cached_property
    def loss(self) -> float:
        """Mean loss of the parts."""
        return fmean(loss.item() for loss in self.losses)

    @cached_property
    def weight(self) -> float:
        """Sum of what the losses were multiplied by."""
        return sum(float(factor) for factor in self.upstream)


class Loop(Subject):
    """A subject whose loop is seen through its loss, its batches and the hooks of its optimizer."""

    step = num_calls = 0
    place = ""
    """Where the loss was called last, or a step was made, of a watched update."""
    is_off = False
    """Whether the doctor looks away."""
    _seen: Seen | None = None
    """What is being seen of the update that has not been made yet."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.updates, self._next = list[Update](), Update(1, [], [], is_training=True)
        self.rows = list[tuple[Any, Any]]()
        """Inputs and targets of batches."""
        self.ears, self.hooks = contextlib.ExitStack(), contextlib.ExitStack()
        """Hooks of the update that is watched, and of the whole loop."""
        self.hooks.callback(self.ears.close)
        self.hooks.callback(self.optimizer.register_step_pre_hook(self._before_step).remove)
        self.hooks.callback(self.optimizer.register_step_post_hook(self._after_step).remove)

    def watched_loss(self, model: Any, batch: Any) -> Tensor:  # noqa: ANN401
        """Call the program's loss, and listen to what backward makes of it."""
        try:
            loss = self.loss_of(model, batch)
        except BaseException:
            self.hooks.close()
            raise
        if self.is_off or not loss.requires_grad:
            return loss
        self.num_calls += 1
        number = self.step + 1
        if self._seen is None and (number <= FIRST or not number & (number - 1)):
            self.place = self.place or caller()
            self._seen = Seen()
            for i, p in enumerate(self.trained()):
                hook = p.register_post_accumulate_grad_hook(partial(self._bring, i))
                self.ears.callback(hook.remove)
        loss.register_hook(partial(self._begin, loss.detach()))
        return loss

    def _begin(self, loss: Tensor, upstream: Tensor) -> None:
        """Note that backward begins."""
        if self.is_off:
            return
        update = self._next
        if seen := self._seen:
            has_any = any(p.grad is not None and p.grad.any() for p in self.trained())
            seen.is_left |= has_any and not update.losses
            seen.is_wiped |= not has_any and any(seen.brought.values())
        update.losses.append(loss)
        update.upstream.append(upstream)
        update.is_training &= self.bare.training

    def _bring(self, number: int, p: Tensor) -> None:
        """Note what backward has brought to a parameter."""
        if self._seen and not self.is_off and p.grad is not None:
            self._seen.brought[number] = p.grad.norm()

    def seen(self) -> list[Seen]:
        """Return the updates that were watched."""
        return [update.seen for update in self.updates if update.seen]

    def _before_step(self, optimizer: Any, *_: Any) -> None:  # noqa: ANN401
        update, seen = self._next, self._seen
        if self.is_off or not update.losses:
            return
        self.step = update.number
        self._next, self._seen = Update(self.step + 1, [], [], is_training=True), None
        update.rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        if self.step > KEPT and not self.updates[-1].seen:
            self.updates.pop()
        self.updates.append(update)
        if seen:
            self.ears.close()
            self.place, update.seen = caller(), seen
            seen.brought_norm = flat(seen.brought.values()).norm().item()
            seen.norm = self._gradient().norm().item()
            seen.is_first, seen.before = not optimizer.state, flat(self.trained())

    def _gradient(self) -> Tensor:
        """Return the gradients in one vector, 0 where there is none."""
        return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in self.trained())

    def _after_step(self, *_: Any) -> None:  # noqa: ANN401
        if self.is_off or not self.updates:
            return
        seen = self.updates[-1].seen
        if seen and seen.before is not None:
            before, gradient = seen.before, self._gradient()
            change = flat(self.trained()) - before
            moved = change[gradient != 0] != 0
            seen.moved = moved.float().mean().item() if len(moved) else 1.0
            seen.uphill = torch.cosine_similarity(change, gradient, dim=0).item()
            sizes, along, size = [p.numel() for p in self.trained()], 0.0, 0.0
            for p, step, was in zip(
                self.trained(), change.split(sizes), before.split(sizes), strict=True
            ):
                if p.dim() > 1:
                    share = -(step @ was) / was.norm().clamp(min=1e-30)
                    along += (share * share.abs()).nan_to_num().item()
                    size += step.square().sum().nan_to_num().item()
            seen.shrunk, seen.before = along / size if size else 0.0, None

    @contextlib.contextmanager
    def off(self) -> Generator[None]:
        """Look away: what happens is the doctor's own."""
        was, self.is_off = self.is_off, True
        try:
            yield
        finally:
            self.is_off = was

    def drawn(self, batch: Any) -> None:  # noqa: ANN401
        """Keep the rows of one of the first batches that the loop draws."""
        num_rows = len(self.rows) and len(self.rows) * len(self.rows[0][0])
        if self.is_off or (len(self.rows) >= LEAST_BATCHES and num_rows >= MOST_ROWS):
            return
        inputs, targets = (part.detach().cpu().numpy() for part in parts_of(batch))
        self.rows.append((inputs.copy(), targets.copy()))


class Batches:
    """The program's batches, which are noted when they are drawn."""

    def __init__(self, batches: Any, loop: Loop) -> None:  # noqa: ANN401
        self.batches, self.loop = batches, loop
        self._iterator = iter(self)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.loop.drawn(batch)
            yield batch

    def __next__(self) -> Any:  # noqa: ANN401
        return next(self._iterator)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.batches, name)

    def __len__(self) -> int:
        return len(self.batches)


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """Return all numbers of these tensors in one vector, in float32 at least."""
    vector = torch.cat([tensor.detach().flatten() for tensor in tensors] or [torch.zeros(1)])
    return vector.float() if vector.dtype.itemsize < 4 else vector
