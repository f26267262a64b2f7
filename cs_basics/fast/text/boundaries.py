r"""Boundaries: places where a text can be cut without changing a single token.

Finding pre-tokens costs a regular expression that looks at every character, and it has to begin at
the start. Both are avoided by cutting first: segments between spaces repeat, so that the pattern
runs once for each different segment; and parts of a file are read by several processes.

A boundary is where white space follows a visible character. The pre-token pattern
(cs_basics.pretokenize) has alternatives of visible characters, with or without one space before
them, and alternatives of white space alone: none goes on from a visible character to white space,
and none looks back. So searching the two sides of a boundary separately finds the same pre-tokens.
The same holds where letters end, and where digits end. (In the middle of white space it does not
hold: `\s+(?!\S)` keeps a run together and leaves its last character to what follows.)

Such a place inside a special token would cut the token, so it is not a boundary. At other places
the special tokens on either side stay the same, too: a search from the left meets the same
occurrences.
"""

import mmap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import regex

BOUNDARY = regex.compile(r"(?<=\p{L})(?=\P{L})|(?<=\p{N})(?=\P{N})|(?<=\S)(?=\s)")
"""No alternative of the pre-token pattern matches across this place or looks beyond it."""

_WINDOW_BYTES = 1 << 12
_LONGEST_CHARACTER = 4  # bytes of UTF-8

Bytes = bytes | mmap.mmap


class Span(NamedTuple):
    """A part of a file: bytes from `start` up to, not including, `end`."""

    start: int
    end: int


def is_open(text: str) -> bool:
    """Tell whether a text is empty or ends in white space, so that its end is not a boundary.

    `str.isspace` accepts all white space of the pattern, and some control characters.
    """
    return not text or text[-1].isspace()


def next_boundary(data: Bytes, at: int, special_tokens: Sequence[bytes]) -> int:
    """Find a boundary at or after a position of a file; the end if there is none.

    Only a window is read and decoded, so that the file can be larger than memory. Invalid bytes are
    no obstacle: decoding is in step again after at most three bytes, since no character has more
    than four.

    Args:
        data: The whole file.
        at: The position at which the search begins.
        special_tokens: Tokens as bytes; none is split.
    """
    position = max(at, 1)
    while position < len(data):
        start = _character_start(data, position - 1)
        end = min(start + _WINDOW_BYTES, len(data))
        # The last character may be half in the window: it must not be seen as something else.
        settled = end if end == len(data) else end - _LONGEST_CHARACTER
        text = data[start:end].decode("utf-8", "surrogateescape")
        place, known = start, 0
        for match in BOUNDARY.finditer(text):
            place += len(text[known : match.start()].encode("utf-8", "surrogateescape"))
            known = match.start()
            if place > settled:
                break
            if place >= at and not _splits_special(data, place, special_tokens):
                return place
        position = settled
    return len(data)


def spans(
    data: Bytes,
    whole: Span,
    span_bytes: int,
    special_tokens: Sequence[bytes],
    first_bytes: int | None = None,
) -> Iterator[Span]:
    """Cut a part of a file into spans of about equal size, at boundaries.

    Args:
        data: The whole file.
        whole: The part to cut.
        span_bytes: About the size of a span.
        special_tokens: Tokens as bytes; none is split.
        first_bytes: Size of the first span, if smaller; sizes then double up to span_bytes.
    """
    size = min(first_bytes or span_bytes, span_bytes)
    start = whole.start
    while start < whole.end:
        end = min(next_boundary(data, start + size, special_tokens), whole.end)
        yield Span(start, end)
        start = end
        size = min(2 * size, span_bytes)


def _character_start(data: Bytes, position: int) -> int:
    """Return the first position, at most three bytes before, from which decoding is in step."""
    for start in range(position, max(position - _LONGEST_CHARACTER, -1), -1):
        if data[start] & 0xC0 != 0x80:  # not a byte inside a character
            return start
    return position


def _splits_special(data: Bytes, place: int, special_tokens: Sequence[bytes]) -> bool:
    """Tell whether an occurrence of a special token lies across a place."""
    return any(
        token in data[max(place - len(token) + 1, 0) : place + len(token) - 1]
        for token in special_tokens
        if len(token) > 1
    )
