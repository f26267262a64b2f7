"""Trainer: the updates of a run with logging, evaluation, checkpoints and a clock around them."""

import logging
import math
import signal
import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from cs_basics.run.batches import draw_batch
from cs_basics.run.checkpoint_file import write_checkpoint
from cs_basics.run.clock import Clock, Speed
from cs_basics.run.corpus import Corpus
from cs_basics.run.distributed import ALONE, World
from cs_basics.run.evaluation import (
    Evaluation,
    evaluate,
    make_loss_function,
)
from cs_basics.run.folder import RunFolder
from cs_basics.run.hardware import matmul_rate, peak_memory_mb, resolve_device, resolve_dtype
from cs_basics.run.layout import data_world, lay_out, micro_batch_size
from cs_basics.run.metrics import MetricsLog
from cs_basics.run.model import build_model, compile_training
from cs_basics.run.optimizer import embedding_tables, make_optimizer
from cs_basics.run.progress import OnProgress
from cs_basics.run.random_state import random_states, restore_random_states, seed_all
from cs_basics.run.samples import SHORT_TOKENS, write_story
from cs_basics.run.schedules import SCHEDULES
from cs_basics.run.spikes import SpikeDetector
from cs_basics.run.stopping import StopSignals, TrainingStoppedError
from cs_basics.run.token_file import check_unchanged
from cs_basics.run.updates import make_updates
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import RunConfig, TrainConfig
from cs_basics.training import Batch, TrainingDivergedError, Update

if TYPE_CHECKING:
    from cs_basics.variants.dropout import Dropout

logger = logging.getLogger(__name__)

EVAL_TOKENS = 32_768
"""Validation tokens read for each validation loss during the run; the last one reads all."""
MAX_LOG_EVERY = 20
MIN_ROWS = 5
"""There is a row of metrics after each MAX_LOG_EVERY updates, and in a short run more often: at
least MIN_ROWS between two validation losses, if there are as many updates."""
MAX_UNSAVED_S = 60.0
"""What a kill may cost, whatever eval_every says."""
MUCH = 0.5
"""From this share of a run's time on, it is said that preparing took it."""


def make_dropout(model: nn.Module, config: TrainConfig, num_rows: int) -> "Dropout | None":
    """Give a model the masks of dropout, if there is to be any, for num_rows sequences."""
    if not config.optim.dropout:
        return None
    from cs_basics.variants.dropout import Dropout

    shape = (num_rows, config.model.context_length, config.model.d_model)
    return Dropout(model, config.optim.dropout, shape)


def flops_per_token(model: nn.Module, sizes: ModelConfig) -> float:
    """Return the operations that training needs for a token.

    Model FLOPs as Chowdhery et al. 2022, appendix B (https://arxiv.org/abs/2204.02311) count them:
    two for each weight of a matrix product and two for each score and each weighted value of
    attention, three times for forward and backward.
    """
    tables = [] if sizes.tie_embeddings else embedding_tables(model, sizes)
    looked_up = {id(table) for table in tables}
    weights = (p.numel() for p in model.parameters() if p.dim() == 2 and id(p) not in looked_up)
    scores = 2 * sizes.num_layers * sizes.d_q * sizes.context_length
    return 6.0 * (sum(weights) + scores)


