"""record.jsonl: what all runs have in common on its first line, a run on each further one."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from cs_basics.run.atomic import write_atomically
from lab.ladder.rungs import RUNGS, name_of, settings_of

Kind = Literal["choice", "final", "hour"]
"""choice: a short run on part of the training text, judged by the held-out tenth. The base makes a
fixed number of updates, any other recipe as many as take the same time.
final: so many minutes by the clock on all of the training text, judged by the validation text.
hour: the same, HOUR times as long."""
HOUR = 6
"""The longest run takes so many times the minutes of a final one."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What all runs of a record have in common."""

    preset: str
    minutes: float
    """Of a final run, all included."""
    choice_updates: int
    """Of the base in a run that decides about a rung; other recipes make as many as fit into their
    time."""
    choice_stories: int
    """Such a run is trained on one story in so many."""
    settings: dict[str, Any]
    """Of the base."""
    texts: dict[str, str]
    """Checksums by name."""
    machine: str


@dataclass(frozen=True, kw_only=True)
class Score:
    """Bits per byte of one run, on one text."""

    kind: Kind
    recipe: tuple[str, ...]
    """Names of rungs."""
    seed: int
    bits_per_byte: float | None
    """None: the run failed, or was not judged."""
    steps: int
    """Updates made."""
    date: str
    failure: str = ""
    """The last line that a failed run wrote."""
    settings: dict[str, Any]
    """Those of the recipe's rungs."""
    cost: float | None = None
    """Of a choice: the time of an update, in updates of the base. Other runs follow the clock."""

    @property
    def value(self) -> float:
        """Bits per byte, infinite for a run that failed."""
        return math.inf if self.bits_per_byte is None else self.bits_per_byte


Runs = Mapping[tuple[str, ...], Mapping[int, Score]]
"""Scores by recipe and seed."""


@dataclass
class Record:
    """All scores that were made under the same terms, in a file."""

    path: Path
    terms: Terms
    scores: list[Score] = field(default_factory=list[Score])

    @classmethod
    def open(cls, path: Path, terms: Terms) -> "Record":
        """Read a file, which need not exist, and compare its terms.

        Raises:
            ValueError: It is damaged, or was begun under other terms.
        """
        record = cls(path, terms)
        if not path.exists():
            return record
        rows = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        number = 1
        try:
            begun = Terms(**json.loads(next(rows, (1, ""))[1]))
            for number, line in rows:  # noqa: B007  The error says which.
                row = json.loads(line)
                record.scores.append(Score(**row | {"recipe": tuple(row["recipe"])}))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} line {number} cannot be read ({error}): delete that line to repeat its "
                "run, or move the file away to begin anew"
            ) from None
        if changed := _changed(begun, terms):
            raise ValueError(f"{path} was begun with another {changed}: move it away first")
        record.terms = begun
        return record

    def add(self, score: Score) -> None:
        """Add a score to the file and to what it holds by now: rows may have been deleted."""
        self.scores = [*Record.open(self.path, self.terms).scores, score]
        rows = [asdict(self.terms), *map(asdict, self.scores)]
        write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def runs(self, kind: Kind) -> Runs:
        """Return all scores of a kind."""
        found: dict[tuple[str, ...], dict[int, Score]] = {}
        for score in self.scores:
            if score.kind == kind:
                found.setdefault(score.recipe, {})[score.seed] = score
        return found


def _changed(begun: Terms, terms: Terms) -> str | None:
    """Name the first difference; another machine and settings that have come since are none."""
    for name, value in asdict(begun).items():
        now = getattr(terms, name)
        if name == "settings":
            for setting, stored in value.items():
                if setting not in now or now[setting] != stored:
                    return f"{setting}={stored}, now {now.get(setting, 'unknown')}"
        elif name != "machine" and value != now:
            return f"{name}={value}, now {now}"
    return None


def values(runs: Runs) -> dict[tuple[str, ...], dict[int, float]]:
    """Return bits per byte alone."""
    return {
        recipe: {seed: score.value for seed, score in of_seeds.items()}
        for recipe, of_seeds in runs.items()
    }


def check_unchanged(record: Record) -> None:
    """Refuse scores of rungs that have other settings by now.

    Raises:
        ValueError: There are such scores; the message says how to go on.
    """
    known = {rung.name for rung in RUNGS}
    # A run had the settings of the terms, also those that BASE did not name yet.
    terms = record.terms.settings
    for score in record.scores:
        is_known = known.issuperset(score.recipe)
        if not is_known or terms | score.settings != terms | settings_of(score.recipe):
            raise ValueError(
                f"{record.path}: the rungs of {name_of(score.recipe)} have changed since "
                f"{score.date}: delete its lines to train it again"
            )
