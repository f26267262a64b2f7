"""The rules by which figures decide: a few forms in one table, three outcomes.

A rule is written as it is printed: "FORM: [LOW <] FIGURES [< HIGH]" or "FORM: FIGURES = VALUE".
FIGURES is arithmetic over the names of what was measured, done for each seed by itself, so that
two trainings of a seed are compared with each other; a rule judges its spread over the seeds.
Several such parts, ";" between them, must all hold.
"""

import re
from collections.abc import Callable, Mapping
from math import inf

from lab.claims.interval import Spread

Figures = Mapping[str, float]
"""What was measured with one seed, each number under an identifier that says what it is."""
Outcome = bool | None
"""None: not seen."""

FORMS: Mapping[str, Callable[[Spread, int], tuple[float, float]]] = {
    "every seed": lambda spread, _: (spread.least, spread.most),
    "interval": lambda spread, seeds: spread.ends if seeds > 1 else (-inf, inf),
}
"""What of the seeds' values must lie within the limits: the worst, or the 95 % t interval."""
ROUNDING = 1e-9
"""How far from a VALUE, relative to it, figures may lie that equal it."""
FUNCTIONS = {"__builtins__": {}, "abs": abs, "max": max, "min": min}


def outcome(rule: str, spreads: Mapping[str, Spread], seeds: int) -> Outcome:
    """Judge what some seeds gave: True, False, or None for not seen.

    A part holds if all of its form lies within the limits, and fails if all of it lies outside, on
    one side; between the two nothing is seen. The rule fails if a part fails.
    """
    found: list[Outcome] = []
    for form, figures, low, high in parts_of(rule):
        least, most = FORMS[form](spreads[figures], seeds)
        fails = most <= low or high <= least
        found.append(True if low < least and most < high else False if fails else None)
    return False if False in found else None if None in found else True


def parts_of(rule: str) -> list[tuple[str, str, float, float]]:
    """Return form, expression and limits of each part of a rule."""
    parts = [part.strip().split(": ") for part in rule.split(";") if part.strip()]
    return [(form, *limits_of(comparison)) for form, comparison in parts]


def limits_of(comparison: str) -> tuple[str, float, float]:
    """Take a comparison apart: the expression over figures, and the limits."""
    match re.split(r" ([<>=]) ", comparison):
        case [figures, "<", high]:
            return figures, -inf, value_of(high)
        case [figures, ">", low]:
            return figures, value_of(low), inf
        case [low, "<", figures, "<", high]:
            return figures, value_of(low), value_of(high)
        case [figures, "=", value]:
            right = value_of(value)
            slack = ROUNDING * max(1, abs(right))
            return figures, right - slack, right + slack
        case _:
            raise ValueError(
                f"{comparison!r} is no comparison: write one as lab/claims/rules.py says"
            )


def value_of(expression: str, figures: Figures | None = None) -> float:
    """Compute an expression over figures."""
    return float(eval(expression, FUNCTIONS, dict(figures or {})))
