"""The third text: a fixed tenth of the training text, for choices that the final run gets back."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.config import END_OF_TEXT

EVERY = 10
"""One story of so many is held back: the tenth, the twentieth, ..."""


@dataclass(frozen=True)
class Texts:
    """What a recipe is trained on and judged by."""

    whole: Path
    """The training text."""
    rest: Path
    """The training text without the tenth."""
    tenth: Path
    """The tenth."""


def split(whole: Path, folder: Path) -> Texts:
    """Write tenth and rest of a text into a folder, unless they are there.

    Raises:
        OSError: The text cannot be read, or a file not be written.
        ValueError: The text has fewer stories than EVERY.
    """
    texts = Texts(whole, folder / "rest.txt", folder / "tenth.txt")
    if texts.rest.exists() and texts.tenth.exists():
        return texts
    mark = END_OF_TEXT.encode()
    # Each with the mark behind it, so that the two parts together are the text, byte for byte.
    stories = [story + mark for story in whole.read_bytes().split(mark)]
    stories[-1] = stories[-1].removesuffix(mark)
    if len(stories) < EVERY:
        raise ValueError(
            f"{whole} has {len(stories)} stories, of which no tenth can be held back: at least "
            f"{EVERY} are needed, separated by {END_OF_TEXT}"
        )
    held = range(EVERY - 1, len(stories), EVERY)
    folder.mkdir(parents=True, exist_ok=True)
    for path, numbers in (
        (texts.tenth, held),
        (texts.rest, [number for number in range(len(stories)) if number not in held]),
    ):
        with atomic_writer(path) as file:
            for number in numbers:
                file.write(stories[number])
    return texts


def checksum(path: Path) -> str:
    """Return a short checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
