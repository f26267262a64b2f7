"""Where a learning rate goes wrong: the lines that ran for it, and the first odd value in them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from oracles.training import cosine_schedule

from lab.places.graph import Line
from lab.places.lines import traced_rates
from lab.places.sentences import number

SETTINGS: dict[str, Any] = {
    "max_learning_rate": 1.3,
    "min_learning_rate": 0.17,
    "warmup_iters": 5,
    "cosine_cycle_iters": 16,
}
TOLERANCE = 1e-6
MOST_SHOWN = 12


class Step(NamedTuple):
    """A line that ran, and the variable that it set ("": what it returned; None: neither)."""

    file: str
    number: int
    function: str
    text: str
    name: str | None
    value: float | None


@dataclass(frozen=True)
class Path:
    """The lines that ran for a wrong rate."""

    iteration: int
    settings: Mapping[str, Any]
    steps: list[Step]
    got: float
    expected: float
    known: Mapping[str, float]

    def name_of(self, step: Step) -> str | None:
        """Which right quantity a line computed."""
        for name, value in self.known.items():
            if step.value is not None and are_close(step.value, value):
                return name
        return None

    def suspects(self) -> list[Step]:
        """The two lines of `odd`, and the last condition before the first of them, if any."""
        first, last = self.odd()
        before = self.steps[: self.steps.index(first)]
        # A condition that has led to the right rate has done its part.
        has_been_right = any(self.name_of(step) == "the rate" for step in before)
        conditions = [] if has_been_right else [s for s in before if s.value is None]
        found = {(step.file, step.number): step for step in (first, last, *conditions[-1:])}
        return list(found.values())

    def odd(self) -> tuple[Step, Step]:
        """The first own line that computed nothing known, and the last that computed anything."""
        own = [step for step in self.steps if not step.file.endswith("adapters.py")] or self.steps
        made = [step for step in own if step.value is not None] or own[-1:]
        odd = [step for step in made if self.name_of(step) is None]
        return (odd or made[-1:])[0], made[-1]

    def lines(self) -> list[Line]:
        """The lines that are named, the suspicious ones first."""
        return [Line(0, s.file, s.number, s.function, s.text) for s in self.suspects()]

    def accused(self) -> list[Line]:
        """Those of them that are said to be wrong."""
        return [Line(0, s.file, s.number, s.function, s.text) for s in dict.fromkeys(self.odd())]

    @property
    def made_by(self) -> Line:
        """The line that returned the rate."""
        step = next(s for s in reversed(self.steps) if s.name == "" or s is self.steps[0])
        return Line(0, step.file, step.number, step.function, step.text)

    def paragraph(self) -> str:
        """Show the lines that ran, with what they computed."""
        given = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        rows = [
            "Where to look:",
            f"  run_get_lr_cosine_schedule(it={self.iteration}, {given})",
            f"  returns {number(self.got)}, expected {number(self.expected)}. These lines run:",
        ]
        marked = {(step.file, step.number) for step in self.suspects()}
        for step in self.steps[-MOST_SHOWN:]:
            mark = "->" if (step.file, step.number) in marked else "  "
            rows.append(f"  {mark} {step.file} line {step.number}: {step.text}{self.note(step)}")
        return "\n".join(rows)

    def note(self, step: Step) -> str:
        if step.value is None:
            return ""
        what = f"{step.name} = {number(step.value)}" if step.name else number(step.value)
        name = self.name_of(step)
        return f"   # {what}" + (f", {name}" if name else "")


def find_in_rates(run: Callable[..., Any]) -> Path | None:
    """Trace the first wrong rate of a schedule."""
    iterations = list(range(SETTINGS["cosine_cycle_iters"] + 4))
    seen = run(traced_rates, iterations=iterations, settings=SETTINGS)
    for iteration, got, path in zip(iterations, seen["rates"], seen["paths"], strict=True):
        expected = cosine_schedule(iteration, **SETTINGS)
        if not are_close(got, expected):
            steps = [Step(*row) for row in path]
            known = quantities(iteration, **SETTINGS)
            return Path(iteration, SETTINGS, steps, got, expected, known) if steps else None
    return None


def are_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-12)


def quantities(
    it: int,
    max_learning_rate: float,
    min_learning_rate: float,
    warmup_iters: int,
    cosine_cycle_iters: int,
) -> dict[str, float]:
    """What may be computed on the way to a right rate."""
    spread = max_learning_rate - min_learning_rate
    rate = cosine_schedule(
        it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters
    )
    found = {
        "the rate": rate,
        "the iteration": it,
        "the maximum less the minimum": spread,
        "half of the maximum less the minimum": spread / 2,
        "the iterations of warm-up": warmup_iters,
        "the iterations of the cosine": cosine_cycle_iters - warmup_iters,
    }
    if it < warmup_iters:
        return {**found, "the fraction of the warm-up": it / warmup_iters}
    if it > cosine_cycle_iters:
        return found
    done = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    cosine = math.cos(math.pi * done)
    return {
        **found,
        "the iterations since the warm-up": it - warmup_iters,
        "the fraction of the cosine": done,
        "pi times the fraction": math.pi * done,
        "pi / 2 times the fraction": math.pi / 2 * done,
        "the cosine": cosine,
        "1 + the cosine": 1 + cosine,
        "(1 + the cosine) / 2": (1 + cosine) / 2,
        "what is above the minimum": rate - min_learning_rate,
    }
