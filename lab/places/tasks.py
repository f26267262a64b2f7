"""What is traced: a probe with its inputs, what may be held on the way, and what should come."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lab.places import cases, optimization, quantities
from lab.places.matching import Array, are_close
from lab.places.tracing import traced, traced_clipping, traced_steps


@dataclass(frozen=True)
class Wanted:
    """What an output should be: one of these."""

    name: str
    values: tuple[Array, ...]

    def is_met(self, got: Array) -> bool:
        return any(got.shape == one.shape and are_close(got, one) for one in self.values)


@dataclass(frozen=True)
class Task:
    """One call to trace."""

    probe: Callable[..., Any]
    inputs: Mapping[str, Any]
    known: Mapping[str, Array]
    """Quantities by name."""
    wanted: list[Wanted]
    """One for each output."""
    function: str = ""
    """The adapter. Calls inside it are judged by this and by its arguments, which follow."""
    settings: Mapping[str, Any] = field(default_factory=dict)


def for_inputs(inputs: Mapping[str, Any]) -> Iterator[Task]:
    """Yield what to trace for an item that failed, the most telling first."""
    function = inputs.get("function", "")
    if function in quantities.OF:
        for arguments in cases.for_tracing(function):
            yield of_adapter(function, arguments)
        own = inputs.get("arguments")
        if own is not None and not inputs.get("dtypes"):
            yield of_adapter(function, own)
    elif {"groups", "options", "gradients"} <= inputs.keys():
        yield from map(of_steps, optimization.steps_to_trace())
    elif {"gradients", "max_l2_norm"} <= inputs.keys():
        yield from map(of_clipping, optimization.clippings_to_trace())


def of_adapter(function: str, arguments: Mapping[str, Any]) -> Task:
    known = quantities.OF[function](**arguments)
    name, values = list(known.items())[-1]
    inputs = {"function": function, "arguments": arguments}
    return Task(traced, inputs, known, [Wanted(name, (values,))], function, arguments)


def of_steps(inputs: Mapping[str, Any]) -> Task:
    known, wanted = optimization.adamw(**inputs)
    return Task(traced_steps, inputs, known, [Wanted(*one) for one in wanted])


def of_clipping(inputs: Mapping[str, Any]) -> Task:
    known = optimization.clipping(**inputs)
    names = [f"gradient {place}, clipped" for place in range(len(inputs["gradients"]))]
    wanted = [Wanted(name, (np.asarray(known[name]),)) for name in names]
    return Task(traced_clipping, inputs, known, wanted)
