"""What a submission computed, as a graph: which value came from which, and in which lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lab.places.calls import Settings, what_it_is
from lab.places.matching import Array, Known, Match

ASSIGNMENT = "="  # A number that is no tensor: where it comes from is not seen.


class Line(NamedTuple):
    """A line of a submission that was being executed."""

    call: int
    """Number of the function's call, so that two of the same line can be told apart."""
    file: str
    number: int
    function: str
    text: str


@dataclass(frozen=True)
class Node:
    """An operation, or a call that is right in itself."""

    number: int
    operation: str
    lines: tuple[Line, ...]
    """The innermost first."""
    sources: tuple[int, ...]
    scalars: tuple[float, ...]
    values: Array | None
    match: Match | None

    @property
    def is_known(self) -> bool:
        return self.match is not None and self.match.is_exact

    @property
    def is_given(self) -> bool:
        """Whether this is where a computation starts: an input, or a constant."""
        is_constant = self.operation != ASSIGNMENT and is_uniform(self.values)
        return not self.lines or (not self.sources and is_constant)


def is_uniform(values: Array | None) -> bool:
    return values is not None and bool(np.all(values == values.flat[0]) if values.size else True)


def nodes_of(
    events: Sequence[Mapping[str, Any]],
    output: int,
    known: Known,
    function: str = "",
    settings: Settings | None = None,
) -> dict[int, Node]:
    """Recognise each event's values, and take calls that are right in themselves for one node."""
    nodes = {}
    for number in sorted(behind(events, output)):
        event = events[number]
        values = event["values"]
        nodes[number] = Node(
            number=number,
            operation=event["operation"],
            lines=tuple(Line(*line) for line in event["lines"]),
            sources=tuple(event["sources"]),
            scalars=tuple(event["scalars"]),
            values=values,
            match=None if values is None or not values.size else known.match(values),
        )
    for call, made in list(right_calls(nodes, output, function, settings or {})):
        inside = {n for n, node in nodes.items() if any(line.call == call for line in node.lines)}
        if made not in inside:
            continue  # An outer call has swallowed it already.
        node = nodes[made]
        depth = next(place for place, line in enumerate(node.lines) if line.call == call)
        sources = {source for n in inside for source in nodes[n].sources} - inside
        for number in inside:
            del nodes[number]
        nodes[made] = Node(
            number=made,
            operation=node.lines[depth].function,
            lines=node.lines[depth + 1 :],
            sources=tuple(sorted(sources)),
            scalars=(),
            values=node.values,
            match=node.match,
        )
    return nodes


def behind(events: Sequence[Mapping[str, Any]], output: int) -> set[int]:
    """The numbers of all events that an output was made of."""
    found, stack = set[int](), [output]
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            stack += events[number]["sources"]
    return found


def right_calls(
    nodes: Mapping[int, Node], output: int, function: str, settings: Settings
) -> Iterator[tuple[int, int]]:
    """Yield the calls that are right in themselves, the outermost first, with what they made."""
    inside: dict[int, set[int]] = {}
    depth: dict[int, int] = {}
    for number, node in nodes.items():
        for place, line in enumerate(reversed(node.lines)):
            inside.setdefault(line.call, set()).add(number)
            depth[line.call] = place
    users: dict[int, list[int]] = {}
    for number, node in nodes.items():
        for source in node.sources:
            users.setdefault(source, []).append(number)
    # Without the adapter itself, at depth 0: it is what was found wrong.
    for call in sorted((c for c in inside if depth[c] > 0), key=lambda c: depth[c]):
        own = inside[call]
        made = [n for n in own if n == output or any(u not in own for u in users.get(n, ()))]
        made = [n for n in made if (values := nodes[n].values) is not None and values.size]
        if len(made) != 1 or len(own) < 1:
            continue
        sources = {source for n in own for source in nodes[n].sources} - own
        given = [nodes[source].values for source in sorted(sources)]
        inputs = [array for array in given if array is not None and array.size > 1]
        values = nodes[made[0]].values
        if values is not None and what_it_is(function, inputs, values, settings):
            yield call, made[0]


def unknown_on_the_way(nodes: Mapping[int, Node], output: int) -> list[Node]:
    """The nodes that the output was made of since the last values that were recognised."""
    found: dict[int, Node] = {}
    stack = [output]
    while stack:
        node = nodes.get(stack.pop())
        if node is None or node.number in found or node.is_given:
            continue
        if node.is_known and node.number != output:
            continue
        found[node.number] = node
        stack += node.sources
    return [found[number] for number in sorted(found)]
