"""Checks of tokens and batches."""

import difflib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cs_basics.run.token_file import entropies
from cs_basics.study.doctor.loop import Loop
from cs_basics.study.doctor.report import Finding, Findings
from cs_basics.study.doctor.subject import Subject, padding

Tokens = np.ndarray[Any, Any]
MOST_TEXT = 3_000_000
"""Tokens of the text in which windows are looked up."""
SAMPLED = 100
"""Windows that are looked for in other places."""
LEAST_ALIKE = 0.7
"""Of a text and what its tokens decode to; 1 but for what an encoder normalises."""
MOST_PARITY = 4
"""Times as many different ids at even places as at odd ones; 1.1 in texts."""
MOST_REPEATED = 0.5
"""Share of windows that a text holds twice; above it, nothing is said of repetition."""
LEAST_SPREAD = 0.5
"""Share of the text that rows cover, of what random ones would; 0.9 and more in epochs."""


def readable(s: Subject) -> Findings:
    """See that the model can read the ids; note its vocabulary, and in which mode it is random."""
    with s.quiet():
        try:
            s.vocab = s.logits(s.inputs).shape[-1]
        except IndexError as error:
            is_swapped = (s.inputs % 256 == 0).float().mean() > 0.5
            seen = f"the model cannot read ids from {s.inputs.min()} to {s.inputs.max()}: {error}"
            yield Finding("token-dtype" if is_swapped else "tokenizer", seen, s.batches)
            return
        for name, mode in (("has_dropout", True), ("is_random", False)):
            runs = list[Tensor]()
            for seed in (0, 1):
                s.bare.train(mode)
                torch.manual_seed(seed)
                with s.quiet():  # What the model keeps from a call is not left to the next.
                    runs.append(s.logits(s.inputs[:8]).nan_to_num())
            setattr(s, name, not torch.equal(*runs))


def vocabulary(s: Loop) -> Findings:
    """Look at the ids, and at what they decode to."""
    if s.tokens is None or len(s.tokens) < 64:
        return
    tokens, seen = np.asarray(s.tokens[:1_000_000]), None
    even, odd = (len(np.unique(tokens[i:20_000:2])) for i in (0, 1))
    if tokens.min() < 0 or tokens.max() >= s.vocab:
        seen = f"ids from {tokens.min()} to {tokens.max()}, for a model of {s.vocab} tokens"
    elif max(even, odd) > max(8, MOST_PARITY * min(even, odd)):
        seen = f"{even} different ids at even places, {odd} at odd ones: is each id read as two?"
    if seen:
        yield Finding("token-dtype", seen, s.batches)
    if s.decode is None or not s.text:
        return
    try:
        found = str(s.decode(tokens[:400].tolist()))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    size = min(len(found), len(s.text), 200)
    texts = (" ".join(t[:size].lower().split()) for t in (found, s.text))
    if difflib.SequenceMatcher(None, *texts, autojunk=False).ratio() < LEAST_ALIKE:
        seen = f"the tokens decode to {found[:40]!r}, and the text begins {s.text[:40]!r}"
        yield Finding("tokenizer", seen, s.decode)


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


def counted(s: Loop) -> tuple[float, float]:
    """Return the entropies of single tokens, and of a token after the one before, in nats.

    Without the text, they are those of the batches; of a text that repeats, the second is 0.
    """
    if s.tokens is None:
        some = np.concatenate([batch.ravel() for batch, _ in s.rows] or [s.inputs.cpu().numpy()])
        return entropies(some)[0], 0.0
    single, after_one = entropies(np.asarray(s.tokens[:MOST_TEXT]))
    return single, after_one if Places(s.tokens).share_repeated(s.time) <= 0.2 else 0.0


def rows(s: Loop) -> Findings:  # noqa: C901
    """See that rows are windows of the text, unequal, and spread over it."""
    windows = [_unpadded(*row) for batch in s.rows for row in zip(*batch, strict=True)]
    num_different = len({window.tobytes() for window in windows})
    is_varied, epoch, seen, wrong = num_different > 8, 8.0, "", ""
    if s.tokens is not None and windows and 4 <= s.time < len(s.tokens):
        places = Places(s.tokens)
        is_varied = places.share_repeated(s.time) < MOST_REPEATED
        epoch = len(s.tokens) / s.rows[0][0].size
        # One or two ids of padding are not told from text.
        found = [places.find(window[2:-2] if len(window) > 8 else window) for window in windows]
        lost = [window for window, at in zip(windows, found, strict=True) if at is None]
        covered = np.zeros(len(s.tokens), bool)
        for at in found:
            covered[at or 0 : (at or 0) + s.time] = True
        expected = 1 - np.exp(-len(found) * s.time / len(s.tokens))
        if lost and places.is_whole:
            wrong = f"{len(lost)} of {len(found)} rows of ids are nowhere in the training text; "
            wrong += f"one begins {lost[0][:8].tolist()}"
        elif is_varied and covered.mean() < LEAST_SPREAD * expected and len(found) > 16:
            seen = f"{len(found)} rows cover {covered.mean():.1%} of the text"
            seen += f"; {expected:.1%} is usual"
    equal = [i for i, _ in s.rows if 2 * len(np.unique(i, axis=0)) <= len(i)]
    if num_different > 8 and len(equal) > len(s.rows) / 2:
        wrong = f"{len(np.unique(equal[0], axis=0))} of {len(equal[0])} rows in a batch differ"
    distinct, total = len(set(s.hashes)), len(s.hashes)
    if is_varied and not seen:
        if total > 4 and distinct < 0.5 * min(total, epoch):
            seen = f"{total} batches, only {distinct} of them different"
        elif len(windows) > 30 * num_different:
            seen = f"{len(windows)} rows, only {num_different} of them different"
    if wrong:
        yield Finding("batches-wrong", wrong, s.batches)
    if seen:
        yield Finding("batches-repeat", seen, s.batches)


def _unpadded(row: Tokens, target: Tokens) -> Tokens:
    """Return the part of a row that is neither padded, on the left or on the right, nor masked."""
    ids = torch.as_tensor(row)[None]
    is_kept, start = ~padding(ids)[0].numpy() & (target >= 0), int(padding(ids.flip(1)).sum())
    return row[start:][: max(4, int(is_kept[start:].sum()))]
