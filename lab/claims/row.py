"""Row: what was measured of a claim so far, kept in a file of its own after every seed.

Killing the ledger loses only the measurement in progress. To add rows from another machine (one
with a GPU), copy their files.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from cs_basics.run.atomic import write_atomically
from cs_basics.run.json_file import read_json
from lab.claims.claim import Intervals, Values
from lab.claims.interval import interval_of


@dataclass(frozen=True, kw_only=True)
class Row:
    """The values of one claim by seed."""

    claim: str
    """Name of the claim."""
    code: str
    """Checksum of the file that defines the claim: after a change it is measured again."""
    date: str = ""
    """Day of the last measurement."""
    machine: str = ""
    """What it was measured on."""
    seconds: float = 0.0
    """Time of all its measurements."""
    values: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """Values by seed."""

    def with_values(
        self, seed: int, values: Values, seconds: float, date: str, machine: str
    ) -> Self:
        """Return a row that has the values of one more seed."""
        return replace(
            self,
            date=date,
            machine=machine,
            seconds=self.seconds + seconds,
            values={**self.values, str(seed): dict(values)},
        )

    def intervals(self) -> Intervals:
        """Return mean and interval of each value over all seeds; there must be one seed."""
        names = next(iter(self.values.values()))
        return {
            name: interval_of([values[name] for values in self.values.values()]) for name in names
        }

    def write(self, folder: Path) -> None:
        """Keep the row."""
        write_atomically(
            path_of(folder, self.claim), json.dumps(asdict(self), indent=1).encode() + b"\n"
        )


def read_row(folder: Path, claim: str, code: str) -> Row:
    """Return the stored row of a claim; an empty row if there is none or the claim has changed.

    Raises:
        ValueError: The file is damaged.
    """
    path = path_of(folder, claim)
    if not path.exists():
        return Row(claim=claim, code=code)
    try:
        row = Row(**read_json(path))
        row.intervals()
    except (TypeError, KeyError, AttributeError, ValueError, StopIteration) as error:
        raise ValueError(f"{path} is damaged: delete it, and the row is measured again") from error
    return row if row.code == code else Row(claim=claim, code=code)


def path_of(folder: Path, claim: str) -> Path:
    """Return the file of a claim's row."""
    return folder / f"{claim}.json"
