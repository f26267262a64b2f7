"""What is seen of a loop while it runs: calls of the loss, batches, steps of the optimizer."""

import contextlib
import math
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cs_basics.run.random_state import random_states, restore_random_states
from cs_basics.study.doctor.subject import Subject, caller, parts_of, undisturbed

FIRST = 4
"""The updates that are recomputed: this many from the first on, then each power of two."""
MOST_S = 20.0
"""Seconds after which no more of them are."""
MOST_ROWS = 1024
"""Rows of batches that are kept."""


@dataclass
class Part:
    """One call of the loss that was followed by backward."""

    batch: Any
    random: dict[str, Any]
    """The generators before the call."""
    loss: float
    is_training: bool
    upstream: float | None = None
    """The gradient with which backward began: 1, or what the loss was multiplied by."""


@dataclass
class Change:
    """What a step did to all parameters together."""

    size: float
    """Norm of the change, as a share of that of the weights."""
    moved: float
    """Share of the numbers with a gradient that have changed."""
    uphill: float
    """Cosine of the change and the gradient: negative for a descent."""
    shrunk: float
    """Share of the change of matrices that only makes them smaller; negative: larger."""


@dataclass
class Update:
    """One update of the weights."""

    parts: int
    loss: float
    is_training: bool
    upstream: float
    """Sum over the parts."""
    rates: list[float]
    norm: float
    """Joint norm of the gradients at the step."""
    largest: float
    """Largest part of a gradient, and at how many places it stands."""
    num_largest: int
    place: str | None
    is_first: bool
    """Whether the optimizer had no state."""
    again: float = 0.0
    """What the weights change by until the next step, as a multiple of this one: -1 undoes it."""
    fit: "Fit | None" = None
    change: Change | None = None


@dataclass
class Fit:
    """The gradient at a step, as a multiple of the right one and one of what was left before it."""

    right: float
    left: float
    error: float
    """What neither explains, as a share."""
    cosine: float
    """Of the gradient and the right one."""
    right_norm: float
    is_last: bool
    """Whether it is the gradient of the last part rather than of all."""


