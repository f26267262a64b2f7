"""What is seen of a loop while it runs: calls of the loss, batches, steps of the optimizer."""

import contextlib
import math
import time
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

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
    upstream: float = 0.0
    """The gradient with which backward began: 1, or what the loss was multiplied by."""


class Update:
    """One update of the weights; some are also recomputed, and compared."""

    again = 0.0
    """What the weights change by until the next step, as a multiple of this one: -1 undoes it."""

    is_fitted = False
    """Whether the gradient at the step was compared with that of the parts, computed anew: it is a
    multiple of the right one, and one of what was left before it."""
    right = left = 0.0
    error = 0.0
    """What neither explains, as a share."""
    cosine = 0.0
    """Of the gradient and the right one."""
    right_norm = 0.0
    is_last = False
    """Whether it is the gradient of the last part rather than of all."""

    is_compared = False
    """Whether all parameters together were compared before and after the step."""
    size = 0.0
    """Norm of the change."""
    moved = 1.0
    """Share of the numbers with a gradient that have changed."""
    uphill = 0.0
    """Cosine of the change and the gradient: negative for a descent."""
    shrunk = 0.0
    """Share of the change of matrices that only makes them smaller; negative: larger."""

    def __init__(self, parts: list[Part], gradient: Tensor, optimizer: Any) -> None:  # noqa: ANN401
        self.parts = len(parts)
        self.loss = sum(part.loss for part in parts) / len(parts)
        self.is_training = all(part.is_training for part in parts)
        self.upstream = sum(part.upstream for part in parts)
        """Sum over the parts."""
        self.rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        self.norm = gradient.norm().item()
        """Joint norm of the gradients at the step."""
        self.largest = gradient.abs().max().item()
        """Largest part of a gradient, and at how many places it stands."""
        self.num_largest = int((gradient.abs() >= 0.999 * self.largest).sum())
        self.place = caller()
        self.is_first = not optimizer.state
        """Whether the optimizer had no state."""


