"""The words of the stories: what may fill each slot, and in which forms; read from words.txt."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

from cs_basics.stories.sections import Line, read_sections

PATH = Path(__file__).with_name("words.txt")
Kinds = Mapping[str, tuple["Word", ...]]
PRONOUNS = ("he", "him", "his", "He", "His", "himself")
SLOT = re.compile(r"\{([^{}]*)\}")
DIGITS = "0123456789"


class Word(str):
    """A word or phrase that carries its other forms as attributes.

    Args:
        text: The plain form, which the word itself equals as a string.
        **forms: Any other forms, by name. Every word has `a`, the form with an indefinite article,
            and `A` and `cap`, the forms that start a sentence.
    """

    def __new__(cls, text: str, **_forms: str) -> "Word":
        """Make the string; the forms belong to `__init__`."""
        return super().__new__(cls, text)

    def __init__(self, text: str, **forms: str) -> None:
        self.a = with_article(text)
        self.A = capitalized(self.a)
        self.cap = capitalized(text)
        self.__dict__.update(forms)


def with_article(phrase: str) -> str:
    """Put "a" or "an" before a phrase, by the sound it starts with."""
    sounds_like_vowel = phrase[0] in "aeiou" or phrase.startswith(("honest", "hour"))
    return f"an {phrase}" if sounds_like_vowel else f"a {phrase}"


def capitalized(phrase: str) -> str:
    """Make the first letter a capital and leave the rest."""
    return phrase[0].upper() + phrase[1:]


@cache
def read_words(path: Path = PATH) -> dict[str, tuple[Word, ...]]:
    """Read the words of each kind.

    Raises:
        ValueError: The file breaks the format that its first lines describe; the message names the
            line.
    """
    kinds: dict[str, tuple[Word, ...]] = {}
    all_lines: list[Line] = []
    for title, blocks in read_sections(path):
        kind, *forms = title.text.split(" / ")
        if kind in kinds:
            raise title.error(f"the kind {kind} has a section above already")
        lines = list(chain.from_iterable(blocks))
        kinds[kind] = tuple(word for line in lines for word in _words_of(line, forms, kinds))
        if not kinds[kind]:
            raise title.error(f"the kind {kind} has no words")
        all_lines += lines
    for line in all_lines:
        check_slots(line, kinds)
    return kinds


def _words_of(line: Line, forms: list[str], kinds: Kinds) -> Iterator[Word]:
    """Read the words of one line: their plain forms, and the forms that the title names."""
    plain, *values = line.text.split(" / ")
    if len(values) != len(forms):
        raise line.error(f"there are {len(values)} forms, but the title names {len(forms)}")
    row = dict(zip(forms, values, strict=True))
    adjectives = row.pop("adjectives", None)
    for word in _listed(plain, line, kinds):
        if adjectives is None:
            yield Word(word, **vars(word) | row)
            continue
        for adjective in _listed(adjectives, line, kinds):
            full = f"{adjective} {word}"
            a = with_article(full)
            yield Word(word, **vars(word) | row | {"full": full, "a": a, "A": capitalized(a)})


def _listed(text: str, line: Line, kinds: Kinds) -> Iterator[Word]:
    """Read words divided by commas; `@kind` stands for all words of a kind."""
    for entry in filter(None, map(str.strip, text.split(","))):
        if not entry.startswith("@"):
            yield Word(entry)
        elif entry[1:] in kinds:
            yield from kinds[entry[1:]]
        else:
            raise line.error(f"{entry} names no kind of word above this line")


def check_slots(line: Line, kinds: Kinds, hero_kind: str = "child") -> None:
    """Check that a word can fill each slot of a line.

    Raises:
        ValueError: A slot names no kind of word, a form that some words lack, or more words than
            its kind has; or a brace has no partner.
    """
    for slot in SLOT.findall(line.text):
        kind, _, form = ("hero", "", slot) if slot in PRONOUNS else slot.partition(".")
        base = kind.rstrip(DIGITS)
        words = kinds.get(hero_kind if kind == "hero" else base)
        if words is None:
            raise line.error(f"{{{slot}}} names no kind of word")
        if form and any(form not in vars(word) for word in words):
            raise line.error(f'{{{slot}}}: some words of this kind have no form "{form}"')
        if kind != base and int(kind.removeprefix(base)) > len(set(words)):
            raise line.error(f"{{{slot}}}: this kind has only {len(set(words))} different words")
    if re.search("[{}]", SLOT.sub("", line.text)):
        raise line.error("a brace has no partner")
