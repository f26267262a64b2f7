"""Trainer: the updates of a run with logging, evaluation, checkpoints and a clock around them."""

import logging
import math
import signal
import statistics
from collections.abc import Iterator
from contextlib import nullcontext

from cs_basics.run.batches import Batches
from cs_basics.run.clock import Clock
from cs_basics.run.corpus import Corpus
from cs_basics.run.distributed import ALONE, World
from cs_basics.run.evaluation import Evaluation, evaluate, make_loss_function
from cs_basics.run.folder import RunFolder
from cs_basics.run.hardware import matmul_rate, resolve_device, resolve_dtype
from cs_basics.run.layout import data_world, lay_out, micro_batch_size
from cs_basics.run.metrics import MetricsLog
from cs_basics.run.model import compile_training, make_dropout, make_model
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.progress import OnProgress, signs_of_life
from cs_basics.run.random_state import restore_random_states, seed_all
from cs_basics.run.samples import SHORT_TOKENS, try_story
from cs_basics.run.saving import Saving
from cs_basics.run.schedules import Schedule
from cs_basics.run.speed import Speed
from cs_basics.run.stopping import StopSignals, TrainingStoppedError
from cs_basics.run.token_file import check_unchanged
from cs_basics.run.updates import make_updates
from cs_basics.settings.run import TrainConfig
from cs_basics.training import Batch, TrainingDivergedError, Update

logger = logging.getLogger(__name__)

