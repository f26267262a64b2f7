"""Bits per byte of what a run has left, independent of the trainer's own evaluation.

The ids of a text are predicted in windows of context_length that do not overlap, each id but the
first exactly once; the first counts like the mean of the others. Logits are normalised here, in
float64, whatever the entry's own loss does, and the bytes are counted on the text itself.
"""

import math
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cs_grader.entries.answers import MAX_WINDOW_LOGITS, Answers, Ids, Logits
from cs_grader.entries.rerun import Tell
from cs_grader.trusted.clean_copy import RefusedError

BATCH_IDS = 4096
NUM_PROBES = 1000
"""A model that looks ahead at one place in two hundred escapes with a probability of 0.7 %."""
MAX_SHIFT = 1e-3
"""A log-probability that moves by more than this depends on later tokens. In honest models it moves
by 1e-5 at most (docs/teach.md), because sums in float32 are taken in another order."""
Ask = Callable[[str], AbstractContextManager[Answers]]
"""Starts a process that answers questions of a kind: "encode", "decode" or "logits"."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reading:
    """How well a model predicted ids."""

    nats: Floats
    """Cost of each id but the first, in nats."""
    places: npt.NDArray[np.int64]
    """Some ids, by their place, others each time."""
    probes: Floats
    """Log-probabilities of what follows each of these, (places, vocab_size)."""


def bits_per_byte(ask: Ask, text: bytes, tell: Tell) -> tuple[float, str]:
    """Evaluate a run on a text.

    Returns:
        The bits per byte, and a sentence about what was checked.

    Raises:
        RefusedError: The tokens do not give every byte back, a logit is not finite or depends on
            later tokens, or there is no answer.
    """
    ids = ids_of(ask, text)
    with ask("logits") as answers:
        sizes = answers.sizes()
        reading = read(answers, ids, sizes, tell)
    with ask("logits") as answers:
        if answers.sizes() != sizes:
            raise RefusedError("the sizes of the model are others each time")
        shift = largest_shift(answers, ids, sizes, reading)
    if not shift <= MAX_SHIFT:
        raise RefusedError(f"without the later tokens, log-probabilities change by {shift:.1g}")
    found = float(reading.nats.mean()) * len(ids) / len(text) / math.log(2)
    return found, f"{len(ids):,} tokens give all {len(text):,} bytes back, shift {shift:.1g}"


def ids_of(ask: Ask, text: bytes) -> Ids:
    """Encode a text, and let a process that has not seen it decode the ids.

    So whatever the tokenizer is, the ids hold all that the text says.
    """
    with ask("encode") as answers:
        ids = answers.encode(text)
    with ask("decode") as answers:
        decoded = answers.decode(ids, len(text))
    if decoded != text:
        place = next(i for i, (a, b) in enumerate(zip(decoded, text, strict=True)) if a != b)
        raise RefusedError(f"the tokens stand for another text from byte {place:,} on")
    return ids


def read(answers: Answers, ids: Ids, sizes: tuple[int, int], tell: Tell) -> Reading:
    """Let a model predict ids."""
    vocab_size, context_length = sizes
    if ids.min(initial=0) < 0 or ids.max(initial=0) >= vocab_size:
        raise RefusedError(f"a token id is outside of the vocabulary of {vocab_size:,}")
    costs: list[Floats] = []
    places = draw_places(len(ids), vocab_size)
    probes: list[Floats] = []
    for window in windows(len(ids), context_length, rows_of(sizes)):
        logits = answers.logits(ids[window[:, :-1]], vocab_size)
        costs.append(costs_of(logits, ids[window[:, 1:]]).ravel())
        begin, end = window[0, 0], window[-1, -1]
        here = places[(begin <= places) & (places < end)]
        rows, columns = np.divmod(here - begin, context_length)
        probes.append(log_probabilities(logits[rows, columns]))
        tell("predicting the text", "tokens", int(end), len(ids) - 1)
    return Reading(np.concatenate(costs), places, np.concatenate(probes))


def rows_of(sizes: tuple[int, int]) -> int:
    """Return how many windows are asked for at once."""
    vocab_size, context_length = sizes
    return max(1, min(BATCH_IDS, MAX_WINDOW_LOGITS // vocab_size) // context_length)


def draw_places(num_ids: int, vocab_size: int) -> npt.NDArray[np.int64]:
    """Draw some of the ids that another follows, in their order."""
    rng = np.random.default_rng(secrets.randbits(64))
    count = min(num_ids - 1, NUM_PROBES, MAX_WINDOW_LOGITS // vocab_size)
    return np.sort(rng.choice(max(0, num_ids - 1), max(0, count), replace=False))


def windows(num_ids: int, context_length: int, rows: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield batches of windows as places of ids, each overlapping the next by its last id."""
    if num_ids < 2:
        raise RefusedError(f"the text has {num_ids} tokens: there is nothing to predict")
    whole = (num_ids - 1) // context_length
    steps = np.arange(context_length + 1)
    for first in range(0, whole, rows):
        yield np.arange(first, min(first + rows, whole))[:, None] * context_length + steps
    if (begin := whole * context_length) < num_ids - 1:
        yield np.arange(begin, num_ids)[None, :]


def log_normalisers(logits: Logits) -> Floats:
    """Return the log of the sum of exponentials over the vocabulary, in float64."""
    if not np.isfinite(logits).all():
        raise RefusedError("the logits are not finite")
    largest = logits.max(-1, keepdims=True)
    sums = np.exp(logits - largest).sum(-1, dtype=np.float64)
    return np.log(sums) + largest[..., 0]


def log_probabilities(logits: Logits) -> Floats:
    """Normalise logits over the vocabulary."""
    return logits - log_normalisers(logits)[..., None]


def costs_of(logits: Logits, targets: Ids) -> Floats:
    """Return the cost of each target in nats: its negative log-probability."""
    chosen = np.take_along_axis(logits, targets[..., None].astype(np.int64), -1)[..., 0]
    return log_normalisers(logits) - chosen


def largest_shift(answers: Answers, ids: Ids, sizes: tuple[int, int], reading: Reading) -> float:
    """Return how far log-probabilities move if a model knows only the beginning of a window.

    A new process is given a window for each of `reading.places`, in random order. Every id after
    the place is replaced by another one, so the process has seen neither what really follows nor
    what came before the window: it cannot know more than a model may.
    """
    rng = np.random.default_rng(secrets.randbits(64))
    vocab_size, context_length = sizes
    order = rng.permutation(len(reading.places))
    rows, shift = rows_of(sizes), 0.0
    for first in range(0, len(order), rows):
        chosen = order[first : first + rows]
        places = reading.places[chosen]
        begins = places - places % context_length
        columns = np.arange(min(context_length, len(ids) - 1))
        # A last window that is not full has fewer ids than columns.
        known = ids[np.minimum(begins[:, None] + columns, len(ids) - 1)]
        others = (known + rng.integers(1, vocab_size, known.shape, known.dtype)) % vocab_size
        is_known = columns <= (places - begins)[:, None]
        logits = answers.logits(np.where(is_known, known, others), vocab_size)
        alone = log_probabilities(logits[np.arange(len(chosen)), places - begins])
        shift = max(shift, float(np.abs(alone - reading.probes[chosen]).max()))
    return shift
