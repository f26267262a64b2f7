"""The grammar that tells stories: it draws plots and sentences and fills their slots with words."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import TypeVar

from cs_basics.stories.plots import Beat, Plot, read_plots
from cs_basics.stories.words import DIGITS, PRONOUNS, read_words

END_OF_TEXT = "<|endoftext|>"
# A sentence about one person alone, and the next one about the same person.
REPEATED_NAME = re.compile(
    r'(?<![a-z] )([A-Z][a-z]+(?:\.? [A-Z][a-z]+)?)( [a-z][^A-Z".!?]*\. )\1(?= [a-z])'
)
STORIES_PER_WRITE = 1000
VALID_BYTES, VALID_SEED_OFFSET = 500_000, 1_000_003
"""Size of the embedded corpus' validation text, and its seed minus that of the training text."""

T = TypeVar("T")


def choose(rng: Random, options: Sequence[T]) -> T:
    """Draw one option, all equally likely; several times faster than `Random.choice`."""
    return options[int(rng.random() * len(options))]


class Cast(dict[str, str]):
    """The words of one story: a slot is filled when first asked for, and stays filled.

    `toy2` asks for another word of the kind "toy". No two slots hold equal words.

    Args:
        rng: Source of every draw.
        hero_kind: The kind of the hero, whose pronouns fill `he`, `him`, `his` and so on.
    """

    def __init__(self, rng: Random, hero_kind: str) -> None:
        super().__init__()
        self.rng = rng
        self["hero"] = choose(rng, read_words()[hero_kind])

    def __missing__(self, slot: str) -> str:
        if slot in PRONOUNS:
            return vars(self["hero"])[slot]
        words = read_words()[slot.rstrip(DIGITS)]
        taken = self.values()
        word = choose(self.rng, words)
        if word in taken:
            word = choose(self.rng, [word for word in words if word not in taken])
        self[slot] = word
        return word

    def use_pronoun(self, repeated: re.Match[str]) -> str:
        """Turn "Ben ran. Ben fell." into "Ben ran. He fell."."""
        name, sentence = repeated.groups()
        pronoun = next((getattr(word, "He", name) for word in self.values() if word == name), name)
        return f"{name}{sentence}{pronoun}"


def tell_beat(beat: Beat, rng: Random) -> str:
    """Choose the sentences of a beat, slots still open."""
    if "&" in beat.marks:
        return " ".join(choose(rng, line) for line in rng.sample(beat.lines, 2))
    return choose(rng, choose(rng, beat.lines))


def tell_plot(plot: Plot, rng: Random) -> str:
    """Write one story of a plot: ASCII, paragraphs divided by newlines, no newline at the end."""
    parts: list[str] = []
    for beat in plot.beats:
        if ">" in beat.marks:
            parts.append("\n")
        if "?" not in beat.marks or rng.random() < 0.5:
            parts.append(tell_beat(beat, rng))
    text = " ".join(parts).replace(" \n ", "\n")
    cast = Cast(rng, plot.hero_kind)
    while "{" in text:  # a word may itself hold slots, such as "bumped {his} knee"
        text = text.format_map(cast)
    return REPEATED_NAME.sub(cast.use_pronoun, text)


def iterate_stories(seed: int) -> Iterator[str]:
    """Write stories without end; equal seeds give equal stories.

    Args:
        seed: At least 0. Train and validate with different seeds: they share no story in practice.

    Raises:
        ValueError: The seed is negative (`Random` takes -1 and 1 for the same seed).
    """
    if seed < 0:
        raise ValueError(f"seed={seed} must not be negative")
    rng = Random(seed)
    return (tell_plot(choose(rng, read_plots()), rng) for _ in count())


def write_stories(
    path: str | os.PathLike[str],
    num_bytes: int,
    seed: int,
    on_progress: Callable[[str, str, int, int], None] | None = None,
) -> int:
    """Write whole stories to a file, each followed by a line `<|endoftext|>`.

    The file appears under its name only when it is complete. A larger file of the same seed begins
    with the same stories.

    Args:
        path: File to write, and folders above it as needed; replaced if it exists.
        num_bytes: Stop after the story that reaches this size, in bytes.
        seed: See iterate_stories.
        on_progress: Called at the start and about every megabyte with the stage ("writing
            stories"), the unit ("bytes"), the bytes written and num_bytes.

    Returns:
        The size of the file in bytes, less than one story above num_bytes.

    Raises:
        ValueError: num_bytes is not positive, the seed is negative, or the path names a folder or
            a device.
        OSError: The file cannot be written.
    """
    if num_bytes <= 0:
        raise ValueError(f"num_bytes={num_bytes} must be positive")
    path, stories = Path(path), iterate_stories(seed)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not an ordinary file and will not be replaced")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    bytes_written = 0
    if on_progress is not None:
        on_progress("writing stories", "bytes", 0, num_bytes)
    try:
        with temporary.open("wb") as file:
            while bytes_written < num_bytes:
                for story in islice(stories, STORIES_PER_WRITE):
                    bytes_written += file.write(f"{story}\n{END_OF_TEXT}\n".encode("ascii"))
                    if bytes_written >= num_bytes:
                        break
                if on_progress is not None:
                    done = min(bytes_written, num_bytes)
                    on_progress("writing stories", "bytes", done, num_bytes)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return bytes_written
