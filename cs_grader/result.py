"""What came of one submission: the one record from which every output is written."""

import dataclasses
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Self

FORMAT = 4


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem of the assignment and the points that it earned."""

    problem: str
    """Its id in the rubric, such as "rmsnorm"."""
    title: str
    points: float
    max_points: float
    passed: int
    failed: int
    """Items that failed or ended in an error."""
    not_started: int
    hidden: int = 0
    """Items on hidden inputs, counted above too."""
    hidden_wrong: int = 0
    """Those of them that were not passed: all that a student may know about them."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One item of the examination."""

    problem: str
    item: str
    """Its pytest node id."""
    outcome: str
    """passed, failed, error or not_started."""
    diagnosis: str | None
    """The id of the known mistake behind it."""
    message: str
    """What the examination says; printable, bounded, and still the words of whoever submitted."""
    is_hidden: bool
    """On inputs drawn from a secret: not for the student's eyes, none of it."""
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One use of something that the assignment wants written from scratch."""

    problem: str
    rule: str
    """ "forbidden" or "needs review"."""
    operator: str
    file: str
    line: int
    message: str
    is_hidden: bool = False
    """Seen in items on hidden inputs only: not for the student's eyes."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Adjustment:
    """Points that an instructor gives or takes."""

    points: float
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Everything that is known about one submission."""

    submission: str
    key: str
    """SHA-256 of the submission's content."""
    isolation: str
    """ "bubblewrap", "uid" or "process"."""
    secret: str
    """A name for the secret that hidden inputs were drawn from, never the secret; "" without one.
    """
    note: str
    """One line for the gradebook, "" if all is well."""
    score: float
    """What the examination comes to."""
    max_score: float
    seconds: float
    problems: tuple[Problem, ...]
    items: tuple[Item, ...]
    policy: tuple[Finding, ...]
    output: str
    """What the submission printed, bounded."""
    handed_in_as: str = ""
    """The name of the file or folder; `submission` may have been another's at another time."""
    adjustments: tuple[Adjustment, ...] = ()

    @property
    def total(self) -> float:
        """The points of the gradebook: the score with all adjustments, at least 0."""
        return max(0.0, self.score + sum(one.points for one in self.adjustments))

    def to_json(self) -> str:
        """Return the result as a JSON object."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises:
            ValueError: The text is something else.
        """
        try:
            fields: dict[str, Any] = json.loads(text)
            written = fields.pop("format")
            if written != FORMAT:
                raise ValueError(f"a result of format {written}, not {FORMAT}")
            kinds = {
                "problems": Problem,
                "items": Item,
                "policy": Finding,
                "adjustments": Adjustment,
            }
            for name, kind in kinds.items():
                fields[name] = tuple(kind(**entry) for entry in fields.get(name, ()))
            return cls(**fields)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a result: {type(error).__name__}: {error}") from None


def write_atomically(path: Path, text: str, *, survives_crash: bool = True) -> None:
    """Write a file that appears whole or not at all, even if the program is killed midway.

    Args:
        path: Where.
        text: What.
        survives_crash: The same if the machine stops: waits for the disk.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            if survives_crash:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
