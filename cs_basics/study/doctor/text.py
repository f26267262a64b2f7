"""Checks of tokens and batches."""

import difflib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from cs_basics.run.token_file import entropies
from cs_basics.study.doctor.finding import Finding
from cs_basics.study.doctor.loss import padding
from cs_basics.study.doctor.subject import Subject, line_of
from cs_basics.study.doctor.watch import Watch

Tokens = np.ndarray[Any, Any]
MOST_TEXT = 3_000_000
"""Tokens of the text in which windows are looked up."""
SAMPLED = 100
"""Windows that are looked for in other places."""


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
        found = str(decode(tokens[:400].tolist()))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    size = min(len(found), len(text), 200)
    texts = (" ".join(t[:size].lower().split()) for t in (found, text))
    alike = difflib.SequenceMatcher(None, *texts, autojunk=False).ratio()
    if alike < 0.7:
        yield Finding(
            "tokenizer",
            f"the tokens decode to {found[:40]!r}",
            f"the text that they were made of, {text[:40]!r}",
            "print(decode(tokens[:50])): the tokenizer of the run has to be that of its tokens",
            line_of(decode),
        )


def unreadable(s: Subject, error: IndexError) -> Finding:
    """Say which ids the model has no row for."""
    is_swapped = (s.inputs % 256 == 0).float().mean() > 0.5
    return Finding(
        "token-dtype" if is_swapped else "tokenizer",
        f"the model cannot read ids from {s.inputs.min()} to {s.inputs.max()}: {error}",
        "a row of the embedding for each token of the tokenizer that made the ids",
        "print(len(tokenizer), model.embedding.weight.shape, tokens.min(), tokens.max())",
        line_of(s.options.get("batches")),
    )


class Places:
    """Where a window stands in the text."""

    def __init__(self, tokens: Any) -> None:  # noqa: ANN401
        self.is_whole = len(tokens) <= MOST_TEXT
        self.ids = np.asarray(tokens[:MOST_TEXT]).astype(np.int32)
        self.text = self.ids.tobytes()

    def share_repeated(self, size: int) -> float:
        """Return the share of the windows of a size that stand in another place, too."""
        starts = range(0, len(self.ids) - size, max(1, len(self.ids) // SAMPLED))
        found = [self.find(self.ids[at : at + size], at + 1) for at in starts]
        return sum(at is not None for at in found) / max(1, len(found))

    def find(self, window: Tokens, start: int = 0) -> int | None:
        """Return the first place of a window, from `start` on; None if it stands nowhere."""
        wanted = window.astype(np.int32).tobytes()
        at = self.text.find(wanted, 4 * start)
        while at % 4 and at > 0:  # between two ids
            at = self.text.find(wanted, at + 1)
        return at // 4 if at >= 0 else None


def unigram_entropy(s: Subject, watch: Watch) -> float:
    """Return the entropy of single tokens of the text, in nats."""
    ids = s.options.get("tokens")
    if ids is None:
        ids = np.concatenate([batch.ravel() for batch, _ in watch.rows] or [s.inputs.cpu().numpy()])
    return entropies(ids)[0]


def rows(s: Subject, watch: Watch) -> Iterator[Finding]:
    """See that rows are windows of the text, unequal, and spread over it."""
    tokens, place = s.options.get("tokens"), line_of(s.options.get("batches"))
    inputs = [row for batch, _ in watch.rows for row in batch]
    targets = [row for _, batch in watch.rows for row in batch]
    num_different = len({_unpadded(*row).tobytes() for row in zip(inputs, targets, strict=True)})
    is_varied = has_many = num_different > 8
    epoch = 8.0
    if tokens is not None and inputs and 4 <= len(inputs[0]) < len(tokens):
        places, time = Places(tokens), len(inputs[0])
        is_varied, epoch = places.share_repeated(time) < 0.5, len(tokens) / watch.rows[0][0].size
        found = [places.find(_unpadded(*row)) for row in zip(inputs, targets, strict=True)]
        lost = [row for row, at in zip(inputs, found, strict=True) if at is None]
        if lost and places.is_whole:
            yield Finding(
                "batches-wrong",
                f"{len(lost)} of {len(found)} rows stand nowhere in the text, such as "
                f"{lost[0][:8].tolist()}",
                "each row is a window of the text",
                "print(decode(inputs[0])): does it read like the text?",
                place,
            )
        elif is_varied and places.is_whole:
            covered = np.zeros(len(tokens), bool)
            for at in found:
                covered[at : (at or 0) + time] = True
            expected = 1 - np.exp(-len(found) * time / len(tokens))
            if len(found) > 16 and covered.mean() < 0.5 * expected:
                seen = f"{len(found)} rows cover {covered.mean():.1%} of the text"
                yield _repeats(seen, place, f"about {expected:.1%}")
    equal = [i for i, _ in watch.rows if len(i) > 1 and 2 * len(np.unique(i, axis=0)) <= len(i)]
    if has_many and len(equal) > len(watch.rows) / 2:
        yield Finding(
            "batches-wrong",
            f"a batch of {len(equal[0])} rows has {len(np.unique(equal[0], axis=0))} different",
            "different rows: equal ones teach nothing more",
            "print(inputs[:, :6])",
            place,
        )
    distinct, total = len(set(watch.hashes)), len(watch.hashes)
    if is_varied and total > 4 and distinct < 0.5 * min(total, epoch):
        yield _repeats(f"{total} batches of which {distinct} differ", place)
    elif is_varied and len(inputs) > 30 * num_different:
        yield _repeats(f"{len(inputs)} rows of which {num_different} differ", place)


def _unpadded(row: Tokens, target: Tokens) -> Tokens:
    """Return the beginning of a row, as long as it is neither padded nor masked."""
    is_padding = padding(torch.as_tensor(row)[None])[0].numpy()
    return row[: max(4, int((~is_padding & (target >= 0)).sum()))]


def _repeats(seen: str, place: str | None, expected: str = "nearly all") -> Finding:
    return Finding(
        "batches-repeat",
        seen,
        f"{expected}: what is read again and again is learnt by heart",
        "print(inputs[0, :6]) of ten batches; draw their places anew for each",
        place,
    )
