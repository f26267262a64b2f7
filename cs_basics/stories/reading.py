"""The grammar backwards: is a text one of its stories, with the same hero to the end?"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from cs_basics.stories.plots import Plot, read_plots
from cs_basics.stories.words import DIGITS, PRONOUNS, SLOT, read_words

Pattern = tuple[str, ...]
"""Literal text and the names of slots in turns, beginning and ending with text."""
Held = tuple[int, ...]
"""The words that a slot may hold, as indices into the words of its kind."""
Cast = Mapping[str, Held]
"""The slots met so far, and the words that each of them may still hold."""
NAMING = ("", "a", "A", "cap", "full", "s", "past", "ing")
"""The forms of a word that name it; the others say what goes with it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a text can be read as a story of one plot."""

    plot: str
    hero: str
    end: int
    """Characters that could be read."""
    rest: str
    """The text from there on."""

    @property
    def is_whole(self) -> bool:
        """Whether all of the text is a story of the grammar."""
        return self.end > 0 and not self.rest


def read_story(text: str, *, keeps_all: bool = True) -> Reading:
    """Read a story as far as any plot goes.

    Every sentence must come from the opening or the plot, in any order and number. Each slot must
    hold one word, which no other slot holds, from its first mention to the end: the reading ends
    where the hero's name changes, where a friend has the hero's name, or where a ball becomes a
    doll.

    Args:
        text: A story, without the mark of its end.
        keeps_all: Whether every slot must keep its word; False: only the hero and the plot's object
            must.
    """
    text = text.strip()
    readings = (_read_plot(plot, text, keeps_all) for plot in read_plots())
    return max(readings, key=lambda reading: reading.end)


def _read_plot(plot: Plot, text: str, keeps_all: bool) -> Reading:
    """Read a story as far as one plot goes."""
    kept = None if keeps_all else ("hero", plot.object)
    heroes = read_words()[plot.hero_kind]
    waiting: list[tuple[int, Cast]] = [(0, {"hero": tuple(range(len(heroes)))})]
    met: set[tuple[int, frozenset[tuple[str, Held]]]] = set()
    farthest = waiting[0]
    while waiting and farthest[0] < len(text):
        place, cast = waiting.pop()
        farthest = max(farthest, (place, cast), key=lambda reached: reached[0])
        for parts in _patterns(plot):
            for end, known in _match(parts, text, place, cast, plot.hero_kind, kept):
                after = min(end + 1, len(text))
                key = (after, frozenset(known.items()))
                if text[end:after] in ("", " ", "\n") and key not in met:
                    met.add(key)
                    waiting.append((after, known))
    end, cast = farthest
    return Reading(plot.name, heroes[cast["hero"][0]], end, text[end:])


@cache
def _patterns(plot: Plot) -> tuple[Pattern, ...]:
    """Return the sentences that the beats of a plot may say."""
    told = (sentence for beat in plot.beats for line in beat.lines for sentence in line)
    return tuple(dict.fromkeys(tuple(SLOT.split(sentence)) for sentence in told))


def _match(
    parts: Pattern,
    text: str,
    place: int,
    cast: Cast,
    hero_kind: str,
    kept: Collection[str] | None,
) -> Iterator[tuple[int, Cast]]:
    """Yield each place where a sentence that begins at a place can end, and the cast from there.

    Slots that are not in `kept` may hold another word each time; None: all slots are kept.
    """
    literal, *slot_and_rest = parts
    if not text.startswith(literal, place):
        return
    place += len(literal)
    if not slot_and_rest:
        yield place, cast
        return
    slot, after, *rest = slot_and_rest
    name, _, form = ("hero", "", slot) if slot in PRONOUNS else slot.partition(".")
    kind = _kind(name, hero_kind)
    begins_sentence = place == 0 or text[place - 1] == "\n" or text[place - 2 : place] == ". "
    known = _spellings(kind, form, begins_sentence=begins_sentence)
    is_kept = kept is None or (name in kept and (name == "hero" or form in NAMING))
    for (start, *more), held in known.items():
        # Most words are not the one that stands there.
        if not text.startswith(start, place):
            continue
        if not is_kept:
            still = held
        elif name in cast:
            still = tuple(i for i in held if i in cast[name])
        else:
            taken = _taken(cast, hero_kind)
            still = tuple(i for i in held if read_words()[kind][i] not in taken)
        if still:
            *before, last = start, *more
            told = (*before, last + after, *rest)
            after_it = {**cast, name: still} if is_kept else cast
            yield from _match(told, text, place, after_it, hero_kind, kept)


def _kind(slot: str, hero_kind: str) -> str:
    return hero_kind if slot == "hero" else slot.rstrip(DIGITS)


def _taken(cast: Cast, hero_kind: str) -> set[str]:
    """Return the words of slots that can hold only one: no other slot of a story may hold them."""
    may_be = (
        {read_words()[_kind(slot, hero_kind)][i] for i in held} for slot, held in cast.items()
    )
    return {word for words in may_be if len(words) == 1 for word in words}


@cache
def _spellings(kind: str, form: str, *, begins_sentence: bool) -> dict[Pattern, Held]:
    """Return the spellings of a form and their words; a pronoun may start a sentence instead.

    A word may itself hold slots, such as "bumped {his} knee".
    """
    found: dict[str, list[int]] = {}
    for place, word in enumerate(read_words()[kind]):
        spellings = {vars(word)[form] if form else str(word)}
        if not form and begins_sentence and "He" in vars(word):
            spellings.add(vars(word)["He"])
        for spelling in spellings:
            found.setdefault(spelling, []).append(place)
    return {tuple(SLOT.split(spelling)): tuple(places) for spelling, places in found.items()}
