"""Bits per byte from the logits of a model, independent of cs_basics/run/evaluation.py.

The ids of a text are predicted in windows of context_length that do not overlap, each id but the
first exactly once; the first counts like the mean of the others. Logits are normalised here, in
float64, whatever the entry's own loss does, and the bytes are counted on the text itself.
"""

import math
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cs_grader.entries.model import Answers, Logits, Model
from cs_grader.entries.refusal import RefusedError
from cs_grader.entries.run_files import MAX_WINDOW_LOGITS, Ids

BATCH_IDS = 4096
NUM_PROBES = 1000
"""A model that looks ahead at one place in two hundred escapes with a probability of 0.7 %."""
MAX_SHIFT = 1e-3
"""A log-probability that moves by more than this depends on later tokens. In honest models it moves
by 1e-5 at most (docs/teach.md), because sums in float32 are taken in another order."""
STORY = re.compile(rb".*?<\|endoftext\|>\r?\n?|.+\Z", re.DOTALL)
Tell = Callable[[str, int, int], None]
"""Called with a stage, how many ids are done, and how many there are."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reading:
    """How well a model predicted a text."""

    text: bytes
    ids: Ids
    nats: Floats
    """Cost of each id but the first, in nats."""
    places: npt.NDArray[np.int64]
    """Some ids, by their place, others each time."""
    probes: Floats
    """Log-probabilities of what follows each of these, (places, vocab_size)."""

    @property
    def bits_per_byte(self) -> float:
        """The mean cost, each byte of the text counted once."""
        return float(self.nats.mean()) * len(self.ids) / len(self.text) / math.log(2)


def stories_of(text: bytes) -> list[bytes]:
    """Split a text into its stories, each with its end."""
    return STORY.findall(text)


def read(model: Model, text: bytes, ids: Ids, ask: Answers, tell: Tell) -> Reading:
    """Let a model predict a text.

    Raises:
        RefusedError: It cannot be run, or a logit is not finite.
    """
    vocab_size, context_length = model.files.sizes
    costs: list[Floats] = []
    places = draw_places(len(ids), vocab_size)
    probes: list[Floats] = []
    for window in windows(len(ids), context_length, rows_of(vocab_size, context_length)):
        logits = ask.logits(ids[window[:, :-1]], vocab_size)
        costs.append(costs_of(logits, ids[window[:, 1:]]).ravel())
        begin, end = window[0, 0], window[-1, -1]
        here = places[(begin <= places) & (places < end)]
        rows, columns = np.divmod(here - begin, context_length)
        probes.append(log_probabilities(logits[rows, columns]))
        tell("predicting the text", int(end), len(ids) - 1)
    return Reading(text, ids, np.concatenate(costs), places, np.concatenate(probes))


def rows_of(vocab_size: int, context_length: int) -> int:
    """Return how many windows are asked for at once."""
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


def largest_shift(model: Model, reading: Reading) -> float:
    """Return how far log-probabilities move if a model knows only the beginning of a window.

    A new process is given a window for each of `reading.places`, in random order. Every id after
    the place is replaced by another one, so the process has seen neither what really follows nor
    what came before the window: it cannot know more than a model may.
    """
    rng = np.random.default_rng(secrets.randbits(64))
    vocab_size, context_length = model.files.sizes
    order = rng.permutation(len(reading.places))
    rows, shift = rows_of(vocab_size, context_length), 0.0
    with model.asked() as ask:
        for first in range(0, len(order), rows):
            chosen = order[first : first + rows]
            places = reading.places[chosen]
            begins = places - places % context_length
            columns = np.arange(min(context_length, len(reading.ids) - 1))
            # A last window that is not full has fewer ids than columns.
            known = reading.ids[np.minimum(begins[:, None] + columns, len(reading.ids) - 1)]
            others = (known + rng.integers(1, vocab_size, known.shape, known.dtype)) % vocab_size
            is_known = columns <= (places - begins)[:, None]
            logits = ask.logits(np.where(is_known, known, others), vocab_size)
            alone = log_probabilities(logits[np.arange(len(chosen)), places - begins])
            shift = max(shift, float(np.abs(alone - reading.probes[chosen]).max()))
    return shift


def told_of_shift(shift: float) -> str:
    """Return what `largest_shift` found, in words."""
    return f"without the later tokens, log-probabilities change by up to {shift:.1g}"
