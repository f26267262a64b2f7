"""Checks of tokens and batches."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cs_basics.study.doctor.finding import Finding
from cs_basics.study.doctor.subject import Subject, line_of
from cs_basics.study.doctor.watch import Watch

Tokens = np.ndarray[Any, Any]
KEY = 12
"""Tokens by which a window is looked up in the text."""
SHOWN = 400
"""Tokens that are decoded."""


def vocabulary(s: Subject, _: Watch) -> Iterator[Finding]:
    """Look at the ids, and at what they decode to."""
    tokens = s.options.get("tokens")
    if tokens is None or len(tokens) < 64:
        return
    tokens = np.asarray(tokens[:1_000_000])
    vocab, seen = s.options["vocab"], None
    halves = [len(np.unique(tokens[i:20_000:2])) for i in (0, 1)]
    if tokens.min() < 0 or tokens.max() >= vocab:
        seen = f"ids from {tokens.min()} to {tokens.max()}, of a model with {vocab}"
    elif max(halves) > 8 and min(halves) * 4 < max(halves):
        seen = f"even and odd places hold {halves[0]} and {halves[1]} different ids"
    if seen:
        yield Finding(
            "token-dtype",
            seen,
            f"ids from 0 to {vocab - 1}, of the same kind at every place",
            "np.memmap(path, dtype=...) with the dtype that the file was written with",
            line_of(s.options.get("batches")),
        )
    decode, text = s.options.get("decode"), s.options.get("text")
    if decode is None or not text:
        return
    try:
        found = str(decode(tokens[:SHOWN].tolist()))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    size = min(len(found), len(text), 200)
    alike = _alike(found[: size + 40], text[:size])
    if alike < 0.7:
        yield Finding(
            "tokenizer",
            f"the tokens decode to {found[:40]!r}",
            f"the text that they were made of, {text[:40]!r}",
            "print(decode(tokens[:50])): the tokenizer of the run has to be that of its tokens",
            line_of(decode),
        )


def _alike(found: str, text: str) -> float:
    """Return the share of the text's pieces of four letters that are found."""
    found, text = (" ".join(t.lower().split()) for t in (found, text))
    pieces = [text[i : i + 4] for i in range(max(1, len(text) - 3))]
    return sum(piece in found for piece in pieces) / len(pieces)


class Places:
    """Where a window stands in the text."""

    def __init__(self, tokens: Tokens, key: int) -> None:
        self.tokens, self.key = tokens.astype(np.int64), key
        hashes = self._hashes(self.tokens)
        self.order = np.argsort(hashes, kind="stable")
        self.sorted = hashes[self.order]
        self.is_varied = len(np.unique(hashes)) > 0.3 * len(hashes)
        """Whether most windows stand in one place only."""

    def _hashes(self, tokens: Tokens) -> Tokens:
        size = len(tokens) - self.key + 1
        total = np.zeros(size, np.uint64)
        for i in range(self.key):
            total = total * np.uint64(1_000_003) + tokens[i : i + size].astype(np.uint64)
        return total

    def find(self, window: Tokens) -> int | None:
        """Return the first place of a window, 0 if it is too short to tell; None if nowhere."""
        if len(window) < self.key:
            return 0
        key = self._hashes(window[: self.key])[0]
        first, last = (
            np.searchsorted(self.sorted, key, "left"),
            np.searchsorted(self.sorted, key, "right"),
        )
        for at in self.order[first : min(last, first + 2000)]:
            if np.array_equal(self.tokens[at : at + len(window)], window):
                return int(at)
        return None if last - first <= 2000 else int(self.order[first])