class Watch:
    """Sees a loop through its loss, its batches and the hooks of its optimizer."""

    def __init__(self, s: Subject, batches: Any) -> None:  # noqa: ANN401
        self.s, self.batches = s, Batches(batches, self)
        self.updates: list[Update] = []
        self.parts: list[Part] = []
        self.num_calls = self.num_empty_steps = 0
        self.rows: list[tuple[Any, Any]] = []
        """Inputs and targets of batches."""
        self.hashes: list[int] = []
        self.reached: set[int] = set()
        self.loud: set[int] = set()
        """Parameters that have had any gradient, and one that is not 0."""
        self.spent_s = 0.0
        self.is_off = False
        self._left: Tensor | None = None
        self._stepped: tuple[Tensor, Tensor] | None = None
        self._before: list[Tensor] | None = None
        self._mode: bool | None = None
        s.bare.register_forward_pre_hook(self._note_mode)
        s.optimizer.register_step_pre_hook(self._before_step)
        s.optimizer.register_step_post_hook(self._after_step)

    def _note_mode(self, module: Any, _: Any) -> None:  # noqa: ANN401
        self._mode = module.training

    def loss_of(self, model: Any, batch: Any) -> Tensor:  # noqa: ANN401
        """Call the program's loss, and keep what is needed to compute it again."""
        random, self._mode = random_states(), None
        loss = self.s.loss_of(model, batch)
        if self.is_off or not loss.requires_grad:
            return loss
        self.num_calls += 1
        mode = self.s.bare.training if self._mode is None else self._mode
        part = Part(batch, random, loss.item(), mode)

        def note(gradient: Tensor) -> None:
            part.upstream = gradient.item()
            self.parts.append(part)

        loss.register_hook(note)
        return loss

    def is_watched(self, step: int) -> bool:
        """Tell whether an update is recomputed."""
        return self.spent_s < MOST_S and (step <= FIRST or math.log2(step).is_integer())

    def _before_step(self, optimizer: Any, *_: Any) -> None:  # noqa: ANN401
        if self.is_off:
            return
        parts, self.parts = self.parts, []
        if not parts:
            self.num_empty_steps += 1
            return
        began, gradient = time.monotonic(), self._gradient()
        if self._stepped is not None:
            weights, step = self._stepped
            again = (flat(self._held()) - weights) @ step / step.square().sum().clamp(min=1e-30)
            self.updates[-1].again, self._stepped = again.item(), None
        largest = gradient.abs().max().item()
        update = Update(
            parts=len(parts),
            loss=sum(part.loss for part in parts) / len(parts),
            is_training=all(part.is_training for part in parts),
            upstream=sum(part.upstream or 0.0 for part in parts),
            rates=[float(group["lr"]) for group in optimizer.param_groups if "lr" in group],
            norm=gradient.norm().item(),
            largest=largest,
            num_largest=int((gradient.abs() >= 0.999 * largest).sum()),
            place=caller(),
            is_first=not optimizer.state,
        )
        self.updates.append(update)
        if self.is_watched(len(self.updates)):
            with_grad = [p for p in self._held() if p.grad is not None]
            self.reached |= {id(p) for p in with_grad}
            self.loud |= {id(p) for p in with_grad if p.grad is not None and p.grad.any()}
            self._before = [p.detach().clone() for p in self._held()]
            update.fit = self._fit(gradient, parts)
        self.spent_s += time.monotonic() - began

    def _held(self) -> list[Tensor]:
        """Return the parameters of the optimizer that are trained, each once."""
        return [p for p in {id(p): p for p in self.s.held()}.values() if p.requires_grad]

    def _gradient(self) -> Tensor:
        """Return the gradients of these in one vector, 0 where there is none."""
        return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in self._held())

    def _fit(self, found: Tensor, parts: list[Part]) -> Fit | None:
        """Compute the gradient of the parts anew; None if they do not give the same losses."""
        if self.s.options.get("world_size", 1) > 1:
            return None  # The gradients of the others are in it, too.
        wanted, right, last = self._held(), torch.zeros_like(found), found
        with undisturbed(self.s.bare), torch.enable_grad(), self.off():
            for part in parts:
                restore_random_states(part.random)
                self.s.bare.training = part.is_training or self.s.bare.training
                loss = self.s.loss(part.batch)
                if not abs(loss.item() - part.loss) <= 1e-4 * abs(part.loss):
                    return None
                grads = torch.autograd.grad(loss, wanted, materialize_grads=True)
                last = flat(grads)
                right += last / len(parts)
        left = torch.zeros_like(found) if self._left is None else self._left
        if not (right.any() and found.any() and (right + found).isfinite().all()):
            return None
        basis = torch.stack([right, left], 1)[:, : 1 + bool(left.any())]
        products = (basis.mT @ basis).cpu()
        share = torch.linalg.pinv(products, hermitian=True).to(basis) @ (basis.mT @ found)
        error = (found - basis @ share).norm() / found.norm()
        alike = [torch.cosine_similarity(found, one, dim=0).item() for one in (right, last)]
        return Fit(
            *(share[0].item(), share[1:].sum().item(), error.square().item()),
            *(alike[0], right.norm().item(), alike[0] < 0.99 < alike[1]),
        )

    def _after_step(self, *_: Any) -> None:  # noqa: ANN401
        if self.is_off or not self.updates:
            return
        began = time.monotonic()
        if self._before is not None:
            now = flat(self._held())
            self._stepped = now, now - flat(self._before)
            self.updates[-1].change = change_of(self._before, self._held(), self._gradient())
            self._before = None
        self._left = self._gradient() if self.is_watched(len(self.updates) + 1) else None
        self.spent_s += time.monotonic() - began

    @contextlib.contextmanager
    def off(self) -> Generator[None]:
        """Look away: what happens is the doctor's own."""
        was, self.is_off = self.is_off, True
        try:
            yield
        finally:
            self.is_off = was

    def drawn(self, batch: Any) -> None:  # noqa: ANN401
        """Keep the rows of a batch that the loop has drawn."""
        if self.is_off:
            return
        inputs, targets = (part.detach().cpu().numpy() for part in parts_of(batch))
        self.hashes.append(hash(inputs.tobytes()))
        if len(self.rows) * len(inputs) < MOST_ROWS:
            self.rows.append((inputs.copy(), targets.copy()))


class Batches:
    """The program's batches, which are noted when they are drawn."""

    def __init__(self, batches: Any, watch: Watch) -> None:  # noqa: ANN401
        self.batches, self.watch = batches, watch
        self._iterator: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.watch.drawn(batch)
            yield batch

    def __next__(self) -> Any:  # noqa: ANN401
        self._iterator = self._iterator or iter(self)
        return next(self._iterator)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.batches, name)

    def __len__(self) -> int:
        return len(self.batches)


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """Return all numbers of these tensors in one vector, in float32 at least."""
    vector = torch.cat([tensor.detach().flatten() for tensor in tensors] or [torch.zeros(1)])
    return vector.float() if vector.dtype.itemsize < 4 else vector


def change_of(before: list[Tensor], now: list[Tensor], gradient: Tensor) -> Change:
    """Compare parameters before and after a step."""
    was = flat(before)
    change = flat(now) - was
    moved = change[gradient != 0] != 0
    along = size = 0.0
    for w, p in zip(before, now, strict=True):
        if w.dim() > 1:
            step = (p.detach() - w).float()
            share = -(step * w).sum() / w.norm().clamp(min=1e-30)
            along += (share * share.abs()).item()
            size += step.square().sum().item()
    return Change(
        (change.norm() / was.norm()).nan_to_num().item(),
        moved.float().mean().item() if len(moved) else 1.0,
        torch.cosine_similarity(change, gradient, dim=0).item(),
        along / size if size else 0.0,
    )
