"""Claim: a sentence that is said of normalisation layers, and the measurement that judges it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from matplotlib.axes import Axes

from lab.claims.interval import Interval

TRUE, FALSE, NOT_SEEN = "true", "false", "not seen"

Values = Mapping[str, float]
"""What was measured with one seed, each number under a name that says what it is."""
Intervals = Mapping[str, Interval]
"""Mean and interval of each of these values over all seeds."""


def true_if(holds: bool, otherwise: str = FALSE) -> str:
    """Return the verdict "true", or another one if the condition does not hold."""
    return TRUE if holds else otherwise


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One row of the ledger."""

    name: str
    """What the row is called on the command line and in links."""
    says: str
    """The sentence, as it circulates."""
    source: str
    """Who says so and where; "circulates": texts repeat it, none of them measures it."""
    shows: str
    """What is measured to judge it."""
    measure: Callable[..., Values]
    """Called with the seed; where `trains` names runs, with those runs by name."""
    verdict: Callable[[Intervals], str]
    """Judges the sentence by the values over all seeds: "true", "true where ...", "not seen" (the
    effect is not larger than its interval), "false"."""
    cost: Literal["quick", "long"] = "quick"
    """quick: seconds; long: minutes."""
    is_exact: bool = False
    """Whether no seed changes the values: then they are measured once."""
    is_timing: bool = False
    """Whether the values are times, which differ from machine to machine."""
    needs: str = ""
    """What a machine must have; without it the row says "not measured" (ledger.py: NEEDS)."""
    trains: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Small trainings that the measurement compares: settings that differ from the base's."""
    shown: tuple[str, ...] = ()
    """The values that the table shows; none: all. A picture may be drawn from the others."""
    draw: Callable[[Axes, Intervals], None] | None = None
    """Draws a picture of the values."""
    correct: str = ""
    """Of an error that circulates: what is right instead."""
    program: str = ""
    """Of an error that circulates: a program of a few lines whose output shows it."""
