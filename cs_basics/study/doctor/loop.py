"""What is seen of a loop while it runs: calls of the loss, batches, steps of the optimizer."""

import contextlib
import time
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from cs_basics.study.doctor.subject import Subject, caller, parts_of

FIRST = 4
"""The updates that are watched: this many from the first on, then each power of two."""
MOST_S = 20.0
"""Seconds after which no more of them are."""
MOST_ROWS, LEAST_BATCHES = 1024, 8
"""Batches are kept until they have so many rows; but so many batches at least."""
MEASURED = 64
"""Updates whose gradients are measured, from the first on; then only those that are watched."""
KEPT = 10_000
"""Updates of which all are kept; of later ones the last, and those that are watched."""


@dataclass
class Part:
    """One call of the loss that was followed by backward."""

    loss: Tensor
    upstream: Any
    """The gradient with which backward began: 1, or what the loss was multiplied by."""
    is_training: bool


@dataclass
class Update:
    """One update of the weights. Of those that are not watched, numbers wait on the device."""

    number: int
    parts: list[Part]
    rates: list[float]
    length: Tensor
    """Norm of the gradients at the step; 0 where it was not measured."""
    is_first: bool
    """Whether the optimizer had no state."""
    seen: "Seen | None" = None
    """What is known of an update that is watched."""

    @cached_property
    def loss(self) -> float:
        """Mean loss of the parts."""
        return fmean(part.loss.item() for part in self.parts)

    @cached_property
    def norm(self) -> float:
        """Joint norm of the gradients at the step."""
        return self.length.item()

    @cached_property
    def upstream(self) -> float:
        """Sum over the parts."""
        return sum(float(part.upstream) for part in self.parts)


@dataclass
class Seen:
    """An update that was watched.

    Its gradients were seen twice: as backward brought them, and at the step.
    """

    brought: dict[int, Tensor] = field(default_factory=dict)
    """Sum of what backward brought, by the parameter's place in `trained`."""
    is_left: bool = False
    """Whether gradients of the update before were still there when backward began."""
    is_wiped: bool = False
    """Whether those of one part were gone when the next began."""
    before: list[Tensor] = field(default_factory=list)
    """Parameters before the step."""

    cosine: float = 1.0
    """Of the two gradients; 1, too, where they cannot be compared."""
    right_norm: float = 0.0
    """Norm of the mean gradient of the parts; 0 where it is not known."""
    largest: float = 0.0
    num_largest: int = 0
    """Largest entry of the gradient at the step, and at how many places it stands."""

    size: float = 0.0
    """Norm of the change."""
    moved: float = 1.0
    """Share of the numbers with a gradient that have changed."""
    uphill: float = 0.0
    """Cosine of the change and the gradient: negative for a descent."""
    shrunk: float = 0.0
    """Share of the change of matrices that only makes them smaller; negative: larger."""
    again: float = 0.0
    """What the weights change by until the next step, as a multiple of this one: -1 undoes it."""


