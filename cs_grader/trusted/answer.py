"""What came of a probe, rebuilt field by field from what the sandbox sent.

Nothing that arrives is trusted: texts are cut, names come from lists, and whoever sends something
else has only lost the item.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from cs_grader.plain_text import plain
from cs_grader.rules.names import NAMES
from cs_grader.sandbox import wire
from cs_grader.sandbox.audit import KNOWN as KNOWN_CODE
from cs_grader.sandbox.forbidden import PACKAGES
from cs_grader.sandbox.ledger import Entry

# What a note of each kind may be about.
KNOWN = {"forbidden": NAMES.keys() | PACKAGES.keys(), "code": KNOWN_CODE}
MOST_NOTES = 20
MAX_TEXT = 3900


class Frame(NamedTuple):
    """A line of the submission on the way to an exception."""

    file: str
    line: int
    function: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of a probe."""

    ended: str
    """ "imported", "returned", "raised", or "died"."""
    value: wire.Plain = None
    kind: str = ""
    """Name of the exception's class."""
    text: str = ""
    """What the exception says, or how the process died."""
    frames: tuple[Frame, ...] = ()
    missing: str | None = None
    """Name of an adapter that is not there."""
    is_not_implemented: bool = False
    during_import: bool = False
    noted: tuple[Entry, ...] = ()
    """What it did that a person has to look at, with files relative to the submission."""
    inputs: bytes = b""
    """Memory with the tensors that it was given, as they are after the call (unchanged.py)."""
    elsewhere_s: float = 0.0
    """CPU seconds that it took in other processes than the one that ran the probe."""
    import_s: float = 0.0
    """How long the last import of the submission took."""
    absent: tuple[tuple[str, str, int], ...] = ()
    """Packages that are not installed, and where they are imported."""

    @property
    def is_over_time(self) -> bool:
        """Whether it used up the time that it had."""
        return self.ended == "died" and ("of CPU" in self.text or "no answer" in self.text)


def died(how: str) -> Answer:
    """The answer of a process that is gone."""
    return Answer(ended="died", text=how)


def answer_of(received: wire.Plain, seen: wire.Plain) -> Answer:
    """Rebuild an answer from what the sandbox sent.

    Args:
        received: The answer.
        seen: What the server has seen besides: "notes" of the ledger, "inputs" after the call.

    Raises:
        WireError: It is nothing that the worker would send.
    """
    if not isinstance(received, dict) or not isinstance(seen, dict):
        raise wire.WireError("what came is not an answer")
    ended = received.get("ended")
    if ended not in ("imported", "returned", "raised", "died"):
        raise wire.WireError("what came is not an answer")
    try:
        kind = _text(received.get("type", ""), 100)
        return Answer(
            ended=ended,
            value=received.get("value"),
            kind=kind if kind.isidentifier() else "Exception",
            text=_text(received.get("how" if ended == "died" else "text", ""), MAX_TEXT),
            frames=tuple(
                Frame(_text(file, 300), _line(line), _text(function, 100))
                for file, line, function in received.get("frames", [])[:40]
            ),
            missing=None if received.get("missing") is None else _text(received["missing"], 100),
            is_not_implemented=received.get("is_not_implemented") is True,
            during_import=received.get("during_import") is True,
            noted=tuple(
                Entry(kind, _what(kind, what), _text(file, 300), _line(line))
                for kind, what, file, line in seen["notes"][:MOST_NOTES]
            ),
            inputs=_bytes(seen["inputs"]),
            elsewhere_s=_seconds(seen["elsewhere_s"]),
            import_s=_seconds(seen["import_s"]),
            absent=tuple(
                (_text(one["package"], 100), _text(one["file"], 300), _line(one["line"]))
                for one in received.get("absent", [])[:20]
            ),
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        raise wire.WireError("what came is not an answer") from None


def _text(value: wire.Plain, limit: int) -> str:
    if not isinstance(value, str):
        raise TypeError
    return plain(value, limit)


def _bytes(value: wire.Plain) -> bytes:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        raise TypeError
    return value.tobytes()


def _seconds(value: wire.Plain) -> float:
    if type(value) is not float or not math.isfinite(value):
        raise TypeError
    return value


def _what(kind: str, value: wire.Plain) -> str:
    # The ledger lies beside the submission, which could write anything into it.
    text = _text(value, 200)
    return text if text in KNOWN[kind] else "something unknown"


def _line(value: wire.Plain) -> int:
    if type(value) is not int or not 0 <= value < 10_000_000:
        raise TypeError
    return value
