"""The fingerprint of a wrong answer: little enough to keep for each item, enough to know it again.

All submissions get the same public inputs, and the same mistake gives the same wrong answers, up to
rounding. Comparing fingerprints finds who makes a mistake that has no name yet (cs_grader's class
page).

A fingerprint is a dict of
    form      what has to be equal: dtype and shape, a digest, or the shape of an error's message
    sketch    what has to be close: errors in units of what is allowed, summed in a few groups
    expected  some of the right values
    got       the values that came in their place
    asked     the inputs
    size      how much there is in the inputs
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import asked
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Fingerprint = dict[str, Any]

NUM_SUMS = 16
"""Numbers of a sketch."""
MOST = 1e12
"""Stands for infinity in a sketch."""
NUM_SHOWN = 8
MAX_CHARS = 300
# What two submissions call their own: quoted names, functions, files, addresses, measured numbers.
OWN_WORDS = re.compile(
    r"'[^']*'|\"[^\"]*\"|`[^`]*`|\b[\w.<>]+\(\)|0x[0-9a-f]+|\S*/\S*|\b\d+\.\d*(?:e[+-]?\d+)?\b"
)


def of(error: BaseException, inputs: Mapping[str, Any]) -> Fingerprint:
    """Take the fingerprint of a failure.

    Args:
        error: What ended the item; a wrong answer brings the fingerprint of its values.
        inputs: What the probe was given, if the item came to one.
    """
    return (getattr(error, "fingerprint", None) or of_error(error)) | asked_of(inputs)


def of_values(got: Array, expected: Array, limit: float, dtype: str) -> Fingerprint:
    """Take the fingerprint of wrong values.

    Args:
        got: What came, float64.
        expected: What is right, of the same shape.
        limit: Absolute error that is allowed.
        dtype: What `got` was before.
    """
    return {
        "form": f"{dtype} {got.shape}",
        "sketch": sketch(got, expected, limit),
        **dict(zip(("expected", "got"), side_by_side(expected, got), strict=True)),
    }


def of_sequence(got: object, shown: str, expected: str) -> Fingerprint:
    """Take the fingerprint of a wrong sequence; `shown` and `expected` are excerpts to show."""
    digest = hashlib.sha256(repr(got).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return {"form": digest, "sketch": [], "expected": cut(expected), "got": cut(shown)}


def of_error(error: BaseException) -> Fingerprint:
    """Take the fingerprint of what was raised, or of a finding that is not about values."""
    kind = type(error).__name__
    lines = [*str(error).strip().splitlines(), "", ""]
    # A finding's message begins with the call that it is about. Cut: the pattern needs a time that
    # grows with the square of a length.
    text = cut(lines[1] if lines[0].startswith("asked for ") else lines[0])
    form = cut(f"{kind}: {OWN_WORDS.sub('...', text)}")
    return {"form": form, "sketch": [], "expected": "", "got": cut(f"{kind}: {text}")}


def sketch(got: Array, expected: Array, limit: float) -> list[float]:
    """Sum the errors in NUM_SUMS groups with random signs: close only if all errors are close."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        errors = np.where(got == expected, 0.0, (got - expected) / limit).reshape(-1)
    errors = np.clip(np.nan_to_num(errors, nan=MOST / 2, posinf=MOST, neginf=-MOST), -MOST, MOST)
    if errors.size > NUM_SUMS:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], errors.size)
        groups = np.arange(errors.size) % NUM_SUMS
        sums = np.bincount(groups, signs * errors, NUM_SUMS)
        # The rounding of single errors grows with the root of their number.
        errors = sums / np.sqrt(np.bincount(groups, minlength=NUM_SUMS))
    return [float(f"{error:.4g}") for error in errors]


def side_by_side(expected: Array, got: Array) -> tuple[str, str]:
    """Write the same few values of both, from the row that holds the largest error."""
    if expected.ndim == 0:
        place: tuple[int | slice, ...] = ()
        where = ""
    else:
        with np.errstate(invalid="ignore"):
            error = np.nan_to_num(np.abs(got - expected), nan=np.inf)
        *row, column = map(int, np.unravel_index(np.argmax(error), error.shape))
        width = expected.shape[-1]
        start = min(max(column - NUM_SHOWN // 2, 0), max(width - NUM_SHOWN, 0))
        end = min(start + NUM_SHOWN, width)
        place = (*row, slice(start, end))
        is_all = expected.ndim == 1 and end - start == width
        where = "" if is_all else f"[{', '.join([*map(str, row), f'{start}:{end}'])}]: "
    few = [np.atleast_1d(array[place]) for array in (expected, got)]
    shown = ["", ""]
    for digits in (5, 9, 17):  # As many as show a difference.
        shown = ["  ".join(f"{value:.{digits}g}" for value in values) for values in few]
        if shown[0] != shown[1]:
            break
    return cut(where + shown[0]), cut(where + shown[1])


def asked_of(inputs: Mapping[str, Any]) -> Fingerprint:
    """Write the question, and how much there is in it."""
    return {"asked": cut(asked.question(inputs), 2 * MAX_CHARS), "size": size_of(inputs)}


def size_of(value: object) -> int:
    """Count numbers, characters and bytes."""
    if isinstance(value, np.ndarray):
        return int(value.size)
    if isinstance(value, Mapping):
        return sum(size_of(part) for part in value.values())
    if isinstance(value, list | tuple):
        return sum(size_of(part) for part in value)
    return max(len(value), 1) if isinstance(value, str | bytes) else 1


def cut(text: str, limit: int = MAX_CHARS) -> str:
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."
