"""What the norms benchmark measures at each size, and the table of it."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lab.timing import alternating_times, cache_bytes

from .norm_contenders import Contender

MAX_ROUNDS = 51
BUDGET_S = 1.5
"""Seconds for all contenders at one size in one direction."""

FORWARD, BOTH = "forward", "forward + backward"
NORM, ADD_NORM = "norm", "add + norm"
PASSES = {(NORM, FORWARD): 2, (NORM, BOTH): 5, (ADD_NORM, FORWARD): 4, (ADD_NORM, BOTH): 8}
"""How often the least possible traffic reads or writes a tensor of x's size; a copy takes 2.

Norm: read x, write y; then read x and dy, write dx. Add + norm: read x and the residual, write
their sum and y; then read the sum and both gradients, write the one that x and residual share.
"""


@dataclass(frozen=True)
class Point:
    """One contender at one size."""

    operation: str
    direction: str
    dtype: str
    num_rows: int
    d_model: int
    contender: str
    elapsed_s: float
    copy_s: float
    """Time of copying a tensor of x's size, in the same turns."""
    tensor_bytes: int
    """Size of x."""
    fits_cache: bool | None
    """Whether all that is touched fits the last cache: then memory is not the limit."""

    @property
    def bytes_moved(self) -> int:
        """The least that has to be read and written."""
        return PASSES[self.operation, self.direction] * self.tensor_bytes

    @property
    def rate(self) -> float:
        """Bytes moved, GB/s."""
        return self.bytes_moved / self.elapsed_s / 1e9

    @property
    def copy_rate(self) -> float:
        """Bytes that the copy read and wrote, GB/s."""
        return 2 * self.tensor_bytes / self.copy_s / 1e9

    @property
    def share(self) -> float:
        """The rate, as a share of the copy's."""
        return self.rate / self.copy_rate

    @property
    def size(self) -> tuple[str, int, int]:
        """Return what x is."""
        return self.dtype, self.num_rows, self.d_model

    @property
    def place(self) -> str:
        """Say what was measured and on what."""
        shape = f"{self.num_rows:,} x {self.d_model:,}"
        return f"{self.operation}, {self.direction}, {self.dtype}, {shape}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields and what follows from them."""
        return asdict(self) | {"bytes_moved": self.bytes_moved, "share": self.share}


def measure_sizes(
    operation: str,
    contenders: Sequence[Contender],
    num_rows: Sequence[int],
    d_model: int,
    dtype: torch.dtype,
    device: torch.device,
) -> list[Point]:
    """Measure the contenders at each number of rows, forward, then forward and backward."""
    points: list[Point] = []
    for rows in num_rows:
        print(f"measuring {operation}, {str(dtype)[6:]}, {rows:,} x {d_model:,}", file=sys.stderr)
        num_tensors = 1 if operation == NORM else 2
        tensors = [
            torch.randn(rows, d_model, device=device).to(dtype) for _ in range(2 * num_tensors)
        ]
        inputs = [tensor.requires_grad_() for tensor in tensors[:num_tensors]]
        gradients = tensors[num_tensors:]
        source, target = gradients[0], torch.empty_like(gradients[0])
        copy = partial(target.copy_, source)
        forward = [partial(_forward, contender, inputs) for contender in contenders]
        both = [
            partial(_forward_and_backward, contender, inputs, gradients) for contender in contenders
        ]
        for direction, functions in ((FORWARD, forward), (BOTH, both)):
            copy_s, *times = alternating_times(
                [copy, *functions], MAX_ROUNDS, device=device, budget_s=BUDGET_S
            )
            num_bytes = target.nbytes
            cache = cache_bytes(device)
            # Each tensor counts once here, though PASSES counts some of them twice.
            touched = num_bytes * (2 if direction == FORWARD else 4) * num_tensors
            fits_cache = None if cache is None else touched <= cache
            points += [
                Point(
                    operation, direction, str(dtype)[6:], rows, d_model,
                    contender.name, elapsed_s, copy_s, num_bytes, fits_cache,
                )
                for contender, elapsed_s in zip(contenders, times, strict=True)
            ]  # fmt: skip
    return points


def _forward(contender: Contender, inputs: list[Tensor]) -> None:
    """Run as inference does: nothing is kept for a backward."""
    with torch.no_grad():
        contender.function(*inputs)


def _forward_and_backward(
    contender: Contender, inputs: list[Tensor], gradients: list[Tensor]
) -> tuple[Tensor, ...]:
    outputs = contender.function(*inputs)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    return torch.autograd.grad(outputs, [*inputs, *contender.parameters], gradients)


def table(points: list[Point]) -> str:
    """Write the points as tables: a line for each contender, a column for each size."""
    lines: list[str] = []
    for kind in dict.fromkeys((p.operation, p.direction, p.dtype) for p in points):
        chosen = [p for p in points if (p.operation, p.direction, p.dtype) == kind]
        cells = {(p.contender, p.num_rows, p.d_model): p for p in chosen}
        sizes = sorted(
            {(p.num_rows, p.d_model): p for p in chosen}.values(),
            key=lambda p: (p.tensor_bytes, p.num_rows),
        )
        lines += [f"\n{', '.join(kind)}: milliseconds, share of the bandwidth of a copy"]
        lines += [_line("rows x d_model", [f"{p.num_rows}x{p.d_model}" for p in sizes])]
        lines += [_line("MB moved", [f"{p.bytes_moved / 1e6:,.3g}" for p in sizes])]
        lines += [_line("fits the last cache", [_YES_NO[p.fits_cache] for p in sizes])]
        copies = [f"{p.copy_rate:.1f}" for p in sizes]
        lines += [_line("copy, GB/s", copies)]
        for contender in dict.fromkeys(p.contender for p in chosen):
            # Not every contender is measured at every size.
            row = [cells.get((contender, p.num_rows, p.d_model)) for p in sizes]
            lines += [
                _line(
                    contender,
                    [f"{p.elapsed_s * 1e3:.3g} {p.share:4.0%}" if p else "-" for p in row],
                )
            ]
    return "\n".join(lines)


_YES_NO = {True: "yes", False: "no", None: "unknown"}


def _line(name: str, cells: Sequence[str]) -> str:
    return f"{name:34}" + "".join(f"{cell:>12}" for cell in cells)
