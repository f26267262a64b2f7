"""What is kept of a run: its score, and when and where it was made."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cs_basics.run.atomic import write_atomically
from cs_basics.run.json_file import read_json

FILE = "score.json"


@dataclass(frozen=True, kw_only=True)
class Score:
    """Bits per byte of one run, on one text."""

    bits_per_byte: float | None
    """None: the run failed."""
    steps: int
    """Updates made."""
    date: str
    machine: str
    failure: str = ""
    """The last line that a failed run wrote."""

    @property
    def value(self) -> float:
        """Bits per byte, infinite for a run that failed."""
        return math.inf if self.bits_per_byte is None else self.bits_per_byte

    def write(self, folder: Path) -> None:
        """Write it into the folder of the run, which makes the run complete."""
        write_atomically(folder / FILE, json.dumps(asdict(self), indent=2).encode() + b"\n")


Runs = Mapping[tuple[str, ...], Mapping[int, Score]]
"""Scores by recipe and seed."""


def read_score(folder: Path) -> Score | None:
    """Return the score of a run; None if the run is not complete.

    Raises:
        ValueError: The file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return Score(**read_json(path))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}): delete it to repeat the run") from None


def values(runs: Runs) -> dict[tuple[str, ...], dict[int, float]]:
    """Return bits per byte alone."""
    return {
        recipe: {seed: score.value for seed, score in of_seeds.items()}
        for recipe, of_seeds in runs.items()
    }
