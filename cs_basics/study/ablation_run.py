"""One run of an ablation: train for exactly its budget, then measure.

It differs from `training.train` in what the clock counts. That one promises a person stories after
so many minutes, all included; here every run gets the same minutes of updates, so compilation,
preparation and evaluation stay outside.

Tested by `make test ARGS=tests/project/test_ablation_run.py`.
"""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.clock import Clock
from cs_basics.run.config import TrainConfig
from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.epochs import random_batch
from cs_basics.run.folder import RunFolder
from cs_basics.run.hardware import forget_peak_memory, peak_memory_mb
from cs_basics.run.metrics import MetricsLog, Row
from cs_basics.run.token_file import TokenFile
from cs_basics.run.trainer import Trainer, TrainingDivergedError

RESULT = "result.json"

EVAL_TOKENS = 262_144
"""Validation tokens that the last evaluation reads: about a megabyte of text, however much there
is, so that it stays short beside a run of minutes."""

# A run is cut into so many windows, equal in updates, to look at its mean training loss.
NUM_WINDOWS = 40
# A loss that ends this far above its own lowest window has left for good. A single batch of one
# sequence strays by a few tenths; falling back to guessing by frequency is three or four.
DIVERGED_BY_NATS = 1.0
# Validation windows over which the largest activation is looked for: the same for every run.
ACTIVATION_WINDOWS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """What one run came to. None where a diverged run has no such number."""

    num_parameters: int
    """Weights of the model."""
    steps: int
    """Updates made."""
    minutes: float
    """Time they took."""
    loss: float | None
    """Validation loss at the end, nats per token."""
    bits_per_byte: float | None
    """The same per byte of text."""
    unigram_loss: float
    """Loss of the best guess that ignores the context, on the same tokens."""
    tokens_per_s: float | None
    """Training tokens per second: of the update of median length."""
    peak_memory_mb: float
    """Most memory held while training, in megabytes: of the process, or on a GPU of the GPU."""
    largest_activation: float | None
    """Largest absolute value in the residual stream after any block, after training."""
    largest_grad_norm: float | None
    """Largest finite joint norm of the gradient, before clipping, over all updates."""
    diverged_at: int | None
    """The update at which the run was lost; None: it was not."""

    def write(self, folder: RunFolder) -> None:
        """Write result.json, the sign that the run is complete."""
        with atomic_writer(folder.path / RESULT) as file:
            file.write(json.dumps(asdict(self), indent=2).encode() + b"\n")


def read_result(folder: RunFolder) -> RunResult | None:
    """Return the result of a run; None if it is not complete.

    Raises:
        ValueError: result.json is damaged.
    """
    path = folder.path / RESULT
    if not path.exists():
        return None
    try:
        return RunResult(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be read ({error}): delete it, the run is repeated") from (
            error
        )


def run_variant(config: TrainConfig, shared: RunFolder) -> RunResult:
    """Train one variant for its budget and measure what came of it.

    Args:
        config: The run; run_dir is its folder.
        shared: Holds the tokenizer and the token files of all runs.

    Returns:
        The result; run_dir/result.json holds it too.

    Raises:
        ValueError: The configuration or a file does not fit.
        FileNotFoundError: A text is missing.
    """
    if config.run_dir is None:
        raise ValueError("run_dir is not set: where should the run be kept?")
    folder = RunFolder(config.run_dir)
    folder.path.mkdir(parents=True, exist_ok=True)
    corpus = prepare_corpus(config, shared)
    budget = (config.max_steps, config.max_minutes and 60 * config.max_minutes)
    trainer = Trainer(config, folder, corpus, Clock(*budget))
    if config.compile:
        trainer.compile()
    _touch_every_kernel(trainer)
    forget_peak_memory(trainer.device)
    trainer.clock = Clock(*budget)
    with MetricsLog(folder.metrics, config) as log:
        diverged_at = _spend_budget(trainer, log)
        minutes = trainer.clock.elapsed_s / 60
        peak_mb = peak_memory_mb(trainer.device)
        evaluation = trainer.validate(log, config.eval_tokens)
    rows = [row for row in log.rows if "train/loss" in row]
    if diverged_at is None:
        diverged_at = first_diverged_step([row["train/loss"] for row in rows])
    result = RunResult(
        num_parameters=sum(p.numel() for p in trainer.model.parameters()),
        steps=trainer.step,
        minutes=minutes,
        loss=_finite_or_none(evaluation.loss),
        bits_per_byte=_finite_or_none(evaluation.bits_per_byte),
        unigram_loss=unigram_loss(corpus.valid, config.eval_tokens),
        tokens_per_s=_tokens_per_s(config, rows),
        peak_memory_mb=peak_mb,
        largest_activation=_finite_or_none(_largest_activation(trainer)),
        largest_grad_norm=max((row["optim/grad_norm"] for row in rows), default=None),
        diverged_at=diverged_at,
    )
    result.write(folder)
    return result


