"""One run of an ablation: train a variant for exactly its budget, then measure.

`run.run.train_run` counts everything against the minutes of a run, so that its stories are
there when the time is over. Here every run gets the same minutes of updates: preparing, compiling
and evaluating are not counted.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cs_basics.run.atomic import write_atomically
from cs_basics.run.clock import Clock
from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.folder import RunFolder
from cs_basics.run.hardware import forget_peak_memory, peak_memory_mb
from cs_basics.run.metrics import Console, MetricsLog, Row
from cs_basics.run.random_state import seed_all
from cs_basics.run.token_file import entropies
from cs_basics.run.trainer import Trainer
from cs_basics.run.updates import make_updates
from cs_basics.settings.run import TrainConfig
from cs_basics.training import Batch, TrainingDivergedError, Update

RESULT = "result.json"

EVAL_TOKENS = 262_144
"""Validation tokens that the last evaluation reads: about a megabyte of text, so that it stays
short beside a run of minutes."""

NUM_WINDOWS = 40
"""Windows of equally many updates into which a run is cut, to average its training loss."""
DIVERGED_BY_NATS = 1.0
"""A run whose last window lies this far above its best one has diverged. The loss of a batch of one
sequence varies by a few tenths; falling back to token frequencies costs three or four."""
ACTIVATION_SEQUENCES = 8
"""Validation sequences over which the largest activation is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """What was measured of a run; None where a diverged run has no such number."""

    num_parameters: int
    """Weights of the model."""
    steps: int
    """Updates made."""
    minutes: float
    """Minutes that the updates took."""
    loss: float | None
    """Validation loss at the end, nats per token."""
    bits_per_byte: float | None
    """The same loss in bits per byte of text."""
    unigram_loss: float
    """Lowest loss that is possible without any context, on the same targets."""
    tokens_per_s: float | None
    """Training tokens per second of the update of median duration."""
    peak_memory_mb: float | None
    """Most memory held while training, in megabytes: of the process, or of the GPU; None where
    the system does not say."""
    largest_activation: float | None
    """Largest absolute value in the residual stream after any block, after training."""
    largest_grad_norm: float | None
    """Largest finite joint norm of the gradient, before clipping, over all updates."""
    diverged_at: int | None
    """The update at which the run diverged; None: it did not."""

    def write(self, folder: RunFolder) -> None:
        """Write result.json, which marks the run as complete."""
        write_atomically(folder.path / RESULT, json.dumps(asdict(self), indent=2).encode() + b"\n")


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
        reason = f"{path} cannot be read ({error}): delete it, and the run is repeated"
        raise ValueError(reason) from error


def run_variant(config: TrainConfig, shared: RunFolder, *, keep_weights: bool = False) -> RunResult:
    """Train one variant for its budget and measure the result.

    Args:
        config: The run; run_dir is its folder.
        shared: Holds the tokenizer and the token files of all runs.
        keep_weights: Also write a checkpoint at the end, unless the run diverged.

    Returns:
        The result, which is also in run_dir/result.json.

    Raises:
        ValueError: The configuration or a file does not fit.
        FileNotFoundError: A text is missing.
    """
    if config.run.run_dir is None:
        raise ValueError("run_dir is not set: where should the run be kept?")
    folder = RunFolder(config.run.run_dir)
    folder.path.mkdir(parents=True, exist_ok=True)
    corpus = prepare_corpus(config, shared, is_fast=config.run.fast == "auto")
    run = config.run
    clock = Clock(run.max_steps, run.max_minutes and 60 * run.max_minutes)
    trainer = Trainer(config, folder, corpus, clock)
    if trainer.is_fast:
        trainer.compile()
    _warm_up(trainer)
    # All variants draw the same batches, however many numbers their initialisation has drawn.
    seed_all(config.run.seed)
    forget_peak_memory(trainer.device)
    trainer.clock.restart()
    with MetricsLog(folder.metrics) as log:
        log.add(Console())
        diverged_at = _train(trainer, log)
        minutes = trainer.clock.elapsed_s / 60
        peak_mb = peak_memory_mb(trainer.device)
        evaluation = trainer.validate(log, EVAL_TOKENS)
        if keep_weights and diverged_at is None:
            trainer.save(log)
    rows = [row for row in log.rows if "train/loss" in row]
    if diverged_at is None:
        if not rows:
            raise ValueError(
                f"max_minutes={config.run.max_minutes} was over before the first update:"
                " give the run more time"
            )
        diverged_at = first_diverged_step([row["train/loss"] for row in rows])
    result = RunResult(
        num_parameters=sum(p.numel() for p in trainer.model.parameters()),
        steps=trainer.step,
        minutes=minutes,
        loss=_finite_or_none(evaluation.loss),
        bits_per_byte=_finite_or_none(evaluation.bits_per_byte),
        unigram_loss=entropies(corpus.valid.tokens[1:EVAL_TOKENS])[0],
        tokens_per_s=_tokens_per_s(config, rows),
        peak_memory_mb=peak_mb,
        largest_activation=_finite_or_none(_largest_activation(trainer)),
        largest_grad_norm=max((row["optim/grad_norm"] for row in rows), default=None),
        diverged_at=diverged_at,
    )
    result.write(folder)
    return result


