"""The smallest text with which encoding or training goes wrong, with the fewest tokens and merges.

No line is named in these two problems: what their lines hold on the way differs from one right
implementation to the next. A case of a few letters can be followed by hand instead.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from asked import question
from oracles import text as oracles
from probes.text import encode, train_bpe

from lab.places.sentences import on_paper

Run = Callable[..., Any]
Inputs = Mapping[str, Any]
One = TypeVar("One", str, bytes, list[oracles.Merge], list[str])

MOST_TRIES = 300
FIRST_ID = 256
"""Bytes have the ids below."""


def smallest_text(run: Run, inputs: Inputs) -> str:
    """Show the smallest call found that gives a wrong answer; "" if there is none."""
    tries = iter(range(MOST_TRIES))
    if set(inputs) == {"tokenizer", "texts"}:
        return smallest_encoding(run, inputs, tries)
    if inputs.keys() >= {"text", "vocab_size", "special_tokens"}:
        return smallest_training(run, inputs, tries)
    return ""


def smallest_encoding(run: Run, inputs: Inputs, tries: Iterator[int]) -> str:
    def answers(given: Inputs, text: str) -> tuple[list[int], list[int]] | None:
        got = answer(run, tries, encode, tokenizer=given, texts=[text])
        right = oracles.encode(text, given)
        return None if got is None or got["ids"][0] == right else (got["ids"][0], right)

    given = inputs["tokenizer"]
    text = next((text for text in inputs["texts"] if answers(given, text)), "")
    if not text:
        return ""
    text = shortest(text, lambda less: answers(given, less) is not None)

    merges: list[oracles.Merge] = given["merges"]
    specials: list[str] = given["special_tokens"] or []

    def fails(merges: list[oracles.Merge], specials: list[str]) -> bool:
        return answers(tokenizer_of(merges, specials), text) is not None

    if fails(merges, specials):
        specials = shortest(specials, lambda less: fails(merges, less))
        merges = shortest(merges, lambda less: fails(less, specials))
        given = tokenizer_of(merges, specials)
    both = answers(given, text)
    if both is None:
        return ""
    tokens = given["vocab"].get
    shown = (f"{ids}, which is {b'|'.join(tokens(i, b'?') for i in ids)!r}" for ids in both)
    return on_paper(question({"tokenizer": given, "texts": [text]}), *shown)


def tokenizer_of(merges: Sequence[oracles.Merge], specials: list[str]) -> Inputs:
    left = possible(merges)
    vocab = oracles.vocab_of(left, specials)
    return {"vocab": vocab, "merges": left, "special_tokens": specials}


def possible(merges: Sequence[oracles.Merge]) -> list[oracles.Merge]:
    """Those merges whose parts are bytes or made by an earlier one."""
    known, left = {bytes([byte]) for byte in range(FIRST_ID)}, []
    for pair in merges:
        if known.issuperset(pair):
            left.append(pair)
            known.add(pair[0] + pair[1])
    return left


def smallest_training(run: Run, inputs: Inputs, tries: Iterator[int]) -> str:
    specials = inputs["special_tokens"]

    def answers(text: bytes, size: int) -> tuple[list[Any], list[Any]] | None:
        asked: dict[str, Any] = {"text": text, "vocab_size": size, "special_tokens": specials}
        got = answer(run, tries, train_bpe, **asked)
        right = oracles.train_bpe(**asked)
        return None if got is None or got["merges"] == right else (got["merges"], right)

    text, size = inputs["text"], inputs["vocab_size"]
    both = answers(text, size)
    if both is None:
        return ""
    text = shortest(text, lambda less: answers(less, size) is not None)
    got, right = answers(text, size) or both
    # No more merges than it takes to see the first wrong one.
    alike = next((n for n, pair in enumerate(zip(got, right, strict=False)) if len({*pair}) > 1), 0)
    fewer = FIRST_ID + len(specials) + alike + 1
    if fewer < size and answers(text, fewer):
        size = fewer
    both = answers(text, size)
    if both is None:
        return ""
    asked = {"text": text, "vocab_size": size, "special_tokens": specials}
    return on_paper(question(asked), *map(repr, both))


def answer(run: Run, tries: Iterator[int], probe: Callable[..., Any], **asked: Any) -> Any:
    """What comes back; None if that is an exception, which is another failure, or too late."""
    if next(tries, None) is None:
        return None
    try:
        return run(probe, **asked)
    except Exception:
        return None


def shortest(whole: One, still_fails: Callable[[One], bool]) -> One:
    """Leave out halves, quarters, ... down to single pieces, for as long as it still fails."""
    size = max(len(whole) // 2, min(len(whole), 1))
    while size:
        start = 0
        while start < len(whole):
            less = whole[:start] + whole[start + size :]
            if still_fails(less):
                whole = less
            else:
                start += size
        size //= 2
    return whole