def loss_windows(losses: Sequence[float]) -> list[tuple[int, float]]:
    """Cut a run into windows; return of each its last update, from 1 on, and its mean loss."""
    parts = np.array_split(np.array(losses), min(NUM_WINDOWS, len(losses)))
    ends = np.cumsum([len(part) for part in parts])
    return [(int(end), float(part.mean())) for end, part in zip(ends, parts, strict=True)]


def first_diverged_step(train_losses: Sequence[float]) -> int | None:
    """Return the update from which a run that stayed finite was lost, or None.

    It was lost if its last window lies more than DIVERGED_BY_NATS above its best one; from the
    first update after the best on. Training losses decide: a validation loss that rises may just as
    well come from a text that was read too often.

    Args:
        train_losses: Loss of every update.
    """
    windows = loss_windows(train_losses)
    best_end, best_mean = min(windows, key=lambda window: window[1])
    return best_end + 1 if windows[-1][1] > best_mean + DIVERGED_BY_NATS else None


def unigram_loss(text: TokenFile, max_tokens: int) -> float:
    """Return the entropy of the token frequencies of a text's first max_tokens, in nats.

    No guess that ignores the context can have a lower loss on them.
    """
    counts = np.bincount(text.tokens[1:max_tokens])
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _touch_every_kernel(trainer: Trainer) -> None:
    """Let everything be compiled and loaded that an update needs; change nothing."""
    config = trainer.config
    batch = random_batch(
        trainer.corpus.train.tokens,
        config.batch_size,
        config.context_length,
        trainer.device,
        torch.Generator().manual_seed(0),
    )
    for _ in range(2):
        trainer.loss_of(*batch).backward()
        trainer.optimizer.zero_grad(set_to_none=True)


def _spend_budget(trainer: Trainer, log: MetricsLog) -> int | None:
    """Make updates until the budget is used up, each logged; return where the run diverged."""
    while trainer.clock.progress(trainer.step) < 1:
        try:
            row = trainer.update()
        except TrainingDivergedError:
            return trainer.step + 1
        log.log(**row, train__loss=trainer.recent_losses.pop())
    return None


def _tokens_per_s(config: TrainConfig, rows: list[Row]) -> float | None:
    times = [0.0, *(row["elapsed_s"] for row in rows)]
    if len(times) == 1:
        return None
    seconds = statistics.median(after - before for before, after in pairwise(times))
    return config.batch_size * config.context_length / seconds


@torch.no_grad()
def _largest_activation(trainer: Trainer) -> float:
    """Return the largest absolute value that leaves a block, over the first validation windows."""
    config = trainer.config
    length = config.context_length
    num_windows = min(ACTIVATION_WINDOWS, (trainer.corpus.valid.num_tokens - 1) // length)
    ids = torch.from_numpy(trainer.corpus.valid.tokens[: num_windows * length + 1].astype(np.int64))
    ids = ids.to(trainer.device)
    largest: list[Tensor] = []

    def look(_block: nn.Module, _inputs: Any, output: Tensor | tuple[Tensor, Tensor]) -> None:  # noqa: ANN401
        # A block that leaves its last addition to the next one returns both summands.
        stream = output if isinstance(output, Tensor) else output[0] + output[1]
        largest.append(stream.abs().max())

    hooks = [block.register_forward_hook(look) for block in trainer.model.layers]
    try:
        trainer.plain_loss_of(ids[:-1].view(-1, length), ids[1:].view(-1, length))
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(largest).max().item()


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
