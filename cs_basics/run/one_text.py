"""One text becomes two: nine tenths to train on, and the rest to validate."""

import logging
import mmap
from pathlib import Path

from cs_basics.run.atomic import atomic_writer
from cs_basics.settings.run import END_OF_TEXT

logger = logging.getLogger(__name__)

SHARE, LEAST, MOST = 0.9, 0.8, 0.95
"""Share of a text that is trained on: the best, and within which limits it is cut."""
MARKS = {"an end of text": END_OF_TEXT.encode() + b"\n", "a line end": b"\n"}
"""Where a text may be cut, in the order in which they are looked for."""


def cut_text(text: Path, train: Path, valid: Path) -> None:
    """Write what comes before the mark that is nearest to SHARE of a text, and what comes after.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: There is no mark within the limits.
    """
    with text.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size = len(content)
        for what, mark in MARKS.items():
            places = [
                content.rfind(mark, int(LEAST * size), int(SHARE * size)),
                content.find(mark, int(SHARE * size), int(MOST * size)),
            ]
            if found := [place + len(mark) for place in places if place >= 0]:
                name = what
                break
        else:
            raise ValueError(
                f"{text} has no line end where it could be cut in two: break it into lines, or "
                "give --train-text and --valid-text"
            )
        place = min(found, key=lambda place: abs(place - SHARE * size))
        for path, part in ((train, content[:place]), (valid, content[place:])):
            with atomic_writer(path) as out:
                out.write(part)
    shares = f"{place / 1e6:,.2f} MB to train on, {(size - place) / 1e6:,.2f} MB to validate"
    logger.info("%s is cut at %s: %s", text, name, shares)
