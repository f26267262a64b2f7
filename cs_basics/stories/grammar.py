"""The embedded corpus: a grammar that writes simple children's stories, any amount, from a seed.

It lets anyone train and test a small language model without a download. The stories are in the
manner of TinyStories (Eldan and Li 2023, https://arxiv.org/abs/2305.07759): few words, one problem,
one resolution. This file draws and fills sentences; story_plots.py holds them and explains their
notation; story_words.py holds the words. Tested by tests/project/test_stories.py.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import TypeVar

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.config import END_OF_TEXT
from cs_basics.run.progress import OnProgress, Progress
from cs_basics.stories.plots import OPENINGS, PLOTS, SCENES
from cs_basics.stories.words import HE, KINDS

CHOICE = re.compile(r"\[([^\[\]]*)\]")
MARKED_LINE = re.compile(r"([#?&]*) ?(.*)")
# A sentence about one person alone, and the next one about the same person.
REPEATED_NAME = re.compile(
    r'(?<![a-z] )([A-Z][a-z]+(?:\.? [A-Z][a-z]+)?)( [a-z][^A-Z".!?]*\. )\1(?= [a-z])'
)
STORIES_PER_WRITE = 1000

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
        hero = choose(rng, KINDS[hero_kind])
        self["hero"] = hero
        for pronoun in HE:
            self[pronoun] = vars(hero)[pronoun]

    def __missing__(self, slot: str) -> str:
        words = KINDS[slot.rstrip("0123456789")]
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


@dataclass(frozen=True, slots=True)
class Beat:
    """One step of a plot.

    Attributes:
        lines: The ways to tell it; each is the tuple of sentences that the line spells.
        is_optional: Whether only half of the stories tell it.
        starts_paragraph: Whether a new paragraph starts before it.
        num_told: How many of the lines are told.
    """

    lines: tuple[tuple[str, ...], ...]
    is_optional: bool
    starts_paragraph: bool
    num_told: int

    def tell(self, rng: Random) -> str:
        """Choose the sentences of this beat, slots still open."""
        if self.num_told == 1:
            return choose(rng, choose(rng, self.lines))
        return " ".join(choose(rng, line) for line in rng.sample(self.lines, self.num_told))


@dataclass(frozen=True, slots=True)
class Plot:
    """A kind of hero and the beats that happen to them, opening included."""

    hero_kind: str
    beats: tuple[Beat, ...]

    def tell(self, rng: Random) -> str:
        """Write one story of this plot."""
        parts: list[str] = []
        for beat in self.beats:
            if beat.starts_paragraph:
                parts.append("\n")
            if not beat.is_optional or rng.random() < 0.5:
                parts.append(beat.tell(rng))
        text = " ".join(parts).replace(" \n ", "\n")
        cast = Cast(rng, self.hero_kind)
        while "{" in text:  # a word may itself hold slots, such as "bumped {his} knee"
            text = text.format_map(cast)
        return REPEATED_NAME.sub(cast.use_pronoun, text)


def spell(pattern: str) -> tuple[str, ...]:
    """List every sentence that a pattern with choices stands for.

    >>> spell("a [big|small] dog")
    ('a big dog', 'a small dog')
    """
    match = CHOICE.search(pattern)
    if match is None:
        return (pattern,)
    before, after = pattern[: match.start()], pattern[match.end() :]
    return tuple(
        sentence for option in match[1].split("|") for sentence in spell(before + option + after)
    )


def read_beats(script: str) -> tuple[Beat, ...]:
    """Read the beats of a script in the notation of story_plots.py.

    Raises:
        KeyError: The script names a scene that does not exist.
    """
    return tuple(read_beat(block) for block in script.strip().split("\n\n"))


def read_beat(block: str) -> Beat:
    """Read one beat: marks, then one line for each way to tell it."""
    match = MARKED_LINE.match(block)
    assert match is not None  # the pattern matches the empty string too
    marks, first_line = match.groups()
    lines = [first_line, *block.splitlines()[1:]]
    told = [text for line in lines for text in expand_scene(line)]
    return Beat(
        lines=tuple(spell(line) for line in told),
        is_optional="?" in marks,
        starts_paragraph="#" in marks,
        num_told=2 if "&" in marks else 1,
    )


def expand_scene(line: str) -> list[str]:
    """Replace a line `@name` with the lines of that scene."""
    return SCENES[line[1:]].strip().splitlines() if line.startswith("@") else [line]


@cache
def read_plots() -> tuple[Plot, ...]:
    """Read every plot, each with the opening of its kind of hero."""
    return tuple(
        Plot(hero_kind, read_beats(OPENINGS[hero_kind]) + read_beats(script))
        for hero_kind, scripts in PLOTS.items()
        for script in scripts.values()
    )


def write_story(rng: Random) -> str:
    """Write one story, ASCII, with paragraphs divided by single newlines and no newline at the end.

    Args:
        rng: Source of every draw; advanced by this call.
    """
    return choose(rng, read_plots()).tell(rng)


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
    return (write_story(rng) for _ in count())


def write_stories(
    path: str | os.PathLike[str],
    num_bytes: int,
    seed: int,
    on_progress: OnProgress | None = None,
) -> int:
    """Write whole stories to a file, each followed by a line `<|endoftext|>`.

    The file appears under its name only when it is complete. More bytes of the same seed start with
    the same stories.

    Args:
        path: File to write, and folders above it as needed; replaced if it exists.
        num_bytes: Stop after the story that reaches this size, in bytes.
        seed: See iterate_stories.
        on_progress: Told about every megabyte how many bytes are written.

    Returns:
        The size of the file in bytes, less than one story above num_bytes.

    Raises:
        ValueError: num_bytes is not positive or the seed is negative.
        OSError: The file cannot be written.
    """
    if num_bytes <= 0:
        raise ValueError(f"num_bytes={num_bytes} must be positive")
    stories = iterate_stories(seed)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    bytes_written = 0
    start = time.monotonic()
    with atomic_writer(path) as file:
        while bytes_written < num_bytes:
            for story in islice(stories, STORIES_PER_WRITE):
                bytes_written += file.write(f"{story}\n{END_OF_TEXT}\n".encode("ascii"))
                if bytes_written >= num_bytes:
                    break
            if on_progress is not None:
                done, elapsed_s = min(bytes_written, num_bytes), time.monotonic() - start
                on_progress(Progress("writing stories", "bytes", done, num_bytes, elapsed_s))
    return bytes_written