def rows(s: Subject, watch: Watch) -> Iterator[Finding]:
    """See that rows are windows of the text, unequal, and spread over it."""
    if not watch.rows:
        return
    inputs = [row for batch, _ in watch.rows for row in batch]
    targets = [row for _, batch in watch.rows for row in batch]
    time, tokens = len(inputs[0]), s.options.get("tokens")
    is_varied = has_many = len({row.tobytes() for row in inputs}) > 8
    place = line_of(s.options.get("batches"))
    if tokens is not None and time >= 4 and len(tokens) > time:
        places = Places(np.asarray(tokens[:3_000_000]), min(KEY, time))
        is_varied, is_whole = places.is_varied, len(tokens) <= 3_000_000
        found = [
            places.find(_unpadded(row, target)) for row, target in zip(inputs, targets, strict=True)
        ]
        lost = [i for i, at in enumerate(found) if at is None]
        if lost and is_whole:
            yield Finding(
                "batches-wrong",
                f"{len(lost)} of {len(found)} rows stand nowhere in the text, such as "
                f"{inputs[lost[0]][:8].tolist()}",
                "each row is a window of the text",
                "print(decode(inputs[0])): does it read like the text?",
                place,
            )
        elif is_varied and is_whole:
            yield from _coverage([at for at in found if at is not None], time, len(tokens), place)
            yield from _last_targets(s, inputs, targets, places)
    equal = [
        batch
        for batch, _ in watch.rows
        if len(batch) > 1 and len(np.unique(batch, axis=0)) <= max(1, len(batch) // 2)
    ]
    if has_many and len(equal) > len(watch.rows) / 2:
        yield Finding(
            "batches-wrong",
            f"a batch of {len(equal[0])} rows has {len(np.unique(equal[0], axis=0))} different",
            "different rows: equal ones teach nothing more",
            "print(inputs[:, :6])",
            place,
        )
    distinct, total = len(set(watch.hashes)), len(watch.hashes)
    epoch = (
        len(tokens) / max(1, inputs[0].size * len(watch.rows[0][0])) if tokens is not None else 8
    )
    if is_varied and total > 4 and distinct < 0.5 * min(total, epoch):
        yield _repeats(f"{total} batches of which {distinct} differ", place)


def _unpadded(row: Tokens, target: Tokens) -> Tokens:
    """Return a row without the padding at its end."""
    run = np.flatnonzero(row[::-1] != row[-1])
    same = len(row) if not len(run) else run[0]
    size = len(row) - same if same > 2 else len(row)
    masked = np.flatnonzero(target < 0)
    if len(masked) and masked[0] < size:
        size = masked[0]
    return row[: max(size, 1)] if size >= 4 or size == len(row) else row[:4]


def _coverage(found: list[int], time: int, size: int, place: str | None) -> Iterator[Finding]:
    """Compare the share of the text that was seen with what chance would have shown."""
    if not found:
        return
    covered = np.zeros(size + time + 1, np.int32)
    for at in found:
        covered[at] += 1
        covered[at + time] -= 1
    share = (np.cumsum(covered)[:size] > 0).mean()
    expected = 1 - np.exp(-len(found) * time / size)
    if len(found) > 16 and share < 0.5 * expected:
        yield _repeats(
            f"{len(found)} rows cover {share:.1%} of the text", place, f"about {expected:.1%}"
        )


def _repeats(seen: str, place: str | None, expected: str = "nearly all") -> Finding:
    return Finding(
        "batches-repeat",
        seen,
        f"{expected}: what is read again and again is learnt by heart",
        "print(inputs[0, :6]) of ten batches; draw their places anew for each",
        place,
    )


def _last_targets(s: Subject, inputs: Any, targets: Any, places: Places) -> Iterator[Finding]:  # noqa: ANN401
    """See that the last target, which no input shows, is the next token of the text, too."""
    windows = [
        (i, t) for i, t in zip(inputs, targets, strict=True) if np.array_equal(i[1:], t[:-1])
    ]
    wrong = [i for i, t in windows if t[-1] >= 0 and places.find(np.append(i, t[-1])) is None]
    if len(wrong) > len(windows) / 2 and len(windows) > 2:
        yield Finding(
            "targets-shifted",
            f"the last target of {len(wrong)} of {len(windows)} rows is not the next token",
            "inputs are tokens[i : i + time], targets tokens[i + 1 : i + 1 + time]",
            "print(inputs[0, -3:], targets[0, -3:])",
            line_of(s.options.get("batches")),
        )
