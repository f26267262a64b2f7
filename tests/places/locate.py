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

from places.graph import Line, Node, nodes_of, unknown_on_the_way
from places.matching import A_PART, Array, Known, layouts
from places.sentences import paragraph
from places.tasks import Task, Wanted

# Runs the traced call again with other values put in for some of its operations.
Rerun = Callable[[Mapping[int, Array]], Array | None]

MOST_RERUNS = 50
MOST_SECONDS = 1.0
MOST_LINES = 3


@dataclass(frozen=True)
class Finding:
    """Where an answer goes wrong."""

    right: list[Node]
    """The last nodes whose values are right, on the way to what is wrong."""
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
        return distinct([self.wrong[0], self.wrong[-1], *self.right])

    def accused(self) -> list[Line]:
        """Those of them that are said to be wrong."""
        return distinct([self.wrong[0], self.wrong[-1]])

    def paragraph(self) -> str:
        """Say it."""
        return paragraph(self.right, self.wrong, self.should_be, self.values)


def shown(right: Sequence[Node], wrong: Sequence[Node]) -> list[Node]:
    """Of the nodes that are right, the last of each line, so that few lines are named in all."""
    others = {node.lines[0][1:3] for node in (wrong[0], wrong[-1])}
    room = MOST_LINES - len(others)
    found: list[Node] = []
    for node in right:
        lines = {one.lines[0][1:3] for one in found} | others
        if node.lines[0][1:3] not in lines and len(found) < room:
            found.append(node)
    return found or list(right[:1])


def distinct(nodes: Sequence[Node]) -> list[Line]:
    found: dict[tuple[str, int], Line] = {}
    for node in nodes:
        found.setdefault((node.lines[0].file, node.lines[0].number), node.lines[0])
    return list(found.values())


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
    sources = {source for node in window for source in node.sources}
    inside = {node.number for node in window}
    right = [nodes[n] for n in sorted(sources - inside) if n in nodes and nodes[n].lines]
    right = [node for node in right if node.is_known]
    made_by = next(iter(Line(*line) for line in events[output]["lines"]), None)
    return Finding(shown(right[::-1], window), window, should_be, values, made_by)


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
        if node.values is None or node.values.size < 2 or not node.lines:
            continue  # A lone number says too little.
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
