"""Where a submission solves each problem: the function or class that an adapter leads to first."""

import ast
from collections.abc import Iterator, Mapping, Sequence

from cs_grader.result import Excerpt
from cs_grader.rules.modules import Unit
from cs_grader.rules.source import Source

MAX_LINES = 60


def solutions(
    source: Source, adapters_file: str, adapters: Mapping[str, Sequence[str]]
) -> Iterator[Excerpt]:
    """Find what solves each problem; nothing for a problem without an adapter.

    Args:
        source: The submission.
        adapters_file: Where its adapters are.
        adapters: The names of those that each problem examines.
    """
    for problem, names in adapters.items():
        # In the order in which they are reached: the adapter, what it names, what that names.
        units = [
            unit
            for unit in source.reachable(adapters_file, names)
            if isinstance(unit.statement, ast.FunctionDef | ast.ClassDef)
        ]
        # A problem that is solved in its adapter leads to nothing elsewhere.
        elsewhere = [unit for unit in units if unit.module.file != adapters_file]
        for unit in (elsewhere or units)[:1]:
            yield _excerpt(problem, unit)


def _excerpt(problem: str, unit: Unit) -> Excerpt:
    first, last = unit.statement.lineno, unit.statement.end_lineno or unit.statement.lineno
    lines = unit.module.text.splitlines()[first - 1 : last]
    more = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    text = "\n".join([*lines[:MAX_LINES], *more])
    return Excerpt(problem=problem, file=unit.module.file, line=first, text=text)