def loss_windows(losses: Sequence[float]) -> list[tuple[int, float]]:
    """Cut a run into windows; return the last update (1, 2, ...) and mean loss of each."""
    parts = np.array_split(np.array(losses), min(NUM_WINDOWS, len(losses)))
    ends = np.cumsum([len(part) for part in parts])
    return [(int(end), float(part.mean())) for end, part in zip(ends, parts, strict=True)]


def first_diverged_step(train_losses: Sequence[float]) -> int | None:
    """Return the update at which a run whose losses stayed finite diverged, or None.

    A run diverged if its last window lies more than DIVERGED_BY_NATS above its best one; it did so
    at the first update after the best window. Training losses decide, since a validation loss also
    rises when a model overfits.

    Args:
        train_losses: Loss of every update.
    """
    windows = loss_windows(train_losses)
    best_end, best_mean = min(windows, key=lambda window: window[1])
    return best_end + 1 if windows[-1][1] > best_mean + DIVERGED_BY_NATS else None


def _warm_up(trainer: Trainer) -> None:
    """Compile and load everything that computes gradients; change no weight."""
    inputs, targets = trainer.next_batch()
    rows = slice(trainer.micro_batch_size)
    for _ in range(2):
        trainer.loss_of(inputs[rows], targets[rows]).backward()
        trainer.model.zero_grad()


def _train(trainer: Trainer, log: MetricsLog) -> int | None:
    """Make updates until the budget is spent, and log each; return where the run diverged."""

    def batches() -> Iterator[Batch]:
        while trainer.clock.progress(trainer.step) < 1:
            yield trainer.next_batch()

    def log_update(update: Update) -> None:
        trainer.step = update.step
        log.log(
            {
                "step": update.step,
                "elapsed_s": trainer.clock.elapsed_s,
                "optim/lr": update.lr,
                "optim/grad_norm": update.grad_norm,
                "train/loss": update.loss,
            }
        )

    config = trainer.config
    try:
        make_updates(
            trainer.optimizer,
            batches(),
            trainer.schedule.lr_at,
            trainer.loss_of,
            trainer.clip,
            num_parts=config.run.grad_accum_steps,
            on_update=log_update,
        )
    except TrainingDivergedError:
        return trainer.step + 1
    return None


def _tokens_per_s(config: TrainConfig, rows: list[Row]) -> float | None:
    times = [0.0, *(row["elapsed_s"] for row in rows)]
    if len(times) == 1:
        return None
    seconds = statistics.median(after - before for before, after in pairwise(times))
    return config.data.batch_size * config.model.context_length / seconds


@torch.no_grad()
def _largest_activation(trainer: Trainer) -> float:
    """Return the largest absolute value that leaves a block, over some validation sequences."""
    tokens, length = trainer.corpus.valid.tokens, trainer.config.model.context_length
    num_sequences = min(ACTIVATION_SEQUENCES, (len(tokens) - 1) // length)
    ids = torch.from_numpy(tokens[: num_sequences * length].astype(np.int64))
    largest: list[Tensor] = []

    def measured(forward: Callable[..., Any]) -> Callable[..., Any]:
        def forward_and_measure(*inputs: Any, **options: Any) -> Any:  # noqa: ANN401
            output = forward(*inputs, **options)
            # A block with value residual returns values beside the stream.
            stream: Tensor = output[0] if isinstance(output, tuple) else output
            largest.append(stream.abs().max())
            return output

        return forward_and_measure

    # No hooks: a model that calls `block.forward(x)` goes past them.
    for block in trainer.model.layers:
        block.forward = measured(block.forward)
    try:
        inputs = ids.view(-1, length).to(trainer.device)
        trainer.plain_loss_of(inputs, inputs)
    finally:
        for block in trainer.model.layers:
            del block.forward
    return torch.stack(largest).max().item()


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
