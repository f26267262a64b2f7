"""claim: what measures and judges a sentence of claims.md, kept by the name of its row."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lab.claims.interval import Interval

NOT_SEEN = "not seen"
"""No effect is larger than its interval."""

Values = Mapping[str, float]
"""What was measured with one seed, each number under a name that says what it is."""
Intervals = Mapping[str, Interval]
"""Mean and interval of each of these values over all seeds."""
Measure = Callable[..., Values]
"""Called with the seed; where a claim names trainings, with those by name."""
Verdict = bool | str
"""Whether the sentence is true, or in words: "true where ...", "not seen"."""


class Claim(NamedTuple):
    """What a row of claims.md is measured and judged by."""

    measure: Measure
    verdict: Callable[[Intervals], Verdict]
    """Judges the sentence by the values over all seeds."""
    trains: Mapping[str, Mapping[str, Any]]
    """Small trainings that the measurement compares: settings that differ from the base's."""
    needs: str
    """What a machine must have (ledger.py: NEEDS); empty: nothing."""
    takes_minutes: bool


CLAIMS: dict[str, Claim] = {}
"""Filled by the modules of the folders, once they are imported."""


def claim(
    name: str,
    verdict: Callable[[Intervals], Verdict],
    *,
    trains: Mapping[str, Mapping[str, Any]] | None = None,
    needs: str = "",
    takes_minutes: bool = False,
) -> Callable[[Measure], Measure]:
    """Return what keeps a measurement as that of a claim; the arguments are Claim's."""

    def keep(measure: Measure) -> Measure:
        assert name not in CLAIMS, f"two claims are called {name}"
        CLAIMS[name] = Claim(measure, verdict, trains or {}, needs, takes_minutes)
        return measure

    return keep
