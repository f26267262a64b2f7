"""Recognise a named quantity among values in another layout.

Honest code holds the same numbers in many shapes: transposed, heads merged, broadcast, in parts. So
axes may come in any order, neighbours may be merged, and an axis along which nothing changes does
not count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TOLERANCE = 2e-4
# What honest code fills masked scores with: all of it is taken for minus infinity.
VERY_LOW = -1e8
FEWEST_NUMBERS_OF_A_PART = 3
MOST_AXES = 6
A_PART = "a part of "


@dataclass(frozen=True)
class Match:
    """A quantity that values were recognised as."""

    name: str
    is_exact: bool
    """False: the same numbers, but not at the same places."""


def canonical(values: Array) -> Array:
    """Take very low numbers for minus infinity and leave out axes along which nothing changes."""
    array = np.asarray(values, np.float64)
    array = np.where(array < VERY_LOW, -np.inf, array)
    for axis in reversed(range(array.ndim)):
        first = array.take([0], axis) if array.shape[axis] else array
        if array.shape[axis] and are_close(array, np.broadcast_to(first, array.shape)):
            array = array.take(0, axis)
    return array


def are_close(got: Array, wanted: Array) -> bool:
    """Whether all numbers are the same, as float32 computes them."""
    finite = wanted[np.isfinite(wanted)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        same = (np.abs(got - wanted) <= TOLERANCE * scale) | (got == wanted)
    return bool(np.all(same | (np.isnan(got) & np.isnan(wanted))))


def is_merging(shape: tuple[int, ...], fine: tuple[int, ...]) -> bool:
    """Whether neighbouring axes of `fine` can be merged into `shape`."""
    rest = list(fine)
    for size in shape:
        product = 1
        while product < size and rest:
            product *= rest.pop(0)
        if product != size:
            return False
    return not rest


def layouts(values: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """Yield the ways in which values can be laid out in a shape: axes moved, neighbours merged."""
    fine = values.reshape([size for size in values.shape if size != 1])
    bare = tuple(size for size in shape if size != 1)
    if fine.size != np.prod(bare, initial=1) or fine.ndim > MOST_AXES:
        return
    for order in permutations(range(fine.ndim)):
        moved = fine.transpose(order)
        if is_merging(bare, moved.shape):
            yield moved.reshape(shape)


class Known:
    """Quantities by name; values are recognised as the first that fits."""

    def __init__(self, quantities: Mapping[str, Array]) -> None:
        self.quantities = {name: np.asarray(array) for name, array in quantities.items()}
        self._whole = {name: canonical(array) for name, array in self.quantities.items()}
        self._by_size: dict[int, list[tuple[str, Array, Array]]] = {}

    def _of_size(self, size: int) -> list[tuple[str, Array, Array]]:
        """Name, values and sorted values of all quantities of a size, and of all parts of one."""
        if size not in self._by_size:
            named = [(name, array) for name, array in self._whole.items() if array.size == size]
            named += self._parts(size) if size >= FEWEST_NUMBERS_OF_A_PART else []
            self._by_size[size] = [(name, a, np.sort(a, axis=None)) for name, a in named]
        return self._by_size[size]

    def _parts(self, size: int) -> list[tuple[str, Array]]:
        return [
            (A_PART + name, part)
            for name, array in self._whole.items()
            for axis, length in enumerate(array.shape)
            if array.size == size * length
            for place in range(length)
            if (part := canonical(array.take(place, axis))).size == size
        ]

    def match(self, values: Array) -> Match | None:
        """Name what these values are; if nothing fits, what they would be in another order."""
        array = canonical(values)
        ordered = np.sort(array, axis=None)
        loose = None
        for name, known, known_ordered in self._of_size(array.size):
            if not are_close(ordered, known_ordered):
                continue
            if any(are_close(array, laid) for laid in layouts(known, array.shape)):
                return Match(name, is_exact=True)
            loose = loose or Match(name, is_exact=False)
        # Numbers of which many are equal fit in any order, which says nothing.
        few = len(np.unique(ordered)) < max(4, array.size // 4)
        return None if few or (loose and loose.name.startswith(A_PART)) else loose
