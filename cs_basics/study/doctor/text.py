"""Checks of tokens and batches."""

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
MOST_PARITY = 4
"""Times as many different ids at even places as at odd ones; 1.1 in texts."""
MOST_SPARE, LEAST_USED = 10, 8
"""Times as many tokens as a text uses that a model may have, 2 for a text of bytes; and the largest
id of a text that is too dull to tell."""
MOST_REPEATED = 0.5
"""Share of windows that a text holds twice; above it, nothing is said of repetition."""
MOST_TIMES, MOST_PASSES = 10, 100
"""Times that each of the first rows, or the whole text, may be read; 3 in healthy runs, and 30 in
long ones."""


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
    """See that the ids are those of the model's vocabulary, read as they were written."""
    if s.tokens is None or len(s.tokens) < 64:
        return
    tokens, seen, cause = np.asarray(s.tokens[:1_000_000]), None, "token-dtype"
    even, odd = (len(np.unique(tokens[i:20_000:2])) for i in (0, 1))
    if tokens.min() < 0 or tokens.max() >= s.vocab:
        seen = f"ids from {tokens.min()} to {tokens.max()}, for a model of {s.vocab} tokens"
    elif max(even, odd) > max(8, MOST_PARITY * min(even, odd)):
        seen = f"{even} different ids at even places, {odd} at odd ones: is each id read as two?"
    elif LEAST_USED < tokens.max() < s.vocab / MOST_SPARE:
        cause, seen = "tokenizer", f"no id above {tokens.max()}, for a model of {s.vocab} tokens"
    if seen:
        yield Finding(cause, seen, s.batches)


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


def entropy(s: Loop) -> float:
    """Return the entropy of single tokens of the text, in nats; without it, of the batches."""
    if s.tokens is not None:
        return entropies(np.asarray(s.tokens[:MOST_TEXT]))[0]
    batches = [batch.ravel() for batch, _ in s.rows] or [s.inputs.cpu().numpy()]
    return entropies(np.concatenate(batches))[0]


def rows(s: Loop) -> Findings:
    """See that rows are windows of the text, unequal, and not always the same."""
    windows = [row for inputs, _ in s.rows for row in inputs]
    num_different = max(1, len({window.tobytes() for window in windows}))
    is_varied, epoch, passes, wrong = num_different > 8, 8.0, 0.0, ""
    size = 0 if s.tokens is None else len(s.tokens)
    if windows and 4 <= s.time < size:
        places = Places(s.tokens)
        is_varied = places.share_repeated(s.time) < MOST_REPEATED
        epoch, passes = size / s.rows[0][0].size, s.num_calls * s.inputs.numel() / size
        # One or two ids of padding are not told from text.
        cut = [w[2:-2] if len(w) > 8 else w for w in windows if not _is_padded(w)]
        if places.is_whole and (lost := [w for w in cut if places.find(w) is None]):
            wrong = f"{len(lost)} of {len(cut)} rows of ids are nowhere in the training text; "
            wrong += f"one has {lost[0][:8].tolist()}"
    equal = [i for i, _ in s.rows if 2 * len(np.unique(i, axis=0)) <= len(i)]
    if num_different > 8 and len(equal) > len(s.rows) / 2:
        wrong = f"{len(np.unique(equal[0], axis=0))} of {len(equal[0])} rows in a batch differ"
    if wrong:
        yield Finding("batches-wrong", wrong, s.batches)
    distinct, total, seen = len({i.tobytes() for i, _ in s.rows}), len(s.rows), ""
    if total > 4 and distinct < 0.5 * min(total, epoch):
        seen = f"{total} batches, only {distinct} of them different"
    elif len(windows) > MOST_TIMES * num_different:
        seen = f"{len(windows)} rows, only {num_different} of them different"
    elif passes > MOST_PASSES:
        seen = f"{size} tokens of text, each read {passes:.0f} times"
    if seen and is_varied:
        yield Finding("batches-repeat", seen, s.batches)


def _is_padded(row: Tokens) -> bool:
    """Tell whether a row begins or ends with a run of one id, which may be padding."""
    ids = torch.as_tensor(row)[None]
    return bool((padding(ids) | padding(ids.flip(1))).any())
