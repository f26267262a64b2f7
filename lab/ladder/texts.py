"""The texts of the ladder: a fixed tenth of the training text is held out to choose the rungs.

The final runs train on all of it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.config import END_OF_TEXT

TENTH = 10
"""One story of so many is held out: the tenth, the twentieth, ..."""


@dataclass(frozen=True)
class Texts:
    """What a recipe is trained on and judged by."""

    whole: Path
    """The training text."""
    part: Path
    """What choices are trained on: the training text without the tenth, or some of its stories."""
    tenth: Path
    """What choices are judged by."""


def split(whole: Path, folder: Path, every: int = 1) -> Texts:
    """Write the tenth of a text, and one story in `every` of the others, unless they are there.

    They are in a folder that is named after the checksum of the text.

    Raises:
        OSError: The text cannot be read, or a file not be written.
        ValueError: The text has too few stories.
    """
    # Named after the text too, since another one may have been split into this folder.
    folder /= checksum(whole)
    texts = Texts(whole, folder / f"part-{every}.txt", folder / "tenth.txt")
    if texts.part.exists() and texts.tenth.exists():
        return texts
    mark = END_OF_TEXT.encode()
    # Each with the mark behind it, so that with every=1 both together are the text, byte for byte.
    stories = [story + mark for story in whole.read_bytes().split(mark)]
    stories[-1] = stories[-1].removesuffix(mark)
    if len(stories) < (least := TENTH * every):
        raise ValueError(
            f"{whole} has {len(stories)} stories, of which no tenth can be held out: at least "
            f"{least} are needed, separated by {END_OF_TEXT}"
        )
    held = range(TENTH - 1, len(stories), TENTH)
    others = [number for number in range(len(stories)) if number not in held]
    for path, numbers in ((texts.tenth, held), (texts.part, others[::every])):
        with atomic_writer(path) as file:
            for number in numbers:
                file.write(stories[number])
    return texts


def checksum(path: Path) -> str:
    """Return a short checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
