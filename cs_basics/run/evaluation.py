"""Evaluation of a model on a text: loss and bits per byte.

Tested by `make test ARGS="-k evaluation"`.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.functional import cross_entropy
from cs_basics.run.distributed import ALONE, World
from cs_basics.run.metrics import bits_per_byte
from cs_basics.run.progress import OnProgress
from cs_basics.run.token_file import TokenFile

Loss = Float[Tensor, ""]
LossFunction = Callable[[Tensor, Tensor], Loss]
"""The mean loss of a batch, of inputs and targets."""


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`."""

    loss: float
    """Mean cross-entropy over the predicted tokens, in nats."""
    num_tokens: int
    """Number of predicted tokens."""
    bytes_per_token: float
    """Mean length of a token of the text, in bytes."""
    elapsed_s: float
    """Seconds that the evaluation took."""

    @property
    def bits_per_byte(self) -> float:
        """The loss in bits per byte, which does not depend on the vocabulary."""
        return bits_per_byte(self.loss, self.bytes_per_token)

    @property
    def perplexity(self) -> float:
        """The number of equally likely tokens that would give the same loss."""
        try:
            return math.exp(self.loss)
        except OverflowError:
            return math.inf


def make_loss_function(model: nn.Module, dtype: torch.dtype) -> LossFunction:
    """Return the mean loss of a batch as a function of inputs and targets.

    Args:
        model: The language model.
        dtype: Type of the matrix products; weights, norms, softmax and loss stay float32.
    """
    device_type = next(model.parameters()).device.type
    is_mixed = dtype != torch.float32

    def loss_of(inputs: Tensor, targets: Tensor) -> Loss:
        with torch.autocast(device_type, dtype=dtype if is_mixed else None, enabled=is_mixed):
            logits = model(inputs)
        # One row per token, and a loss of no axes: what every honest cross_entropy can take and be.
        return cross_entropy(logits.flatten(0, -2), targets.flatten()).reshape(())

    return loss_of


@torch.no_grad()
def evaluate(
    loss_of: LossFunction,
    text: TokenFile,
    context_length: int,
    batch_size: int,
    device: torch.device,
    max_tokens: int | None = None,
    loss_of_rest: LossFunction | None = None,
    on_progress: OnProgress | None = None,
    world: World = ALONE,
) -> Evaluation:
    """Measure the loss of a text, predicting every token but the first exactly once.

    The text is split into windows of context_length tokens that do not overlap.

    Args:
        loss_of: Returns the mean loss of a batch.
        text: The text, at least two tokens.
        context_length: Tokens in a window.
        batch_size: Windows in a batch.
        device: Device of the batches.
        max_tokens: Largest number of tokens to read; None reads all.
        loss_of_rest: Loss for the last batches, which are smaller: a compiled loss_of would be
            compiled again for their shapes.
        on_progress: Called with the progress.
        world: The process group that shares the windows; all pass the same arguments.

    Raises:
        ValueError: The text is shorter than two tokens.
    """
    tokens = text.tokens[:max_tokens]
    if len(tokens) < 2:
        raise ValueError(f"a text of {len(tokens)} tokens has none to predict: give a longer one")
    start = time.monotonic()
    total, num_tokens = 0.0, 0
    if on_progress is not None:
        on_progress("evaluating", "tokens", 0, len(tokens) - 1)
    for (inputs, targets), is_counted in _own_batches(
        _windows(tokens, context_length, batch_size), world
    ):
        is_full = inputs.shape == (batch_size, context_length)
        function = loss_of if is_full or loss_of_rest is None else loss_of_rest
        loss = function(inputs.to(device), targets.to(device)).item()
        if is_counted:
            total += loss * targets.numel()
            num_tokens += targets.numel()
        if on_progress is not None:
            done = min(num_tokens * world.size, len(tokens) - 1)
            on_progress("evaluating", "tokens", done, len(tokens) - 1)
    total, num_predicted = world.sum([total, num_tokens])
    num_tokens = round(num_predicted)
    elapsed_s = time.monotonic() - start
    return Evaluation(total / num_tokens, num_tokens, text.num_bytes / text.num_tokens, elapsed_s)


def _own_batches(
    batches: Iterator[tuple[Tensor, Tensor]], world: World
) -> Iterator[tuple[tuple[Tensor, Tensor], bool]]:
    """Distribute batches over the processes; yield those of this process, and whether they count.

    All processes get the same number of batches, since with FSDP they must call the model together.
    If the last round has too few, the remaining processes repeat its first one, uncounted.
    """
    while dealt := list(islice(batches, world.size)):
        has_own = world.rank < len(dealt)
        yield dealt[world.rank if has_own else 0], has_own


def _windows(
    tokens: np.ndarray, context_length: int, batch_size: int
) -> Iterator[tuple[Int[Tensor, "batch seq"], Int[Tensor, "batch seq"]]]:
    """Yield full batches of windows, then the remaining windows, then the last, shorter window."""
    num_targets = len(tokens) - 1
    end_of_whole = num_targets - num_targets % context_length
    begin = 0
    while begin < num_targets:
        if begin < end_of_whole:
            end = min(begin + batch_size * context_length, end_of_whole)
            window_length = context_length
        else:
            end, window_length = num_targets, num_targets - begin
        ids = torch.from_numpy(tokens[begin : end + 1].astype(np.int64))
        yield ids[:-1].view(-1, window_length), ids[1:].view(-1, window_length)
        begin = end
