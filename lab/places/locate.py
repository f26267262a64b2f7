"""Between which lines an answer goes wrong.

Two things are known for certain, and nothing else is claimed. The values of some lines are
recognised: up to there all is right. And there is a first value for which the right one can be put
in: if the answer is right then, all that follows is right, too. The mistake lies between the two.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.places.graph import ASSIGNMENT, Line, Node, nodes_of, unknown_on_the_way
from lab.places.matching import A_PART, Array, Known, layouts
from lab.places.sentences import paragraph
from lab.places.tasks import Task, Wanted

# Runs the traced call again with other values put in for some of its operations.
Rerun = Callable[[Mapping[int, Array]], Array | None]

MOST_RERUNS = 40
MOST_SECONDS = 1.0
MOST_LINES = 3


@dataclass(frozen=True)
class Finding:
    """Where an answer goes wrong."""

    right: list[tuple[Line, Node]]
    """The last nodes whose values are known, on the way to what is wrong, and lines to show."""
    wrong: list[Node]
    """The nodes among which the mistake is, in the order of their computation."""
    should_be: str
    """Which quantity the last of them should be."""
    values: Array | None
    """That quantity's values, laid out as the node's are."""
    made_by: Line | None
    """The line that made the output."""

    def lines(self) -> list[Line]:
        """The lines that are named, the suspicious ones first."""
        found: dict[tuple[str, int], Line] = {}
        for line in [*self.accused(), *(line for line, _ in self.right)]:
            found.setdefault((line.file, line.number), line)
        return list(found.values())

    def accused(self) -> list[Line]:
        """Those among which the mistake is said to be."""
        found: dict[tuple[str, int], Line] = {}
        for line in (self.wrong[0].lines[0], self.wrong[-1].lines[0]):
            found.setdefault((line.file, line.number), line)
        return list(found.values())

    def paragraph(self) -> str:
        """Say it."""
        return paragraph(self.right, self.wrong, self.should_be, self.values)


def known_before(nodes: Mapping[int, Node], window: Sequence[Node]) -> list[tuple[Line, Node]]:
    """What is known and goes into the wrong nodes, from other lines than theirs.

    A line of a function that they share is the one to show: `q = rotate(q)`, not what rotates.
    """
    calls = [line.call for node in (window[-1], window[0]) for line in node.lines]
    # An adapter's own lines only hand over what it was given, unless it does everything itself.
    outermost = window[-1].lines[-1].call if len(window[-1].lines) > 1 else -1
    taken = {node.lines[0][1:3] for node in (window[0], window[-1])}
    room = MOST_LINES - len(taken)
    inside = {node.number for node in window}
    waiting: list[int] = sorted({n for node in window for n in node.sources if n in nodes} - inside)
    found: list[tuple[Line, Node]] = []
    looked_at = set(waiting)
    while waiting and len(found) < room:
        # Plain numbers, such as a rate, come first, then the latest nodes.
        waiting.sort(key=lambda n: (nodes[n].operation == ASSIGNMENT, n))
        node = nodes[waiting.pop()]
        lines = [line for line in node.lines if line.call != outermost]
        if not lines:
            continue
        shared = [line for call in calls for line in lines if line.call == call]
        line = (shared or lines)[0]
        if line[1:3] not in taken and node.is_known:
            taken.add(line[1:3])
            found.append((line, node))
        elif line[1:3] in taken:  # Of the same line: what goes into it tells more.
            more = {n for n in node.sources if n in nodes} - looked_at
            looked_at |= more
            waiting = [*{*waiting, *more}]
    return found


def locate(
    events: Sequence[Mapping[str, Any]],
    output: int,
    task: Task,
    wanted: Wanted,
    rerun: Rerun,
) -> Finding | None:
    """Find the place, or None where nothing can be said."""
    known = Known(task.known)
    nodes = nodes_of(events, output, known, task.function, task.settings)
    unknown = unknown_on_the_way(nodes, output)
    if not unknown or not any(node.lines for node in unknown):
        return None
    last, should_be, values = first_to_repair(nodes, unknown, known, wanted, rerun)
    window = [node for node in ancestors(nodes, unknown, last) if node.lines]
    if not window:
        return None
    made_by = next(iter(Line(*line) for line in events[output]["lines"]), None)
    return Finding(known_before(nodes, window), window, should_be, values, made_by)


def ancestors(nodes: Mapping[int, Node], unknown: Sequence[Node], last: Node) -> list[Node]:
    """Of the unknown nodes, `last` and those that it was made of, in order."""
    numbers = {node.number for node in unknown}
    found, stack = set[int](), [last.number]
    while stack:
        number = stack.pop()
        if number in numbers and number not in found:
            found.add(number)
            stack += nodes[number].sources
    return [nodes[number] for number in sorted(found)]


def first_to_repair(
    nodes: Mapping[int, Node],
    unknown: Sequence[Node],
    known: Known,
    wanted: Wanted,
    rerun: Rerun,
) -> tuple[Node, str, Array]:
    """Find the first node for which a right value repairs the answer; by nature the last does."""
    output = unknown[-1]
    final, answer = wanted.name, wanted.values[0]
    started, runs = time.monotonic(), 0
    for node in unknown[:-1]:
        if node.values is None or not node.lines or node.operation == ASSIGNMENT:
            continue
        for name, values in candidates(node, nodes, known):
            if runs >= MOST_RERUNS or time.monotonic() - started > MOST_SECONDS:
                return output, final, answer
            runs += 1
            got = rerun({node.number: values})
            if got is not None and wanted.is_met(got):
                return node, name, values
    return output, final, answer


def candidates(node: Node, nodes: Mapping[int, Node], known: Known) -> Iterator[tuple[str, Array]]:
    """Yield quantities that a node could be meant to compute, laid out as it is.

    Quantities have an order: what comes next after the node's sources is tried first.
    """
    assert node.values is not None
    names = list(known.quantities)
    matches = [nodes[n].match for n in node.sources if n in nodes]
    of_sources = [match.name.removeprefix(A_PART) for match in matches if match is not None]
    start = max((names.index(name) for name in of_sources), default=0)
    names = names[start:] + names[:start]
    if node.match is not None and node.match.name in known.quantities:
        names = [node.match.name, *(name for name in names if name != node.match.name)]
    later: list[tuple[str, Array]] = []
    for name in names:
        first: Array | None = None
        for laid in layouts(np.asarray(known.quantities[name], np.float64), node.values.shape):
            if first is None:
                first = laid
                yield name, laid
            elif not np.array_equal(laid, first):
                later.append((name, laid))
    yield from later  # Axes that have changed their places.