class Trainer:
    """A run in progress: everything that changes from update to update.

    Args:
        config: The run, with nothing left to be resolved.
        folder: Where checkpoints go.
        corpus: The texts as token files.
        clock: Says when the run is over.
        world: The processes that train together, each with a Trainer.

    Raises:
        ValueError: The batch cannot be shared out evenly.
    """

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        corpus: Corpus,
        clock: Clock,
        world: World = ALONE,
    ) -> None:
        self.config, self.folder, self.corpus, self.clock = config, folder, corpus, clock
        self.world, self.data_world = world, data_world(config, world)
        self.micro_batch_size = micro_batch_size(config, world)
        self.device = resolve_device(config.run.device)
        self.dtype = resolve_dtype(config.run.dtype, self.device)
        self.peak_flops_per_s = matmul_rate(self.dtype, self.device)
        # Fast layers read weights past the layers that tensor parallelism puts in their places.
        self.is_fast = config.run.fast == "auto" and self.data_world is world
        seed_all(config.run.seed)  # After the measurements, which draw numbers, too.
        self.model = build_model(config.model, self.device, is_fast=self.is_fast)
        if config.run.activation_checkpointing:
            from cs_basics.variants.activation_checkpointing import checkpoint_blocks

            checkpoint_blocks(self.model)
        if config.model.head_bias:
            from cs_basics.variants.head_bias import set_head_bias

            set_head_bias(self.model, corpus.train.tokens)
        self.optimizer = make_optimizer(self.model, config, is_fast=self.is_fast)
        self.dropout = make_dropout(self.model, config, self.micro_batch_size)
        self.num_parameters = sum(p.numel() for p in self.model.parameters())
        self.flops_per_token = flops_per_token(self.model, config.model)
        self.layout = lay_out(self.model, self.optimizer, config, world)
        self.plain_loss_of = self.loss_of = make_loss_function(self.model, self.dtype)
        self.step = 0
        self.recent_losses: list[float] = []
        self.spikes = SpikeDetector()
        self.speed = Speed()
        self.saved_step: int | None = None
        self.saved_s = 0.0
        """Seconds of the clock at the last checkpoint, or before the first update."""
        self.is_asked_to_stop = False
        self.validated: dict[int, float] = {}
        """The step that was last validated, and its loss: only its checkpoint can be the best."""
        self.num_metrics_bytes = 0

    def save(self, log: MetricsLog) -> None:
        """Write a checkpoint, and delete those that are no longer kept.

        Raises:
            OSError: The checkpoint cannot be written; older ones are unchanged.
            TrainingDivergedError: The weights are not finite; nothing was written.
        """
        held = [part for group in self.optimizer.param_groups for part in group["params"]]
        if not all(part.isfinite().all() for part in held):
            raise TrainingDivergedError(
                f"step {self.step}: the update made weights that are not finite, which are not "
                "saved"
            )
        model, optimizer = self.layout.whole(self.optimizer)
        self.saved_step, self.saved_s = self.step, self.clock.elapsed_s
        if not self.world.is_first:
            return
        progress = {
            "step": self.step,
            "random": random_states(),
            "elapsed_s": self.clock.elapsed_s,
            "recent_losses": self.recent_losses,
            "spikes": self.spikes.state(),
            "num_metrics_bytes": log.sync(),
        }
        path = self.folder.checkpoint_of(self.step)
        write_checkpoint(path, model, optimizer, self.step, progress)
        self.folder.prune_checkpoints(self.step, self.validated.get(self.step))

    def restore(self) -> None:
        """Restore the newest undamaged checkpoint; without any, begin at the beginning.

        A checkpoint without progress holds weights that were made elsewhere.

        Raises:
            ValueError: All checkpoints are damaged, or they are of another model.
        """
        if not self.folder.all_checkpoints():
            logger.info("%s holds no checkpoint: from the beginning", self.folder.checkpoints)
            return
        checkpoint = self.folder.read_newest_checkpoint()
        progress = checkpoint.progress
        # From a checkpoint made elsewhere only weights are taken: rates and betas are this run's.
        groups = [dict(group) for group in self.optimizer.param_groups]
        step = self.layout.load(self.optimizer, checkpoint)
        if not progress:
            for group, own in zip(self.optimizer.param_groups, groups, strict=True):
                group.update({name: value for name, value in own.items() if name != "params"})
            logger.info("%s was not trained here: from the first step", checkpoint.path)
            return
        try:
            restore_random_states(progress["random"])
            self.clock.elapsed_before = progress["elapsed_s"]
            self.recent_losses = progress["recent_losses"]
            self.spikes = SpikeDetector(**progress["spikes"])
            self.num_metrics_bytes = progress["num_metrics_bytes"]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{checkpoint.path} is of a run with other settings") from error
        self.step = step
        self._tell_of_new_length(self.folder.read_config().run)
        logger.info("going on from step %s (%s)", f"{self.step:,}", checkpoint.path)

    def _tell_of_new_length(self, was: RunConfig) -> None:
        """Log how the learning rate jumps if the run was shorter or longer before."""
        run, clock = self.config.run, self.clock
        if (was.max_steps, was.max_minutes) == (run.max_steps, run.max_minutes):
            return
        now = self.lr_at(self.step + 1)
        seconds = was.max_minutes and 60 * was.max_minutes
        self.clock = Clock(was.max_steps, seconds, clock.elapsed_s)
        before = self.lr_at(self.step)
        self.clock = clock
        logger.info(
            f"the schedule is stretched to the new length of the run: the learning rate was "
            f"{before:.2e} at step {self.step:,} and is {now:.2e} at the next"
        )

    def compile(self) -> None:
        """Compile the loss, and so the model, and the update, if this machine can."""
        logger.info("compiling the model (up to a minute the first time)")
        self.loss_of = compile_training(
            self.model,
            self.plain_loss_of,
            self.optimizer,
            self.config,
            self.dtype,
            self.micro_batch_size,
            is_alone=self.world.size == 1,
        )

    def run(self, log: MetricsLog, stop: StopSignals) -> None:
        """Make updates until the steps or the minutes are used up, and save the last state.

        Raises:
            TrainingDivergedError: A loss, gradient or weight is not finite; no such weight is
                saved.
            TrainingStoppedError: A signal asked for it; the state is saved.
        """
        config, first = self.config, self.step + 1
        self.speed.restart()
        self.saved_s = self.world.from_first(self.clock.elapsed_s)
        if self.step and self.clock.progress(self.step) >= 1:
            logger.info("no update is left to make: %s", self.clock.used(self.step))
        try:
            make_updates(
                self.optimizer,
                self.batches(stop),
                self.lr_at,
                self.loss_of,
                self.clip,
                num_parts=config.run.grad_accum_steps,
                first_step=first,
                on_update=lambda update: self.after(update, log),
            )
            is_over = self.clock.progress(self.step) >= 1
            if is_over and self.step == 0:
                raise ValueError(
                    f"--max-minutes {config.run.max_minutes:g} were over before the first update: "
                    "preparing the text and compiling takes part of them. --resume with more "
                    "minutes goes on from here"
                )
            is_to_save = self.saved_step != self.step
            if is_over and self.step not in self.validated:
                # A finished run that is resumed has this row already.
                self.validate(log if self.step >= first else None, EVAL_TOKENS)
                is_to_save = True
            if is_to_save:
                self.save(log)
        except TrainingDivergedError as error:
            raise TrainingDivergedError(
                f"{error}. Try a lower lr than {config.optim.lr:g}"
            ) from None
        if not is_over or self.is_asked_to_stop:
            raise TrainingStoppedError(self.step, stop.received or signal.SIGTERM)

    def batches(self, stop: StopSignals) -> Iterator[Batch]:
        """Yield this process's rows of one batch after the other, until the run is over."""
        while self.goes_on(stop):
            yield self.next_batch()

    def clip(self) -> float:
        """Clip the gradients of all processes; return their joint norm before."""
        return self.layout.clip(self.optimizer, self.config.optim.max_grad_norm)

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        optim = self.config.optim
        # The schedule is over one step after the last one, which would have a rate of 0 otherwise.
        length = self.clock.expected_steps(step) + 1
        # A plain number whatever it is of: each checkpoint holds it.
        return float(SCHEDULES[optim.schedule](step, optim.lr, 0.0, optim.warmup_steps, length))

    def after(self, update: Update, log: MetricsLog) -> None:
        """After an update, log, evaluate and save, whichever of these are due."""
        self.step, eval_every = update.step, self.config.run.eval_every
        loss = self.world.mean(update.loss)
        self.recent_losses.append(loss)
        self.speed.count_step()
        if self.spikes.is_new_spike(loss):
            log.log(step=self.step, elapsed_s=self.clock.elapsed_s, train__spike=loss)
        if self.step == 1 and self.clock.elapsed_s >= MUCH * (self.clock.max_seconds or math.inf):
            took = f"{self.clock.elapsed_s:.0f} of {self.clock.max_seconds:.0f} s"
            logger.warning(
                f"preparing, compiling and the first update took {took}: --max-minutes counts them"
            )
        log_every = min(MAX_LOG_EVERY, max(1, eval_every // MIN_ROWS))
        if self.step % log_every == 0 or self.step == 1:
            seconds_per_step = self.speed.seconds_per_step()
            log.log(
                step=self.step,
                elapsed_s=self.clock.elapsed_s,
                optim__lr=update.lr,
                optim__grad_norm=update.grad_norm,
                train__loss=statistics.fmean(self.recent_losses),
                **self.performance(seconds_per_step),
            )
            self.recent_losses = []
        is_due = self.step % eval_every == 0
        if is_due:
            self.sample(log)
            self.validate(log, EVAL_TOKENS)
        is_old = self.clock.elapsed_s - self.saved_s >= MAX_UNSAVED_S
        if is_due or is_old:
            if self.clock.progress(self.step) < 1:  # The last state is saved by `run`.
                self.save(log)
            self.speed.restart()

    def goes_on(self, stop: StopSignals) -> bool:
        """Whether there is to be another update; all processes get the same answer."""
        self.is_asked_to_stop = bool(stop.received)
        if self.world.size > 1:
            elapsed_s = self.clock.read_s() if self.world.is_first else 0.0
            self.clock.agreed_s, num_asked = self.world.sum([elapsed_s, self.is_asked_to_stop])
            self.is_asked_to_stop = num_asked > 0
        return self.clock.progress(self.step) < 1 and not self.is_asked_to_stop

    def performance(self, seconds_per_step: float) -> dict[str, float]:
        """Return speed, time left, memory, and speed as a share of the peak (MFU)."""
        config = self.config
        tokens_per_s = config.data.batch_size * config.model.context_length / seconds_per_step
        performance = {"perf__tokens_per_s": tokens_per_s}
        if self.step > 1:  # The time of the first update includes compiling.
            seconds_left = self.clock.seconds_left(self.step, seconds_per_step)
            performance["perf__seconds_left"] = seconds_left
        if (memory := peak_memory_mb(self.device)) is not None:
            performance["perf__peak_memory_mb"] = memory
        if self.peak_flops_per_s is not None:
            peak = self.peak_flops_per_s * self.world.size
            performance["perf__mfu"] = tokens_per_s * self.flops_per_token / peak
        return performance

    def next_batch(self) -> Batch:
        """Return this process's rows of the next batch, and draw the dropout masks for them.

        Raises:
            OSError, ValueError: The token file is gone or was changed.
        """
        check_unchanged(self.corpus.train)
        seed = (self.config.run.seed, self.step, self.data_world.rank)
        if self.dropout is not None:
            self.dropout.draw(*seed, progress=self.clock.progress(self.step))
        rows = self.data_world.share(self.config.data.batch_size)
        return draw_batch(self.corpus.train.tokens, self.config, self.step, rows, self.device)

    def validate(
        self,
        log: MetricsLog | None,
        max_tokens: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Evaluation:
        """Evaluate on the first max_tokens of the validation text; log that if asked to.

        On all of it (None) it is the final result, which has names of its own in the log: the mean
        of another text does not continue the curve.
        """
        check_unchanged(self.corpus.valid)
        if self.dropout is not None:
            self.dropout.rest()
        result = evaluate(
            self.loss_of,
            self.corpus.valid,
            self.config.model.context_length,
            self.micro_batch_size,
            self.device,
            max_tokens,
            self.plain_loss_of,
            on_progress,
            self.data_world,
        )
        if log is not None:
            part = "final" if max_tokens is None else "val"
            found = {"loss": result.loss, "bits_per_byte": result.bits_per_byte}
            values = {f"{part}__{name}": value for name, value in found.items()}
            log.log(step=self.step, elapsed_s=self.clock.elapsed_s, **values)
        self.validated = {self.step: result.loss} if math.isfinite(result.loss) else {}
        return result

    def sample(self, log: MetricsLog) -> None:
        """Generate a short text and log it, unless the model is sharded."""
        run, can_call = self.config.run, not self.layout.is_split
        if run.num_samples and can_call and self.world.is_first:
            try:
                text = write_story(
                    self.model, self.corpus.tokenizer, SHORT_TOKENS, run.seed, is_fast=self.is_fast
                )
            except Exception as error:
                # A student's classes may raise anything, and this step is still to be saved.
                logger.warning("no sample: %s: %s", type(error).__name__, error)
                return
            log.log_sample(self.step, text)
