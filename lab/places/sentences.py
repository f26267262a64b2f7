"""Say where an answer goes wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lab.places.graph import Line, Node
from lab.places.matching import Array, are_close

MOST_DIGITS = 4
MOST_NUMBERS = 40


def paragraph(
    right: Sequence[tuple[Line, Node]], wrong: Sequence[Node], should_be: str, wanted: Array | None
) -> str:
    """Name the lines whose values are right still, and those from which on they are not.

    Args:
        right: Nodes that are recognised, and from which the wrong ones are made.
        wrong: The first and the last of what is wrong.
        should_be: What the last one should be.
        wanted: Its right values.
    """
    first, last = wrong[0], wrong[-1]
    said = ["Where to look:"]
    for line, node in right:
        assert node.match is not None
        said += [f"  {line.file} line {line.number} has {node.match.name}{quoted(line)}"]
    of_that = " of that" if right else ""
    what = f"should make {should_be}{of_that}; {claim(last, wanted, should_be)}"
    if same_line(first, last):
        said += [f"  {place(last)} {what}{quoted(last.lines[0])}"]
    else:
        unknown = "is the first that is not recognised, which need not be wrong"
        said += [f"  {place(first)} {unknown}{quoted(first.lines[0])}"]
        said += [f"  {place(last)} {what}{quoted(last.lines[0])}"]
    return "\n".join(said)


def same_line(first: Node, last: Node) -> bool:
    return first.lines[0][1:3] == last.lines[0][1:3]


def place(node: Node) -> str:
    line = node.lines[0]
    return f"{line.file} line {line.number}"


def quoted(line: Line) -> str:
    return f":\n      {line.text}" if line.text else "."


def claim(node: Node, wanted: Array | None, name: str) -> str:
    """Say how one can see that a node's values are not what they should be."""
    if node.match is not None and not node.match.is_exact:
        return f"its numbers are those of {node.match.name}, but not at the same places"
    if node.values is None or wanted is None:
        return "it holds something else"
    if node.values.shape != wanted.shape:
        return f"its shape is {node.values.shape}"
    return difference(name, node.values, wanted)


def difference(name: str, got: Array, wanted: Array) -> str:
    """Say in what way values differ that anybody can check."""
    if np.isnan(got).any() and not np.isnan(wanted).any():
        return "it holds nan"
    if "the probabilities" in name and got.ndim and name.count("logarithm") == 0:
        for axis in range(got.ndim - 1, -1, -1):
            sums, right = got.sum(axis), wanted.sum(axis)
            if are_close(right, np.ones_like(right)) and not are_close(sums, right):
                worst = sums.flat[int(np.argmax(np.abs(sums - 1)))]
                return f"its probabilities sum to {number(worst)}"
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = got / wanted
    usable = ratios[np.isfinite(ratios) & (wanted != 0)]
    if usable.size > 1 and are_close(usable, np.full_like(usable, usable.flat[0])):
        return f"it is {number(usable.flat[0])} times that"
    away = got - wanted
    if (
        got.size > 1
        and np.isfinite(away).all()
        and are_close(away, np.full_like(away, away.flat[0]))
    ):
        return f"it is that plus {number(away.flat[0])}"
    worst = int(np.argmax(np.nan_to_num(np.abs(away), nan=np.inf)))
    return f"it holds {number(got.flat[worst])} where that is {number(wanted.flat[worst])}"


def number(value: float) -> str:
    return f"{float(value):.{MOST_DIGITS}g}"


# --- the smallest input ---


def on_paper(asked: str, got: str, expected: str) -> str:
    """Show a small call with what comes and what should come, for a pencil to follow."""
    return "\n".join(
        [
            "The smallest input found with which it goes wrong:",
            f"  {asked}",
            f"    got       {got}",
            f"    expected  {expected}",
        ]
    )


def call(function: str, arguments: Mapping[str, Any]) -> str:
    """Write a call as one would type it."""
    given = (f"{name}={shown(value)}" for name, value in arguments.items())
    return f"{function}({', '.join(given)})"


def shown(value: object) -> str:
    """Write an array as the lists that one would type."""
    if isinstance(value, np.generic):
        return typed(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {shown(one)}" for name, one in value.items()) + "}"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.ndim == 0:
        return typed(value.item())
    return f"[{', '.join(shown(np.asarray(one)) for one in value)}]"


def typed(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    return number(float(value))  # type: ignore[arg-type]