EVAL_TOKENS = 32_768
"""Validation tokens read for each validation loss during the run; the last one reads all."""
MAX_LOG_EVERY = 20
MIN_ROWS = 5
"""There is a row of metrics after each MAX_LOG_EVERY updates, and in a short run more often: at
least MIN_ROWS between two validation losses, if there are as many updates."""
MUCH = 0.5
"""From this share of a run's time on, it is said that preparing took it."""


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
        peak_flops_per_s = matmul_rate(self.dtype, self.device)
        # Fast layers read weights past the layers that tensor parallelism puts in their places.
        self.is_fast = config.run.fast == "auto" and self.data_world is world
        seed_all(config.run.seed)  # After the measurements, which draw numbers, too.

        self.model = make_model(config, corpus.train.tokens, self.device, is_fast=self.is_fast)
        dropout = make_dropout(self.model, config, self.micro_batch_size)
        self.optimizer = make_optimizer(self.model, config, is_fast=self.is_fast)
        self.batches = Batches(config, corpus.train, dropout, self.device, self.data_world)
        self.speed = Speed(config, self.model, peak_flops_per_s and peak_flops_per_s * world.size)
        self.layout = lay_out(self.model, self.optimizer, config, world)
        self.saving = Saving(folder, self.optimizer, self.layout, clock, world)
        self.plain_loss_of = self.loss_of = make_loss_function(self.model, self.dtype)
        self.schedule = Schedule(config.optim, clock)

        self.step = 0
        self.first_step = 1
        """The first update of this process, whose time includes compiling."""
        self.recent_losses: list[float] = []
        self.is_asked_to_stop = False
        self.num_metrics_bytes = 0

    def restore(self) -> None:
        """Go on from the newest undamaged checkpoint; without any, begin at the beginning.

        Raises:
            ValueError: All checkpoints are damaged, or they are of another model or run.
        """
        checkpoint = self.saving.load()
        if checkpoint is None:
            return
        progress = checkpoint.progress
        try:
            restore_random_states(progress["random"])
            elapsed_s, waited_s = progress["elapsed_s"], progress.get("waited_s", 0.0)
            stages = progress.get("stages", {"before the resume": elapsed_s})
            self.clock.resume(elapsed_s, waited_s, stages)
            self.recent_losses = progress["recent_losses"]
            self.num_metrics_bytes = progress["num_metrics_bytes"]
            self.step = progress["step"]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{checkpoint.path} is of a run with other settings") from error
        self.schedule.log_new_length(self.step, self.folder.read_config().run)
        logger.info("going on from step %s (%s)", f"{self.step:,}", checkpoint.path)

    def save(self, log: MetricsLog) -> None:
        """Write a checkpoint of this step; errors as of `Saving.save`."""
        with self.clock.during("saving"):
            self.saving.save(self.step, log, recent_losses=self.recent_losses)

    def compile(self) -> None:
        """Compile the loss, and so the model, and the update, if this machine can."""
        logger.info("compiling the model (up to a minute the first time)")
        with signs_of_life("compiling"):
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
        self.first_step = self.step + 1
        self.speed.restart()
        self.saving.begin()
        if self.step and self.clock.progress(self.step) >= 1:
            logger.info("no update is left to make: %s", self.clock.used(self.step))
        try:
            make_updates(
                self.optimizer,
                self.batches_until_over(stop),
                self.schedule.lr_at,
                self.loss_of,
                self.clip,
                num_parts=self.config.run.grad_accum_steps,
                first_step=self.first_step,
                before_part=self.before_part,
                on_update=lambda update: self.after(update, log),
            )
            is_over = self.clock.progress(self.step) >= 1
            self.save_last(log, is_over)
            self.goes_on(stop)  # A signal may have come since the last update.
        except TrainingDivergedError as error:
            raise TrainingDivergedError(
                f"{error}. Try a lower lr than {self.config.optim.lr:g}"
            ) from None
        if not is_over or self.is_asked_to_stop:
            raise TrainingStoppedError(self.step, stop.received or signal.SIGTERM)

    def batches_until_over(self, stop: StopSignals) -> Iterator[Batch]:
        """Yield this process's rows of one batch after the other, until the run is over."""
        with signs_of_life("compiling") if self.is_fast else nullcontext():
            if self.goes_on(stop):
                yield self.next_batch()
        while self.goes_on(stop):
            yield self.next_batch()

    def goes_on(self, stop: StopSignals) -> bool:
        """Whether there is to be another update; all processes get the same answer."""
        self.is_asked_to_stop = bool(stop.received)
        if self.world.size > 1:
            elapsed_s = self.clock.read_s() if self.world.is_first else 0.0
            self.clock.agreed_s, num_asked = self.world.sum([elapsed_s, self.is_asked_to_stop])
            self.is_asked_to_stop = num_asked > 0
        return self.clock.progress(self.step) < 1 and not self.is_asked_to_stop

    def next_batch(self) -> Batch:
        """Return this process's rows of the next batch; errors as of `Batches.at`."""
        return self.batches.at(self.step, progress=self.clock.progress(self.step))

    def before_part(self, part: int) -> None:
        """Draw the dropout masks of a part of the batch."""
        self.batches.draw_masks(self.step, self.clock.progress(self.step), part)

    def clip(self) -> float:
        """Clip the gradients of all processes; return their joint norm before."""
        return self.layout.clip(self.optimizer, self.config.optim.max_grad_norm)

    def after(self, update: Update, log: MetricsLog) -> None:
        """After an update, log, evaluate and save, whichever of these are due."""
        self.step, eval_every = update.step, self.config.run.eval_every
        self.log_update(update, log)
        is_due = self.step % eval_every == 0
        if is_due:
            with self.clock.during("samples"):
                self.sample(log)
            self.validate(log, EVAL_TOKENS)
        if is_due or self.saving.is_due():
            if self.clock.progress(self.step) < 1:  # The last state is saved by `save_last`.
                self.save(log)
            self.speed.restart()

    def log_update(self, update: Update, log: MetricsLog) -> None:
        """Log now and then the mean loss since the last row, with rate and speed."""
        clock, loss = self.clock, self.world.mean(update.loss)
        self.recent_losses.append(loss)
        self.speed.count_step()
        if self.step == self.first_step:
            clock.begin_updates()
        if self.step == 1 and clock.elapsed_s >= MUCH * (clock.max_seconds or math.inf):
            took = f"{clock.elapsed_s:.0f} of {clock.max_seconds:.0f} s"
            logger.warning(
                f"preparing, compiling and the first update took {took}: --max-minutes counts them"
            )
        log_every = min(MAX_LOG_EVERY, max(1, self.config.run.eval_every // MIN_ROWS))
        if self.step % log_every == 0 or self.step == 1:
            mean_loss, self.recent_losses = statistics.fmean(self.recent_losses), []
            row = {"step": self.step, "elapsed_s": clock.elapsed_s, "train/loss": mean_loss}
            made = {"optim/lr": update.lr, "optim/grad_norm": update.grad_norm}
            log.log({**row, **made, **self.speed.figures(self.step, clock)})

    def sample(self, log: MetricsLog) -> None:
        """Generate a short text and log it, unless the model is sharded."""
        run, can_call = self.config.run, not self.layout.is_split
        self.batches.rest()  # A sample of one whole context has the shape of a part.
        if run.num_samples and can_call and self.world.is_first:
            tokenizer, is_fast = self.corpus.tokenizer, self.is_fast
            text = try_story(self.model, tokenizer, SHORT_TOKENS, run.seed, is_fast=is_fast)
            if text is not None:
                log.log_sample(self.step, text)

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
        self.batches.rest()
        with self.clock.during("evaluating"):
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
            found = {f"{part}/loss": result.loss, f"{part}/bits_per_byte": result.bits_per_byte}
            log.log({"step": self.step, "elapsed_s": self.clock.elapsed_s, **found})
        self.saving.note_validation(self.step, result.loss)
        return result

    def save_last(self, log: MetricsLog, is_over: bool) -> None:
        """Save the last state, unless that was done; validate it first if the run is over.

        Raises:
            ValueError: The run was over before its first update.
        """
        if is_over and self.step == 0:
            raise ValueError(
                f"--max-minutes {self.config.run.max_minutes:g} were over before the first update: "
                "preparing the text and compiling takes part of them. --resume with more minutes "
                "goes on from here"
            )
        is_to_save = self.saving.saved_step != self.step
        if is_over and self.step not in self.saving.validated:
            # A finished run that is resumed has this row already.
            self.validate(log if self.step >= self.first_step else None, EVAL_TOKENS)
            is_to_save = True
        if is_to_save:
            self.save(log)
