"""The training loop: batch, loss, backward, clip, schedule, step, log. Last in the reading order.

Tested by `make test ARGS=tests/project/test_training.py`.
"""

import logging
import math
import signal
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cs_basics.checkpoint import save_checkpoint
from cs_basics.fast.adamw import OnePassAdamW
from cs_basics.fast.native.ahead_of_time import compile_training
from cs_basics.fast.native.lookup import look_up_in_order
from cs_basics.generate import generate
from cs_basics.optim import cosine_schedule
from cs_basics.run.clock import Clock, Speed
from cs_basics.run.config import END_OF_TEXT, Sampling, TrainConfig
from cs_basics.run.corpus import Corpus, prepare_corpus
from cs_basics.run.distributed import ALONE, Replicas, World
from cs_basics.run.epochs import epoch_batch, random_batch
from cs_basics.run.evaluation import Evaluation, evaluate, make_loss_function
from cs_basics.run.folder import RunFolder, build_model
from cs_basics.run.hardware import (
    matmul_rate,
    peak_memory_mb,
    resolve_device,
    resolve_dtype,
)
from cs_basics.run.metrics import MetricsLog, plot_losses
from cs_basics.run.progress import OnProgress
from cs_basics.run.report import Report
from cs_basics.run.spikes import SpikeDetector
from cs_basics.run.stopping import StopSignals, TrainingStoppedError
from cs_basics.run.token_file import check_unchanged
from cs_basics.study import accounting
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

logger = logging.getLogger(__name__)

SAMPLE_TOKENS = 300
SAMPLING = Sampling(temperature=0.5, top_p=0.95)


