"""The plots of the stories: what happens, and the many ways to say it; read from plots.txt."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cs_basics.stories.sections import Line, read_sections
from cs_basics.stories.words import check_slots, read_words

PATH = Path(__file__).with_name("plots.txt")
CHOICE = re.compile(r"\[([^\[\]]*)\]")
MARKS = re.compile(r"([>?&]*) ?(.*)")


@dataclass(frozen=True, slots=True)
class Beat:
    """One step of a plot: its marks, and the spelled-out sentences of each way to tell it."""

    marks: str
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """A kind of hero and the beats that happen to them, opening included."""

    name: str
    hero_kind: str
    beats: tuple[Beat, ...]


@cache
def read_plots(path: Path = PATH) -> tuple[Plot, ...]:
    """Read every plot, each with the opening of its kind of hero.

    Raises:
        ValueError: The file breaks the format that its first lines describe; the message names the
            line.
    """
    openings: dict[str, tuple[Beat, ...]] = {}
    plots: list[Plot] = []
    for title, blocks in read_sections(path):
        kind, name, *more = *title.text.split(" / "), ""
        if not name or any(more) or not blocks or kind not in read_words():
            raise title.error('a plot has a title "== kind of word / name of the plot" and beats')
        beats = tuple(_read_beat(block, kind) for block in blocks)
        if name == "opening":
            openings[kind] = beats
        elif kind in openings:
            plots.append(Plot(name, kind, openings[kind] + beats))
        else:
            raise title.error(f'the section "== {kind} / opening" must come first')
    return tuple(plots)


def _read_beat(block: list[Line], hero_kind: str) -> Beat:
    """Read one beat: marks, then one line for each way to tell it."""
    match = MARKS.match(block[0].text)
    assert match is not None  # the pattern matches the empty string too
    marks, first = match.groups()
    lines: list[tuple[str, ...]] = []
    for line, text in zip(block, (first, *(line.text for line in block[1:])), strict=True):
        check_slots(line, read_words(), hero_kind)
        lines.append(spell(text))
        if not text or text[0] in ">?&":
            raise line.error("the marks > ? & stand before the first line of a beat")
        if re.search(r"[\[\]|]", lines[-1][0]):
            raise line.error("a choice is written [one|another], and a bracket or bar is left over")
    if "&" in marks and len(lines) < 2:
        raise block[0].error("& tells two lines of a beat, but this one has one line")
    return Beat(marks, tuple(lines))


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
