"""The smallest input with which an adapter goes wrong."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lab.places import cases, quantities
from lab.places.matching import Array, are_close
from lab.places.tracing import answers

Case = Mapping[str, Any]
Run = Callable[..., Any]

MOST_ROUNDS = 12

# Which axes a function's arrays share; those before the dots may be left out one by one.
AXES: dict[str, dict[str, str]] = {
    "run_silu": {"in_features": "..."},
    "run_cross_entropy": {"inputs": "... vocab", "targets": "..."},
    "run_scaled_dot_product_attention": {
        "Q": "... queries d_k",
        "K": "... keys d_k",
        "V": "... keys d_v",
        "mask": "... queries keys",
    },
    "run_linear": {"weights": "d_out d_in", "in_features": "... d_in"},
    "run_rmsnorm": {"weights": "d_model", "in_features": "... d_model"},
    "run_embedding": {"weights": "vocab_size d_model", "token_ids": "..."},
    "run_swiglu": {
        "w1_weight": "d_ff d_model",
        "w2_weight": "d_model d_ff",
        "w3_weight": "d_ff d_model",
        "in_features": "... d_model",
    },
    "run_rope": {"in_query_or_key": "... seq d_k", "token_positions": "... seq"},
}
# Axes that cannot be cut: ids point into one, and the other turns in pairs.
WHOLE = ("vocab", "vocab_size")


def smallest(run: Run, function: str, own: Case | None) -> tuple[Case, Array, Array] | None:
    """Return a small case that fails, what comes of it and what should.

    A small case of whole numbers, if one fails; else the item's own, made as small as it can be
    while it still fails.
    """
    small = first_failing(run, function, cases.for_paper(function))
    if small is not None or own is None:
        return small
    best = first_failing(run, function, [own])
    for _ in range(MOST_ROUNDS):
        if best is None:
            break
        better = first_failing(run, function, list(smaller(function, best[0])))
        if better is None:
            break
        best = better
    return best


def first_failing(
    run: Run, function: str, tried: Sequence[Case]
) -> tuple[Case, Array, Array] | None:
    seen = run(answers, function=function, cases=[dict(case) for case in tried])
    for case, got in zip(tried, seen, strict=True):
        if got is None or got["values"] is None:
            continue
        *_, wanted = quantities.OF[function](**case).values()
        values = np.asarray(got["values"], np.float64)
        if values.shape != wanted.shape or not are_close(values, wanted):
            return case, got["values"], wanted
    return None


def smaller(function: str, case: Case) -> Iterator[Case]:
    """Yield cases with one axis less, half an axis, or rounder numbers."""
    axes = AXES.get(function, {})
    if function == "run_softmax":  # Its axes have numbers, not names.
        axes = {"in_features": " ".join(f"axis{n}" for n in range(case["in_features"].ndim))}
    arrays = {name: case[name] for name in axes if isinstance(case.get(name), np.ndarray)}
    leading = {n: a.ndim - len(axes[n].replace("...", "").split()) for n, a in arrays.items()}
    deepest = max((leading[n] for n in arrays if "..." in axes[n]), default=0)
    for axis in range(deepest):
        # Broadcasting aligns the last of the leading axes.
        cut = {
            name: array[(slice(None),) * (axis - (deepest - leading[name])) + (0,)]
            for name, array in arrays.items()
            if "..." in axes[name] and axis >= deepest - leading[name]
        }
        yield {**case, **cut}
    names = {name for one in axes.values() for name in one.split()} - {"..."} - set(WHOLE)
    for name in sorted(names):
        if function == "run_rope" and name == "d_k":
            continue
        yield from halved(case, axes, arrays, name)
    for array_name, array in arrays.items():
        if array.dtype.kind == "f" and not np.array_equal(array, np.round(array)):
            yield {**case, array_name: np.round(array)}


def halved(
    case: Case, axes: Mapping[str, str], arrays: Mapping[str, Array], name: str
) -> Iterator[Case]:
    """Yield both halves of a case along an axis that its arrays share."""
    for take_last in (False, True):
        cut: dict[str, Any] = {}
        size = 0
        for array_name, array in arrays.items():
            words = axes[array_name].split()
            if name not in words:
                continue
            axis = array.ndim - (len(words) - words.index(name))
            size = array.shape[axis]
            keep = slice(size // 2, None) if take_last else slice(0, (size + 1) // 2)
            cut[array_name] = array[(slice(None),) * axis + (keep,)]
        if size < 2:
            return
        kept = size - size // 2 if take_last else (size + 1) // 2
        sizes = {name: kept} if name in case else {}
        yield {**case, **cut, **sizes}