class TrainingDivergedError(ValueError):
    """The loss or its gradient is no longer a number."""


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
        self.world = world
        self.rows_at_once = share_rows(config, world)
        self.device = resolve_device(config.device)
        torch.manual_seed(config.seed)
        self.model = build_model(config, self.device)
        self.model.recomputes_blocks = config.recompute_blocks
        look_up_in_order(self.model)
        self.layout = lay_out(self.model, config, world)
        groups = parameter_groups(self.model, config)
        for group in groups:
            group["params"] = [self.layout.held(parameter) for parameter in group["params"]]
        self.optimizer = OnePassAdamW(
            groups,
            lr=config.lr,
            betas=(config.beta1, config.beta2),
            weight_decay=config.weight_decay,
        )
        self.batches = torch.Generator().manual_seed(config.seed)
        self.step = 0
        self.recent_losses: list[float] = []
        self.spikes = SpikeDetector()
        self.validation_loss: float | None = None
        self.num_metrics_bytes = 0
        dtype = resolve_dtype(config.dtype, self.device)
        # Unknown on MPS, where nothing here waits for a product to end.
        is_known = self.device.type != "mps"
        self.peak_flops_per_s = matmul_rate(dtype, self.device) if is_known else None
        self.plain_loss_of = make_loss_function(self.model, dtype, config.chunk_loss)
        self.loss_of = self.plain_loss_of

    def save(self, log: MetricsLog) -> None:
        """Write a checkpoint, and delete those that are no longer kept.

        Raises:
            OSError: It cannot be written; those before it are as they were.
            TrainingDivergedError: The weights are not finite; nothing was written.
        """
        held = [part for group in self.optimizer.param_groups for part in group["params"]]
        if not all(part.isfinite().all() for part in held):
            raise TrainingDivergedError(
                f"step {self.step}: the update made weights that are not finite, which are not "
                f"saved. Try a lower lr than {self.config.lr:g}"
            )
        model, optimizer = self.layout.whole(self.optimizer)
        if not self.world.is_first:
            return
        self.folder.checkpoints.mkdir(exist_ok=True)
        progress = {
            "batches": self.batches.get_state(),
            "random": torch.get_rng_state(),
            "elapsed_s": self.clock.elapsed_s,
            "recent_losses": self.recent_losses,
            "spikes": self.spikes.state(),
            "validation_loss": self.validation_loss,
            "num_metrics_bytes": log.sync(),
        }
        path = self.folder.checkpoint_of(self.step)
        save_checkpoint(model, optimizer, self.step, path, progress)
        self.folder.keep_checkpoints(self.step, self.config.keep_checkpoints, self.validation_loss)

    def restore(self) -> None:
        """Take up the newest checkpoint that is whole; without any, begin at the beginning.

        A checkpoint without progress holds weights that were made elsewhere (interop.py).

        Raises:
            ValueError: All are damaged, or not of this model.
        """
        if not self.folder.all_checkpoints():
            logger.info("%s holds no checkpoint: from the beginning", self.folder.checkpoints)
            return
        path, state = self.folder.read_newest_checkpoint()
        try:
            progress = state["progress"]
            if not progress:
                # The rates and betas of this run, and no moments yet.
                state["optimizer"] = self.optimizer.state_dict()
            self.layout.load(self.optimizer, state, str(path))
            if not progress:
                logger.info("%s was not trained here: from the first step", path)
                return
            self.batches.set_state(progress["batches"])
            torch.set_rng_state(progress["random"])
            self.clock.elapsed_before = progress["elapsed_s"]
            self.recent_losses = progress["recent_losses"]
            self.spikes = SpikeDetector(**progress["spikes"])
            self.validation_loss = progress["validation_loss"]
            self.num_metrics_bytes = progress["num_metrics_bytes"]
        except (KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"{path} is not of a run like this one ({error!r})") from error
        self.step = state["iteration"]
        logger.info("going on from step %s (%s)", f"{self.step:,}", path)

    def compile(self) -> None:
        """Compile the loss, and so the model, and the update, if this machine can."""
        logger.info("compiling the model (up to a minute the first time)")
        self.loss_of = compile_training(
            self.model,
            self.plain_loss_of,
            self.optimizer,
            self.config,
            self.rows_at_once,
            by_another_process=self.device.type == "cpu" and self.world.size == 1,
        )

    def run(self, log: MetricsLog, stop: StopSignals, report: Report | None = None) -> None:
        """Make updates until the steps or the minutes are used up, and save the last state.

        Raises:
            TrainingStoppedError: A signal asked for it; the state is saved.
        """
        config = self.config
        speed = Speed()
        saved_step = None
        while self.goes_on(stop):
            row = self.update()
            speed.count_step()
            if self.spikes.is_new_spike(loss := self.recent_losses[-1]):
                log.log(step=self.step, elapsed_s=self.clock.elapsed_s, train__spike=loss)
            if self.step % config.log_every == 0 or self.step == 1:
                seconds_per_step = speed.seconds_per_step()
                log.log(
                    **row,
                    train__loss=statistics.fmean(self.recent_losses),
                    perf__seconds_left=self.clock.seconds_left(self.step, seconds_per_step),
                    **self.performance(seconds_per_step),
                )
                self.recent_losses = []
                if report is not None:
                    report.refresh()
            if self.step % config.eval_every == 0:
                self.validate(log, config.eval_tokens)
                self.sample(log)
                if report is not None:
                    report.refresh()
                speed.restart()
            if self.step % config.checkpoint_every == 0:
                self.save(log)
                saved_step = self.step
                speed.restart()
        if saved_step != self.step:
            self.save(log)
        if self.clock.progress(self.step) < 1:
            raise TrainingStoppedError(self.step, stop.received or signal.SIGTERM)

    def goes_on(self, stop: StopSignals) -> bool:
        """Whether there is to be another update; all processes get the same answer."""
        is_asked_to_stop = bool(stop.received)
        if self.world.size > 1:
            elapsed_s = self.clock.read_s() if self.world.is_first else 0.0
            self.clock.agreed_s, num_asked = self.world.sum([elapsed_s, is_asked_to_stop])
            is_asked_to_stop = num_asked > 0
        return self.clock.progress(self.step) < 1 and not is_asked_to_stop

    def performance(self, seconds_per_step: float) -> dict[str, float]:
        """Return speed, memory, and the share of what this machine's matrix products reach."""
        tokens_per_s = self.config.batch_size * self.config.context_length / seconds_per_step
        performance = {
            "perf__tokens_per_s": tokens_per_s,
            "perf__peak_memory_mb": peak_memory_mb(self.device),
        }
        if self.peak_flops_per_s is not None:
            shape = accounting.shape_of(self.config)
            peak = self.peak_flops_per_s * self.world.size
            mfu = accounting.utilisation_of(shape, tokens_per_s, peak)
            performance["perf__mfu"] = mfu
        return performance

    def update(self) -> dict[str, float]:
        """Make one update; return what the log shows of it.

        Raises:
            TrainingDivergedError: The loss or gradient is not finite; nothing was changed.
            OSError, ValueError: The token file is gone or was changed.
        """
        config = self.config
        check_unchanged(self.corpus.train)
        inputs, targets = self.next_batch()
        self.model.zero_grad(set_to_none=True)
        loss_here = 0.0
        for part in zip(
            inputs.split(self.rows_at_once), targets.split(self.rows_at_once), strict=True
        ):
            loss = self.loss_of(*part) / config.accumulate
            loss.backward()
            loss_here += loss.item()
        loss = self.world.mean(loss_here)
        grad_norm = self.layout.finish_gradients(self.optimizer, config.max_grad_norm)
        if not math.isfinite(loss + grad_norm.item()):
            raise TrainingDivergedError(
                f"step {self.step + 1}: loss {loss:g}, gradient norm {grad_norm.item():g}; "
                f"the update was not made. Try a lower lr than {config.lr:g}"
            )
        self.step += 1
        lr = cosine_schedule(
            self.step,
            config.lr,
            config.lr * config.min_lr_ratio,
            config.warmup_steps,
            self.clock.expected_steps(self.step),
        )
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group["lr_ratio"]
        self.optimizer.step()
        self.recent_losses.append(loss)
        return {
            "step": self.step,
            "elapsed_s": self.clock.elapsed_s,
            "optim__lr": lr,
            "optim__grad_norm": grad_norm.item(),
        }

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Return the rows of the next batch that this process works on."""
        config, tokens = self.config, self.corpus.train.tokens
        sizes = (config.batch_size, config.context_length, self.device)
        rows = self.world.share(config.batch_size)
        if config.order == "epochs":
            return epoch_batch(tokens, *sizes, self.step, config.seed, rows)
        return random_batch(tokens, *sizes, self.batches, rows)

    def validate(
        self,
        log: MetricsLog,
        max_tokens: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Evaluation:
        """Evaluate on the validation text, or the first max_tokens of it, and log the result."""
        check_unchanged(self.corpus.valid)
        result = evaluate(
            self.loss_of,
            self.corpus.valid,
            self.config.context_length,
            self.rows_at_once,
            self.device,
            max_tokens,
            self.plain_loss_of,
            on_progress,
            self.world,
            as_in_training=self.config.compile and not self.config.chunk_loss,
        )
        log.log(
            step=self.step,
            elapsed_s=self.clock.elapsed_s,
            val__loss=result.loss,
            val__bits_per_byte=result.bits_per_byte,
        )
        self.validation_loss = result.loss if math.isfinite(result.loss) else None
        return result

    def sample(self, log: MetricsLog) -> None:
        """Let the model write a little, and log it, unless it lies in parts."""
        can_call = self.world.is_first and not self.layout.is_split
        if not (self.config.sample_tokens and can_call):
            return
        text = write_story(
            self.model, self.corpus.tokenizer, self.config.sample_tokens, self.config.seed
        )
        log.log_sample(self.step, text)


def share_rows(config: TrainConfig, world: World) -> int:
    """Return how many rows of a batch a process works on at a time.

    Raises:
        ValueError: The batch cannot be shared out evenly.
    """
    rows_at_once, remainder = divmod(config.batch_size, world.size * config.accumulate)
    if remainder:
        raise ValueError(
            f"batch_size={config.batch_size} cannot be shared out evenly among {world.size} "
            f"process(es) in accumulate={config.accumulate} parts each"
        )
    return rows_at_once


def lay_out(model: TransformerLM, config: TrainConfig, world: World) -> Replicas:
    """Spread a model over the processes."""
    if config.parallel == "ddp" or world.size == 1:
        return Replicas(model, world)
    # Here and not above: importing it takes half a second.
    from cs_basics.run.fsdp import Shards

    return Shards(model, world)


def parameter_groups(model: TransformerLM, config: TrainConfig) -> list[dict[str, Any]]:
    """Give the embedding table a learning rate of its own; all weights decay equally fast."""
    table = model.token_embeddings.weight
    others = [parameter for parameter in model.parameters() if parameter is not table]
    ratio = 1.0 if config.tie_embeddings else config.embedding_lr_ratio
    return [
        {"params": others, "lr_ratio": 1.0},
        {"params": [table], "lr_ratio": ratio, "weight_decay": config.weight_decay / ratio},
    ]


def train(
    config: TrainConfig,
    resume: bool = False,
    on_progress: OnProgress | None = None,
    world: World = ALONE,
) -> Evaluation:
    """Train a language model and leave everything in its run folder.

    Args:
        config: The run; run_dir must be set.
        resume: Go on from the newest checkpoint of run_dir that is whole.
        on_progress: Told how far the work before and after the updates is; those are logged.
        world: The processes that train together, each calling this with the same arguments.

    Returns:
        The evaluation on the whole validation text.

    Raises:
        ValueError: The configuration, a file or the run folder does not fit; the message says why.
        OSError: A text is missing, or something cannot be written.
        TrainingDivergedError: The loss or gradient was not finite; nothing was updated with it.
        TrainingStoppedError: Ctrl-C or SIGTERM came; the run was saved and can be resumed.
    """
    if config.run_dir is None:
        raise ValueError("run_dir is not set: where should the run be kept?")
    folder = RunFolder(config.run_dir)
    if folder.config.exists() and not resume:
        raise ValueError(
            f"{folder.path} already holds a run: go on with it by --resume, or choose another "
            "run_dir"
        )
    share_rows(config, world)  # A batch that cannot be shared is refused before minutes of work.
    clock = Clock(config.max_steps, config.max_minutes and 60 * config.max_minutes)
    device = resolve_device(config.device)
    is_bfloat16 = resolve_dtype(config.dtype, device) == torch.bfloat16
    dtype = "bfloat16" if world.from_first(is_bfloat16) else "float32"
    if world.is_first:
        folder.remove_leftovers()
    else:
        world.wait()
    corpus = prepare_corpus(config, folder, on_progress)
    if world.is_first:
        # Now the others find everything prepared.
        world.wait()
    config = replace(
        config, vocab_size=corpus.tokenizer.vocab_size, device=device.type, dtype=dtype
    )
    trainer = Trainer(config, folder, corpus, clock, world)
    if resume:
        trainer.restore()
    if world.is_first:
        folder.write_config(config, torch=torch.__version__, git_commit=_git_commit())
    if config.compile:
        trainer.compile()
    num_parameters = sum(p.numel() for p in trainer.model.parameters())
    num_tokens = len(corpus.train.tokens)
    logger.info(
        f"{num_parameters:,} parameters, {num_tokens:,} training tokens, {device}, {config.dtype}"
        + (f", {world.size} processes ({config.parallel})" if world.size > 1 else "")
    )
    try:
        return _train_and_watch(trainer, on_progress)
    except (OSError, ValueError) as error:
        if found := folder.all_checkpoints():
            error.add_note(f"(the last checkpoint is {found[-1]}; --resume goes on from it)")
        raise


def _train_and_watch(trainer: Trainer, on_progress: OnProgress | None) -> Evaluation:
    """Make all updates, evaluate, and let the first process keep metrics, report and samples."""
    config, folder, is_first = trainer.config, trainer.folder, trainer.world.is_first
    # The other processes go through the same motions and leave nothing.
    path = folder.metrics if is_first else None
    with MetricsLog(path, config, trainer.num_metrics_bytes) as log:
        report = Report(folder, config, log) if is_first else None
        try:
            with StopSignals() as stop:
                trainer.run(log, stop, report)
        except BaseException as error:
            if report is not None:
                draw_losses(log, folder)
                report.write(str(error) or type(error).__name__)
            raise
        logger.info("evaluating on the whole validation text")
        result = trainer.validate(log, on_progress=on_progress)
        if report is not None:
            draw_losses(log, folder)
            is_split = trainer.layout.is_split
            model = folder.load_model(trainer.device) if is_split else trainer.model
            samples = write_samples(model, trainer.corpus.tokenizer, folder.samples, config)
            report.write("finished")
            log.finish(folder.plot, samples)
    return result


def draw_losses(log: MetricsLog, folder: RunFolder) -> None:
    """Draw the losses; a full disk costs only the picture, which can be drawn again."""
    try:
        plot_losses(log.rows, folder.plot, title=folder.path.name)
    except OSError as error:
        logger.warning("%s was not drawn: %s", folder.plot, error)


def write_samples(
    model: TransformerLM, tokenizer: Tokenizer, path: Path, config: TrainConfig
) -> list[str]:
    """Let the model write stories from nothing, and keep them as Markdown.

    Returns:
        The stories.
    """
    stories = [
        write_story(model, tokenizer, SAMPLE_TOKENS, config.seed + number)
        for number in range(config.num_samples)
    ]
    settings = f"Temperature {SAMPLING.temperature}, top-p {SAMPLING.top_p}."
    heading = f"# Samples\n\n{settings}\n"
    parts = [f"\n## {number}\n\n{story}\n" for number, story in enumerate(stories, start=1)]
    path.write_text(heading + "".join(parts), encoding="utf-8")
    return stories


def write_story(model: TransformerLM, tokenizer: Tokenizer, max_tokens: int, seed: int) -> str:
    """Let the model write one story from nothing."""
    prompt = tokenizer.encode(f"{END_OF_TEXT}\n")
    stop_ids = tokenizer.encode(END_OF_TEXT)
    ids = generate(model, prompt, max_tokens, SAMPLING, stop_ids=stop_ids, seed=seed)
    return tokenizer.decode(list(ids)).strip()


def _git_commit() -> str | None:
    """Return the commit of this code, if it is a git checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
