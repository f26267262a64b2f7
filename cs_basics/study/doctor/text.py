"""Checks of tokens and batches."""

import difflib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cs_basics.run.token_file import entropies
from cs_basics.study.doctor.finding import Finding, Findings
from cs_basics.study.doctor.subject import Subject, padding
from cs_basics.study.doctor.watch import Watch

Tokens = np.ndarray[Any, Any]
MOST_TEXT = 3_000_000
"""Tokens of the text in which windows are looked up."""
SAMPLED = 100
"""Windows that are looked for in other places."""


def readable(s: Subject) -> Findings:
    """See that the model can read the ids; note its vocabulary, and in which mode it is random."""
    with s.quiet():
        try:
            s.vocab = s.logits(s.inputs).shape[-1]
        except IndexError as error:
            is_swapped = (s.inputs % 256 == 0).float().mean() > 0.5
            yield Finding(
                "token-dtype" if is_swapped else "tokenizer",
                f"the model cannot read ids from {s.inputs.min()} to {s.inputs.max()}: {error}",
                "a row of the embedding for each token of the tokenizer that made the ids",
                "print(tokens.min(), tokens.max()); was the model made for this tokenizer?",
                s.batches,
            )
            return
        for name, mode in (("has_dropout", True), ("is_random", False)):
            runs = list[Tensor]()
            for seed in (0, 1):
                s.bare.train(mode)
                torch.manual_seed(seed)
                runs.append(s.logits(s.inputs[:8]).nan_to_num())
            setattr(s, name, not torch.equal(*runs))


def vocabulary(s: Watch) -> Findings:
    """Look at the ids, and at what they decode to."""
    if s.tokens is None or len(s.tokens) < 64:
        return
    tokens, seen = np.asarray(s.tokens[:1_000_000]), None
    even, odd = (len(np.unique(tokens[i:20_000:2])) for i in (0, 1))
    if tokens.min() < 0 or tokens.max() >= s.vocab:
        seen = f"ids from {tokens.min()} to {tokens.max()}, for a model of {s.vocab} tokens"
    elif max(even, odd) > max(8, 4 * min(even, odd)):
        seen = f"{even} different ids at even places, {odd} at odd ones: is each id read as two?"
    if seen:
        yield Finding(
            "token-dtype",
            seen,
            f"ids from 0 to {s.vocab - 1}, about as many different ones at odd places as at even",
            "np.memmap(path, dtype=...) with the dtype that the file was written with",
            s.batches,
        )
    if s.decode is None or not s.text:
        return
    try:
        found = str(s.decode(tokens[:400].tolist()))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    size = min(len(found), len(s.text), 200)
    texts = (" ".join(t[:size].lower().split()) for t in (found, s.text))
    if difflib.SequenceMatcher(None, *texts, autojunk=False).ratio() < 0.7:
        yield Finding(
            "tokenizer",
            f"the tokens decode to {found[:40]!r}",
            f"the text that they were made of, {s.text[:40]!r}",
            "print(decode(tokens[:50])): did this tokenizer make the tokens?",
            s.decode,
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
        found = [self.find(self.ids[at : at + size], at + 1) is not None for at in starts]
        return sum(found) / max(1, len(found))

    def find(self, window: Tokens, start: int = 0) -> int | None:
        """Return the first place of a window, from `start` on; None if it stands nowhere."""
        wanted = window.astype(np.int32).tobytes()
        at = self.text.find(wanted, 4 * start)
        while at % 4 and at > 0:  # between two ids
            at = self.text.find(wanted, at + 1)
        return at // 4 if at >= 0 else None


def unigram_entropy(s: Watch) -> float:
    """Return the entropy of single tokens of the text, in nats."""
    some = s.tokens
    if some is None:
        some = np.concatenate([batch.ravel() for batch, _ in s.rows] or [s.inputs.cpu().numpy()])
    return entropies(some)[0]


def pair_entropy(s: Watch) -> float:
    """Return the entropy of a token after the one before, in nats; 0 for a text that repeats."""
    if s.tokens is None or Places(s.tokens).share_repeated(s.time) > 0.2:
        return 0.0
    return entropies(np.asarray(s.tokens[:MOST_TEXT]))[1]


def rows(s: Watch) -> Findings:  # noqa: C901
    """See that rows are windows of the text, unequal, and spread over it."""
    tokens, place = s.tokens, s.batches
    windows = [_unpadded(*row) for batch in s.rows for row in zip(*batch, strict=True)]
    num_different = len({window.tobytes() for window in windows})
    is_varied = has_many = num_different > 8
    epoch, time, seen, usual = 8.0, s.time, None, "nearly all"
    if tokens is not None and windows and 4 <= time < len(tokens):
        places = Places(tokens)
        is_varied, epoch = places.share_repeated(time) < 0.5, len(tokens) / s.rows[0][0].size
        # One or two ids of padding are not told from text.
        found = [places.find(window[2:-2] if len(window) > 8 else window) for window in windows]
        lost = [window for window, at in zip(windows, found, strict=True) if at is None]
        if lost and places.is_whole:
            yield Finding(
                "batches-wrong",
                f"{len(lost)} of {len(found)} rows of ids are nowhere in the training text; one "
                f"begins {lost[0][:8].tolist()}",
                "rows of consecutive tokens of the text",
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
                usual = f"about {expected:.1%}"
    equal = [i for i, _ in s.rows if 2 * len(np.unique(i, axis=0)) <= len(i)]
    if has_many and len(equal) > len(s.rows) / 2:
        yield Finding(
            "batches-wrong",
            f"{len(np.unique(equal[0], axis=0))} of {len(equal[0])} rows in a batch are different",
            "all rows different: equal ones teach nothing more",
            "print(inputs[:, :6])",
            place,
        )
    distinct, total = len(set(s.hashes)), len(s.hashes)
    if seen is None and is_varied:
        if total > 4 and distinct < 0.5 * min(total, epoch):
            seen = f"{total} batches, only {distinct} of them different"
        elif len(windows) > 30 * num_different:
            seen = f"{len(windows)} rows, only {num_different} of them different"
    if seen:
        yield Finding(
            "batches-repeat",
            seen,
            f"{usual}: what is read again and again is learnt by heart",
            "print(inputs[0, :6]) for ten batches; seed the generator once, not for each batch",
            place,
        )


def _unpadded(row: Tokens, target: Tokens) -> Tokens:
    """Return the part of a row that is neither padded, on the left or on the right, nor masked."""
    ids = torch.as_tensor(row)[None]
    is_kept, start = ~padding(ids)[0].numpy() & (target >= 0), int(padding(ids.flip(1)).sum())
    return row[start:][: max(4, int(is_kept[start:].sum()))]
