"""Where byte-pair encoding goes wrong: at words, at their pairs, at the choice, or at a merge."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from oracles import text as oracles
from probes.text_lines import traced_training

from places.graph import Line

Merge = tuple[bytes, bytes]
Words = dict[bytes, int]

# Small texts, the smallest first; each has something that is easily got wrong.
TEXTS: tuple[tuple[bytes, int, tuple[str, ...]], ...] = (
    (b"ab", 1, ()),
    (b"ab ab cb", 2, ()),
    (b"ab cd", 3, ()),
    (b"ab abc abcd bcd", 5, ()),
    (b"aaaa aaa b", 4, ()),
    (b"ba ab ca ac ba", 6, ()),
    (b"it's  12 x1!", 6, ()),
    (b"ab<|e|>ab<|e|>cd ab", 4, ("<|e|>",)),
    ("caf\u00e9 caf\u00e9 \u4f60".encode(), 6, ()),
)
MOST_LINES = 3


class Change(NamedTuple):
    """A variable that a line has changed; the name is "" for what a function returned."""

    file: str
    number: int
    function: str
    text: str
    name: str
    value: Any


@dataclass(frozen=True)
class State:
    """What is right before a merge is chosen."""

    pieces: list[tuple[list[bytes], int]]
    pairs: dict[Merge, int]


@dataclass(frozen=True)
class Stage:
    """The step at which training goes wrong."""

    case: tuple[bytes, int, tuple[str, ...]]
    merge: int
    got: list[Merge]
    expected: list[Merge]
    right: str
    """What is right still; "" if nothing was recognised."""
    wrong: str
    changes: list[Change]
    """What to look at, the most suspicious first."""
    made_by: Line | None

    def lines(self) -> list[Line]:
        """The lines that are named."""
        found: dict[tuple[str, int], Line] = {}
        for c in self.changes:
            found.setdefault((c.file, c.number), Line(0, c.file, c.number, c.function, c.text))
        return list(found.values())[:MOST_LINES]

    accused = lines

    def paragraph(self) -> str:
        """Say it, with the text, for a pencil to follow."""
        text, count, specials = self.case
        size = 256 + len(specials) + count
        rows = [
            "Where to look:",
            f"  run_train_bpe on the text {text!r}, vocab_size={size},"
            f" special_tokens={list(specials)}",
            f"    merges    {self.got}",
            f"    expected  {self.expected}",
            f"  {self.right}{self.wrong}",
        ]
        rows += [f"    {line.file} line {line.number}: {line.text}" for line in self.lines()]
        return "\n".join(rows)


def find_in_training(run: Callable[..., Any]) -> Stage | None:
    """Trace training on the first small text on which it goes wrong."""
    for case in TEXTS:
        text, count, specials = case
        size = 256 + len(specials) + count
        asked = {"text": text, "vocab_size": size, "special_tokens": list(specials)}
        expected = oracles.train_bpe(text, size, specials)
        seen = run(traced_training, **asked)
        got = [tuple(merge) for merge in seen["merges"]]
        if got != expected:
            changes = [Change(*row) for row in seen["changes"]]
            return stage_of(case, got, expected, changes)
    return None


def stage_of(
    case: tuple[bytes, int, tuple[str, ...]],
    got: list[Merge],
    expected: list[Merge],
    changes: list[Change],
) -> Stage | None:
    text, _, specials = case
    step = next(
        (n for n, (one, other) in enumerate(zip(got, expected, strict=False)) if one != other),
        min(len(got), len(expected)),
    )
    words = {
        word.encode("utf-8", "surrogateescape"): count
        for word, count in oracles.pretokens(text, specials).items()
    }
    state = state_before(words, expected[:step])
    own = [change for change in changes if not change.file.endswith("adapters.py")]
    last = next((c for c in reversed(own) if c.name == ""), None)
    made_by = Line(0, last.file, last.number, last.function, last.text) if last else None

    def stage(right: str, wrong: str, suspects: Sequence[Change]) -> Stage | None:
        if not suspects:
            return None
        return Stage(case, step, got, expected, right, wrong, list(suspects), made_by)

    counted = [place for place, c in enumerate(own) if words_in(c.value) == words]
    if not counted:
        guesses = [c for c in own if words_in(c.value) is not None or is_texts(c.value)]
        wanted = {shown(piece) for piece in oracles.split_at_specials(text.decode(), specials)}
        odd = [c for c in guesses if not (is_texts(c.value) and set(map(shown, c.value)) <= wanted)]
        return stage("", "The words that are counted are not the pre-tokens of the text:", odd)
    choices = where_chosen(own, got[: step + 1])
    begin = max(counted[0], choices[step - 1] if 0 < step <= len(choices) else 0)
    end = choices[step] if step < len(choices) else len(own) - 1
    window = own[begin + 1 : end]
    words_right = f"Its words are right, and {step} merges. "
    if any(pairs_in(c.value) == state.pairs for c in own[: end + 1]):
        after = [own[end], *window[::-1]]
        return stage(words_right, "The pairs are counted as they should; then look at:", after)
    what = "their pairs are counted wrongly" if step == 0 else "then the counts are not kept"
    counting = [c for c in window if pairs_in(c.value) is not None or token_list(c.value)]
    return stage(words_right, f"After that {what}:", distinct(counting) or distinct(window))


def distinct(changes: Sequence[Change]) -> list[Change]:
    """One change of each line, the most frequently executed line first."""
    often = Counter((c.file, c.number) for c in changes)
    first = {(c.file, c.number): c for c in reversed(changes)}
    return [first[place] for place, _ in often.most_common()]


def state_before(words: Words, merges: Sequence[Merge]) -> State:
    pieces = [([bytes([b]) for b in word], count) for word, count in words.items()]
    for merge in merges:
        pieces = [(oracles.merged(piece, merge), count) for piece, count in pieces]
    pairs: Counter[Merge] = Counter()
    for piece, count in pieces:
        for pair in oracles.pairs_of(piece):
            pairs[pair] += count
    return State(pieces, dict(pairs))


def where_chosen(changes: Sequence[Change], merges: Sequence[Merge]) -> list[int]:
    """Where each of these merges was chosen: the variable that held them one after another."""
    best: list[int] = []
    held: dict[tuple[str, str], list[tuple[int, Merge]]] = {}
    for place, change in enumerate(changes):
        pair = pair_in(change.value)
        if pair is not None:
            row = held.setdefault((change.function, change.name), [])
            if not row or row[-1][1] != pair:
                row.append((place, pair))
    for row in held.values():
        same = 0
        while same < min(len(row), len(merges)) and row[same][1] == merges[same]:
            same += 1
        if same > len(best):
            best = [place for place, _ in row[:same]]
    return best


# --- what a variable may hold ---


def as_bytes(token: object) -> bytes | None:
    if isinstance(token, bytes):
        return token
    if isinstance(token, bool) or (isinstance(token, int) and not 0 <= token < 256):
        return None
    if isinstance(token, int):
        return bytes([token])
    return token.encode("utf-8", "surrogateescape") if isinstance(token, str) else None


def joined(value: object) -> bytes | None:
    """The bytes of a word, however it is cut."""
    if isinstance(value, list):
        parts = [as_bytes(one) for one in value]
        return None if None in parts else b"".join(part for part in parts if part is not None)
    return as_bytes(value)


def items_of(value: object) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value["pairs"]


def words_in(value: object) -> Words | None:
    found: Words = {}
    for key, count in items_of(value):
        word = joined(key)
        if word is None or not isinstance(count, int):
            return None
        found[word] = found.get(word, 0) + count
    return found or None


def pair_in(value: object) -> Merge | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    left, right = map(as_bytes, value)
    return None if left is None or right is None else (left, right)


def pairs_in(value: object) -> dict[Merge, int] | None:
    found: dict[Merge, int] = {}
    for key, count in items_of(value):
        pair = pair_in(key)
        if pair is None or not isinstance(count, int):
            return None
        if count:
            found[pair] = count
    return found or None


def is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) for v in value)


def token_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, bytes) for v in value)


def shown(piece: object) -> str:
    return str(piece)