class Loop(Subject):
    """A subject whose loop is seen through its loss, its batches and the hooks of its optimizer."""

    step = num_calls = num_empty_steps = 0
    spent_s = 0.0
    place = ""
    """Where the loss was called last, or a step was made, of a watched update."""
    is_off = False
    is_replaced = False
    """Whether the loop has gone on to train another model."""
    _next: Seen | None = None
    """What is being seen of the update that has not been made yet."""
    _stepped: tuple[Tensor, Tensor, Seen] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.updates, self.parts = list[Update](), list[Part]()
        self.rows = list[tuple[Any, Any]]()
        """Inputs and targets of batches."""
        self.hashes = list[int]()
        """Of their inputs."""
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
        if isinstance(model, nn.Module) and self.bare is not model:
            both = zip(model.parameters(), self.bare.parameters(), strict=False)
            if not any(one is other for one, other in both):
                self.is_off = self.is_replaced = True
                return loss
        self.num_calls += 1
        if self._next is None and self.is_watched(self.step + 1):
            self.place = self.place or caller()
            self._next = Seen()
            for i, p in enumerate(self.trained()):
                self.ears.callback(p.register_hook(partial(self._bring, i)).remove)
        loss.register_hook(partial(self._begin, loss.detach()))
        return loss

    def _begin(self, loss: Tensor, upstream: Tensor) -> None:
        """Note that backward begins."""
        if self.is_off:
            return
        if seen := self._next:
            has_any = any(p.grad is not None and p.grad.any() for p in self.trained())
            seen.is_left |= has_any and not self.parts
            seen.is_wiped |= not has_any and any(g.any() for g in seen.brought.values())
        self.parts.append(Part(loss, upstream, self.bare.training))

    def _bring(self, number: int, gradient: Tensor) -> None:
        """Note what backward brings to a parameter."""
        if self._next and not self.is_off:
            self._next.brought[number] = self._next.brought.get(number, 0) + gradient.detach()

    def is_watched(self, step: int) -> bool:
        """Tell whether an update is one of those that are watched."""
        return self.spent_s < MOST_S and (step <= FIRST or not step & (step - 1))

    def seen(self) -> list[Seen]:
        """Return the updates that were watched to their ends."""
        return [u.seen for u in self.updates if u.seen and not u.seen.before]

    def _before_step(self, optimizer: Any, *_: Any) -> None:  # noqa: ANN401
        if self.is_off:
            return
        parts, self.parts = self.parts, []
        if not parts:
            self.num_empty_steps += 1
            return
        trained, seen = self.trained(), self._next
        self.step += 1
        is_measured = self.step <= MEASURED or seen
        grads = [p.grad.norm() for p in trained if is_measured and p.grad is not None]
        if self.step > KEPT and not self.updates[-1].seen:
            self.updates.pop()
        update = Update(
            self.step,
            parts,
            [float(group["lr"]) for group in optimizer.param_groups if "lr" in group],
            torch.stack(grads or [torch.zeros(())]).norm(),
            is_first=not optimizer.state,
            seen=seen,
        )
        self.updates.append(update)
        began = time.monotonic()
        if self._stepped is not None:
            weights, step, last = self._stepped
            again = (flat(trained) - weights) @ step / step.square().sum().clamp(min=1e-30)
            last.again, self._stepped = again.item(), None
        if seen:
            self.ears.close()
            self.place, self._next = caller(), None
            self._compare_gradients(seen, update)
            seen.before = [p.detach().clone() for p in trained]
        self.spent_s += time.monotonic() - began

    def _gradient(self) -> Tensor:
        """Return the gradients in one vector, 0 where there is none."""
        return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in self.trained())

    def _compare_gradients(self, seen: Seen, update: Update) -> None:
        """Compare the gradient at the step with what backward brought."""
        found, brought = self._gradient(), seen.brought
        seen.largest = found.abs().max().item()
        seen.num_largest = int((found.abs() >= 0.999 * seen.largest).sum())
        parts = (brought.get(i, torch.zeros_like(p)) for i, p in enumerate(self.trained()))
        right, seen.brought = flat(parts), {}
        # The gradients of other processes are in it, too.
        if self.world_size == 1 and (right + found).isfinite().all() and found.any():
            seen.cosine = torch.cosine_similarity(found, right, dim=0).item()
            seen.right_norm = right.norm().item() / abs(update.upstream or 1.0)

    def _after_step(self, *_: Any) -> None:  # noqa: ANN401
        if self.is_off or not self.updates:
            return
        began, seen = time.monotonic(), self.updates[-1].seen
        if seen and seen.before:
            self._compare_weights(seen)
        self.spent_s += time.monotonic() - began

    def _compare_weights(self, seen: Seen) -> None:
        """Compare the parameters with those before the step."""
        now, gradient = flat(self.trained()), self._gradient()
        change = now - flat(seen.before)
        moved = change[gradient != 0] != 0
        seen.size = change.norm().nan_to_num().item()
        seen.moved = moved.float().mean().item() if len(moved) else 1.0
        seen.uphill = torch.cosine_similarity(change, gradient, dim=0).item()
        along = size = 0.0
        for w, p in zip(seen.before, self.trained(), strict=True):
            if w.dim() > 1:
                step = (p.detach() - w).float()
                share = -(step * w).sum() / w.norm().clamp(min=1e-30)
                along += (share * share.abs()).item()
                size += step.square().sum().item()
        seen.shrunk, self._stepped = along / size if size else 0.0, (now, change, seen)
        seen.before = []

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
        self.hashes.append(zlib.crc32(inputs.tobytes()))  # The same in all processes.
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
