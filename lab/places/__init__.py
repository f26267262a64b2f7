"""Where a wrong answer goes wrong: the line, and the smallest input with which it does.

A submission's lines are watched while they compute (tracing.py), and what they compute is
compared with what a right implementation may hold on the way. None of this runs for what passes.

    tracing.py       watches what a submission computes; lines.py: line by line
    cases.py         inputs: small ones for paper, others in which nothing is alike
    matching.py      recognises a quantity in any layout
    quantities.py    what a right implementation may hold, by adapter and by name
    optimization.py  the same of AdamW and gradient clipping
    calls.py         calls that are right in themselves, such as a softmax along a wrong axis
    tasks.py         what is traced for an item that failed
    graph.py         which value came from which, in which lines
    locate.py        between which lines it goes wrong
    shrinking.py     the smallest input that fails
    texts.py         the smallest text, for encoding and training, which have no lines to name
    steps.py         the smallest steps of AdamW
    rates.py         the same for learning rates, which are plain numbers
    sentences.py     puts what was found into sentences
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from lab.places import quantities, tasks
from lab.places.locate import Finding, locate
from lab.places.matching import Array
from lab.places.rates import Path, find_in_rates
from lab.places.sentences import call, on_paper, shown
from lab.places.shrinking import smallest
from lab.places.steps import smallest_steps
from lab.places.texts import smallest_text

# Runs a probe against the submission and returns what it saw.
Run = Callable[..., Any]


def explain(run: Run, inputs: Mapping[str, Any]) -> tuple[Finding | Path | None, str]:
    """Say where an adapter goes wrong and with which small input; "" if nothing is certain.

    Args:
        run: Runs a probe.
        inputs: What the item that failed gave its probe.

    Returns:
        What was found, and what is said of it.
    """
    with np.errstate(all="ignore"):
        finding = find(run, inputs)
        return finding, "\n".join(said_of(finding, run, inputs))


def said_of(finding: Finding | Path | None, run: Run, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paragraph about the line, and the smallest call that fails."""
    if finding is not None:
        yield finding.paragraph()
    function = inputs.get("function", "")
    if function in quantities.OF:
        own = None if inputs.get("dtypes") else inputs.get("arguments")
        small = smallest(run, function, own)
        if small is not None:
            arguments, got, expected = small
            yield on_paper(call(function, arguments), shown(got), shown(expected))
    small_call = smallest_steps(run) if "groups" in inputs else smallest_text(run, inputs)
    if small_call:
        yield small_call


@np.errstate(all="ignore")
def find(run: Run, inputs: Mapping[str, Any]) -> Finding | Path | None:
    """Trace a submission on inputs of the kind that an item failed with."""
    if {"iterations", "settings"} <= inputs.keys():
        return find_in_rates(run)
    for task in tasks.for_inputs(inputs):
        seen = run(task.probe, **task.inputs)
        for place, (wanted, output) in enumerate(zip(task.wanted, seen["outputs"], strict=False)):
            number, got = output
            if got is None or wanted.is_met(got):
                continue

            def rerun(
                replaced: Mapping[int, Array], task: tasks.Task = task, place: int = place
            ) -> Array | None:
                try:
                    return values_at(run(task.probe, **task.inputs, replaced=replaced), place)
                except Exception:  # These values do not suit what follows.
                    return None

            return locate(seen["events"], number, task, wanted, rerun)
    return None


def values_at(seen: Mapping[str, Any], place: int) -> Array | None:
    """One of the outputs; None if there is no such output."""
    return seen["outputs"][place][1] if place < len(seen["outputs"]) else None