class Watch(Subject):
    """A subject whose loop is seen through its loss, its batches and the hooks of its optimizer."""

    num_calls = num_empty_steps = 0
    spent_s = 0.0
    place: str | None = None
    """Where the last step was made."""
    is_off = False
    is_replaced = False
    """Whether the loop has gone on to train another model."""
    _left = _stepped = _before = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.updates = list[Update]()
        self.parts = list[Part]()
        self.rows = list[tuple[Any, Any]]()
        """Inputs and targets of batches."""
        self.hashes, self.sums = list[int](), list[list[float]]()
        """Of their inputs; and sums of the weights, see ranks.py."""
        self.reached = dict[int, bool]()
        """Parameters that have had any gradient, by id, and whether one that is not 0."""
        self.bare.register_forward_pre_hook(self._note_mode)
        self.optimizer.register_step_pre_hook(self._before_step)
        self.optimizer.register_step_post_hook(self._after_step)

    def _note_mode(self, module: Any, _: Any) -> None:  # noqa: ANN401
        self._mode = module.training

    def watched_loss(self, model: Any, batch: Any) -> Tensor:  # noqa: ANN401
        """Call the program's loss, and keep what is needed to compute it again."""
        random, self._mode = random_states(), self.bare.training
        loss = self.loss_of(model, batch)
        if self.is_off or not loss.requires_grad:
            return loss
        if isinstance(model, nn.Module) and self.bare is not model:
            both = zip(model.parameters(), self.bare.parameters(), strict=False)
            if not any(one is other for one, other in both):
                self.is_off = self.is_replaced = True
                return loss
        self.num_calls += 1
        part = Part(batch, random, loss.item(), self._mode)

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
            again = (flat(self.trained()) - weights) @ step / step.square().sum().clamp(min=1e-30)
            self.updates[-1].again, self._stepped = again.item(), None
        self.updates.append(Update(parts, gradient, optimizer))
        self.place = self.updates[-1].place
        if self.is_watched(len(self.updates)):
            for p in self.trained():
                if p.grad is not None:
                    self.reached[id(p)] = self.reached.get(id(p)) or bool(p.grad.any())
            self._before = [p.detach().clone() for p in self.trained()]
            self._fit(self.updates[-1], gradient, parts)
        self.spent_s += time.monotonic() - began

    def _gradient(self) -> Tensor:
        """Return the gradients in one vector, 0 where there is none."""
        return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in self.trained())

    def _fit(self, u: Update, found: Tensor, parts: list[Part]) -> None:
        """Compute the gradient of the parts anew; if they give the same losses, compare it."""
        if self.world_size > 1:
            return  # The gradients of the others are in it, too.
        right, last = torch.zeros_like(found), found
        with undisturbed(self.bare), self.off():
            for part in parts:
                restore_random_states(part.random)
                self.bare.training = part.is_training or self.bare.training
                loss = self.loss_of(self.bare, part.batch)
                if not abs(loss.item() - part.loss) <= 1e-4 * abs(part.loss):
                    return
                last = flat(torch.autograd.grad(loss, self.trained(), materialize_grads=True))
                right += last / len(parts)
        if not (right.any() and found.any() and (right + found).isfinite().all()):
            return
        left = torch.zeros_like(found) if self._left is None else self._left
        basis = torch.stack([right, left], 1)
        products = (basis.mT @ basis).cpu()
        share = torch.linalg.pinv(products, hermitian=True).to(basis) @ (basis.mT @ found)
        u.is_fitted, (u.right, u.left) = True, share.tolist()
        u.error = ((found - basis @ share).norm() / found.norm()).square().item()
        u.cosine, to_last = (
            torch.cosine_similarity(found, one, dim=0).item() for one in (right, last)
        )
        u.right_norm, u.is_last = right.norm().item(), u.cosine < 0.99 < to_last

    def _after_step(self, *_: Any) -> None:  # noqa: ANN401
        if self.is_off or not self.updates:
            return
        began = time.monotonic()
        if self._before is not None:
            self._compare(self.updates[-1], self._before, self._gradient())
            self._before = None
        self._left = self._gradient() if self.is_watched(len(self.updates) + 1) else None
        self.spent_s += time.monotonic() - began

    def _compare(self, u: Update, before: list[Tensor], gradient: Tensor) -> None:
        """Compare the parameters with those before the step."""
        now = flat(self.trained())
        change = now - flat(before)
        moved = change[gradient != 0] != 0
        u.is_compared, u.size = True, change.norm().nan_to_num().item()
        u.moved = moved.float().mean().item() if len(moved) else 1.0
        u.uphill = torch.cosine_similarity(change, gradient, dim=0).item()
        along = size = 0.0
        for w, p in zip(before, self.trained(), strict=True):
            if w.dim() > 1:
                step = (p.detach() - w).float()
                share = -(step * w).sum() / w.norm().clamp(min=1e-30)
                along += (share * share.abs()).item()
                size += step.square().sum().item()
        u.shrunk, self._stepped = along / size if size else 0.0, (now, change)

    @contextlib.contextmanager
    def off(self) -> Generator[None]:
        """Look away: what happens is the doctor's own."""
        self.is_off = True
        try:
            yield
        finally:
            self.is_off = False

    def drawn(self, batch: Any) -> None:  # noqa: ANN401
        """Keep the rows of a batch that the loop has drawn."""
        if self.is_off:
            return
        inputs, targets = (part.detach().cpu().numpy() for part in parts_of(batch))
        self.hashes.append(zlib.crc32(inputs.tobytes()))  # The same in all processes.
        if len(self.rows) * len(inputs) < MOST_ROWS:
            self.rows.append((inputs.copy(), targets.copy()))


class Batches:
    """The program's batches, which are noted when they are drawn."""

    def __init__(self, batches: Any, watch: Watch) -> None:  # noqa: ANN401
        self.batches, self.watch = batches, watch
        self._iterator = iter(self)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.watch.drawn(batch)
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
