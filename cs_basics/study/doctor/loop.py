"""What is seen of a loop while it runs: calls of the loss, batches, steps of the optimizer."""

import contextlib
import time
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from cs_basics.run.random_state import random_states, restore_random_states
from cs_basics.study.doctor.subject import Subject, caller, parts_of, undisturbed

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
SAME_LOSS = 1e-4
"""Relative difference of a loss that is computed again: more, and its gradient is not compared."""


@dataclass
class Part:
    """One call of the loss that was followed by backward."""

    batch: Any
    random: dict[str, Any] | None
    """The generators before the call, where its update is watched."""
    loss: Tensor
    is_training: bool
    upstream: Any = 0.0
    """The gradient with which backward began: 1, or what the loss was multiplied by."""


@dataclass
class Update:
    """One update of the weights. Of those that are not watched, numbers wait on the device."""

    number: int
    losses: list[Tensor]
    upstreams: list[Any]
    is_training: bool
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
        return fmean(loss.item() for loss in self.losses)

    @cached_property
    def norm(self) -> float:
        """Joint norm of the gradients at the step."""
        return self.length.item()

    @cached_property
    def upstream(self) -> float:
        """Sum over the parts."""
        return sum(float(x) for x in self.upstreams)


@dataclass
class Seen:
    """An update that was watched."""

    gradient: Tensor
    before: list[Tensor] = field(default_factory=list)
    """Parameters before the step."""

    is_fitted: bool = False
    """Whether the gradient at the step was compared with that of the parts, computed anew: it is a
    multiple of the right one, and one of what was left before it."""
    right: float = 0.0
    left: float = 0.0
    error: float = 0.0
    """What neither explains, as a share."""
    cosine: float = 0.0
    """Of the gradient and the right one."""
    right_norm: float = 0.0
    is_last: bool = False
    """Whether it is the gradient of the last part rather than of all."""
    largest: float = 0.0
    num_largest: int = 0
    """Largest entry of the gradient, and at how many places it stands."""

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
    _left: Tensor | None = None
    _stepped: tuple[Tensor, Tensor, Seen] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.updates = list[Update]()
        self.parts = list[Part]()
        self.rows = list[tuple[Any, Any]]()
        """Inputs and targets of batches."""
        self.hashes, self.sums = list[int](), list[list[float]]()
        """Of their inputs; and sums of the weights, see ranks.py."""
        self.reached = set[int]()
        """Parameters that have had any gradient, by id."""
        self.hooks = contextlib.ExitStack()
        self.hooks.callback(self.optimizer.register_step_pre_hook(self._before_step).remove)
        self.hooks.callback(self.optimizer.register_step_post_hook(self._after_step).remove)

    def watched_loss(self, model: Any, batch: Any) -> Tensor:  # noqa: ANN401
        """Call the program's loss, and keep what is needed to compute it again."""
        is_watched = not self.is_off and self.is_watched(self.step + 1)
        random = random_states() if is_watched else None
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
        if is_watched and not self.updates:
            self.place = caller()
        self.num_calls += 1
        batch = batch if is_watched else None
        part = Part(batch, random, loss.detach(), self.bare.training)

        def note(gradient: Tensor) -> None:
            part.upstream = gradient
            self.parts.append(part)

        loss.register_hook(note)
        return loss

    def is_watched(self, step: int) -> bool:
        """Tell whether an update is recomputed."""
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
        trained = self.trained()
        self.step += 1
        is_measured = self.step <= MEASURED or parts[-1].random
        grads = [p.grad.norm() for p in trained if is_measured and p.grad is not None]
        if self.step > KEPT and not self.updates[-1].seen:
            self.updates.pop()
        update = Update(
            self.step,
            [part.loss for part in parts],
            [part.upstream for part in parts],
            all(part.is_training for part in parts),
            [float(group["lr"]) for group in optimizer.param_groups if "lr" in group],
            torch.stack(grads or [torch.zeros(())]).norm(),
            is_first=not optimizer.state,
        )
        self.updates.append(update)
        if self._stepped is None and not parts[-1].random:
            return
        began = time.monotonic()
        if self._stepped is not None:
            weights, step, seen = self._stepped
            again = (flat(trained) - weights) @ step / step.square().sum().clamp(min=1e-30)
            seen.again, self._stepped = again.item(), None
        if parts[-1].random:
            self.place = caller()
            self.reached |= {id(p) for p in trained if p.grad is not None}
            update.seen = Seen(self._gradient(), [p.detach().clone() for p in trained])
            self._fit(update.seen, parts)
        self.spent_s += time.monotonic() - began

    def _gradient(self) -> Tensor:
        """Return the gradients in one vector, 0 where there is none."""
        return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in self.trained())

    def _fit(self, seen: Seen, parts: list[Part]) -> None:
        """Compute the gradient of the parts anew; if they give the same losses, compare it."""
        found = seen.gradient
        seen.largest = found.abs().max().item()
        seen.num_largest = int((found.abs() >= 0.999 * seen.largest).sum())
        if self.world_size > 1:
            return  # The gradients of the others are in it, too.
        right, last = torch.zeros_like(found), found
        with undisturbed(self.bare), self.off():
            for part in parts:
                restore_random_states(part.random or {})
                self.bare.training = part.is_training or self.bare.training
                loss = self.loss_of(self.bare, part.batch)
                if not abs(loss.item() - part.loss.item()) <= SAME_LOSS * abs(part.loss.item()):
                    return
                last = flat(torch.autograd.grad(loss, self.trained(), materialize_grads=True))
                right += last / len(parts)
        if not (right.any() and found.any() and (right + found).isfinite().all()):
            return
        left = torch.zeros_like(found) if self._left is None else self._left
        basis = torch.stack([right, left], 1)
        products = (basis.mT @ basis).cpu()
        share = torch.linalg.pinv(products, hermitian=True).to(basis) @ (basis.mT @ found)
        seen.is_fitted, (seen.right, seen.left) = True, share.tolist()
        seen.error = ((found - basis @ share).norm() / found.norm()).square().item()
        seen.cosine, to_last = (
            torch.cosine_similarity(found, one, dim=0).item() for one in (right, last)
        )
        seen.right_norm, seen.is_last = right.norm().item(), seen.cosine < 0.99 < to_last

    def _after_step(self, *_: Any) -> None:  # noqa: ANN401
        if self.is_off or not self.updates:
            return
        began, seen = time.monotonic(), self.updates[-1].seen
        if seen and seen.before:
            self._compare(seen)
        is_next = self.is_watched(self.step + 1)
        self._left = self._gradient() if is_next else None
        self.spent_s += time.monotonic() - began

    def _compare(self, seen: Seen) -> None:
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
        seen.before, seen.gradient = [], gradient[:0]

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
