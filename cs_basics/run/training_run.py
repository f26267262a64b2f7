"""A whole training run: texts, tokenizer, updates, evaluation, samples, report."""

import contextlib
import logging
import subprocess
from collections.abc import Callable
from pathlib import Path

import torch

from cs_basics.run.atomic import remove
from cs_basics.run.clock import Clock
from cs_basics.run.corpus import Corpus, prepare_corpus
from cs_basics.run.distributed import ALONE, World, launch
from cs_basics.run.evaluation import Evaluation
from cs_basics.run.folder import RunFolder
from cs_basics.run.hardware import resolve_device, resolve_dtype
from cs_basics.run.layout import check_layout
from cs_basics.run.metrics import Console, MetricsLog, plot_losses
from cs_basics.run.model import check_rooms
from cs_basics.run.progress import OnProgress, signs_of_life
from cs_basics.run.report import Find, Report
from cs_basics.run.samples import write_samples
from cs_basics.run.stopping import StopSignals
from cs_basics.run.trainer import MAX_UNSAVED_S, Trainer
from cs_basics.run.wandb_sink import Wandb
from cs_basics.settings.run import TrainConfig

logger = logging.getLogger(__name__)

Examine = Callable[[Trainer], Find]


def train_run(
    config: TrainConfig,
    resume: bool = False,
    on_progress: OnProgress | None = None,
    world: World = ALONE,
    make_page: Callable[[RunFolder], object] | None = None,
    examine: Examine | None = None,
) -> Evaluation:
    """Train a language model and leave everything in its run folder.

    A run that fails within its first minute and before its first update leaves nothing. Ctrl-C and
    a kill leave what is prepared, for a resume.

    Args:
        config: The run; run_dir must be set.
        resume: Go on from the newest undamaged checkpoint of run_dir.
        on_progress: Called with the progress of the work before and after the updates, which are
            logged instead.
        world: The processes that train together, each calling this with the same arguments.
        make_page: Writes the page of the finished run, which the report links to; a failure costs
            only the page.
        examine: Looks at all before the first update; returns what finds remarks in the metrics.

    Returns:
        The evaluation on the whole validation text.

    Raises:
        ValueError: The configuration, a file or the run folder does not fit; the message says why.
        OSError: A text is missing, or something cannot be written.
        TrainingDivergedError: A loss, gradient or weight was not finite; no such weight was saved.
        TrainingStoppedError: Ctrl-C or SIGTERM came; the run was saved and can be resumed.
    """
    check_rooms(config)
    if config.run.run_dir is None:
        raise ValueError("run_dir is not set: where should the run be kept?")
    folder = RunFolder(config.run.run_dir)
    if folder.config.exists() and not resume:
        raise ValueError(
            f"{folder.path} already holds a run: go on with it by --resume, or choose another "
            "run_dir"
        )
    check_layout(config, world)
    clock = Clock(config.run.max_steps, config.run.max_minutes and 60 * config.run.max_minutes)
    parts = (folder.path, folder.config, folder.corpus, folder.tokenizer, folder.tokens)
    made = [path for path in parts if not path.exists()]
    with folder.claim() if world.is_first else contextlib.nullcontext():
        try:
            return _prepare_and_train(
                config, folder, clock, resume, on_progress, world, make_page, examine
            )
        except Exception:
            # A text that took longer to prepare is worth a --resume; so is a run without minutes.
            is_short = clock.elapsed_s < MAX_UNSAVED_S and clock.progress(0) < 1
            if is_short and world.is_first and not folder.has_begun():
                for path in made:
                    remove(path)
            raise


def _prepare_and_train(
    config: TrainConfig,
    folder: RunFolder,
    clock: Clock,
    resume: bool,
    on_progress: OnProgress | None,
    world: World,
    make_page: Callable[[RunFolder], object] | None,
    examine: Examine | None,
) -> Evaluation:
    """Prepare the corpus, then train."""
    run = config.run
    device = resolve_device(run.device)
    is_bfloat16 = resolve_dtype(run.dtype, device) == torch.bfloat16
    dtype = "bfloat16" if world.from_first(is_bfloat16) else "float32"
    corpus = _prepare(config, folder, resume, on_progress, world)
    config = config.replace(device=device.type, dtype=dtype)
    if not folder.all_checkpoints():
        # Otherwise the model has its size, which may be larger: an imported one may be padded.
        config = config.replace(vocab_size=corpus.tokenizer.vocab_size)
    trainer = Trainer(config, folder, corpus, clock, world)
    if resume:
        trainer.restore()
    if world.is_first:
        folder.write_config(
            config,
            torch=torch.__version__,
            git_commit=_git_commit(),
            imported_from=folder.imported_from(),
            launch=launch(),
        )
    find = examine(trainer) if examine else None
    if trainer.is_fast:
        with signs_of_life("compiling"):
            trainer.compile()
    num_tokens = len(corpus.train.tokens)
    logger.info(
        f"{trainer.num_parameters:,} parameters, {num_tokens:,} training tokens, {device}, {dtype}"
        + (f", {world.size} processes ({config.run.parallel})" if world.size > 1 else "")
    )
    try:
        return _train_and_watch(trainer, on_progress, make_page, find)
    except (OSError, ValueError) as error:
        if found := folder.all_checkpoints():
            error.add_note(f"(the last checkpoint is {found[-1]}; --resume goes on from it)")
        raise


def _prepare(
    config: TrainConfig,
    folder: RunFolder,
    resume: bool,
    on_progress: OnProgress | None,
    world: World,
) -> Corpus:
    """Let the first process prepare texts, tokenizer and token files, and the others open them.

    config.json is written first, when every process has found the folder free: what a kill leaves
    is then a run to be resumed, and not taken for a free folder.
    """
    if world.is_first:
        folder.remove_leftovers()
        if not resume:
            folder.write_config(config, launch=launch())
    else:
        world.wait()
    corpus = prepare_corpus(config, folder, on_progress, is_fast=config.run.fast == "auto")
    if world.is_first:
        # Now the others find everything prepared.
        world.wait()
    return corpus


def _train_and_watch(
    trainer: Trainer,
    on_progress: OnProgress | None,
    make_page: Callable[[RunFolder], object] | None,
    find: Find | None,
) -> Evaluation:
    """Make all updates and evaluate; the first process keeps metrics, report and samples."""
    config, folder, is_first = trainer.config, trainer.folder, trainer.world.is_first
    # The other processes do the same work and write nothing.
    path = folder.metrics if is_first else None
    with (
        MetricsLog(path, trainer.num_metrics_bytes) as log,
        Wandb(config.run.wandb if is_first else "disabled", config, folder.path) as wandb,
    ):
        report = Report(folder, config, log, find)
        for sink in (Console(), wandb, report):
            log.add(sink)
        if is_first:
            report.write("running", is_running=True)  # What draws is loaded before the updates.
        try:
            with StopSignals() as stop:
                trainer.run(log, stop)
            logger.info("evaluating on the whole validation text, then writing samples")
            result = trainer.validate(log, on_progress=on_progress)
            if is_first:
                samples = _finish(trainer, log, make_page)
                report.write("finished")
                wandb.log_results(folder.plot, samples)
        except BaseException as error:
            if is_first:
                draw_losses(log, folder)
                report.write(str(error) or type(error).__name__)
            raise
    return result


def _finish(
    trainer: Trainer, log: MetricsLog, make_page: Callable[[RunFolder], object] | None
) -> list[str]:
    """Write curve, samples and page of a run that has made all its updates; return the samples."""
    folder, tokenizer, run = trainer.folder, trainer.corpus.tokenizer, trainer.config.run
    draw_losses(log, folder)
    model = folder.load_model(trainer.device) if trainer.layout.is_split else trainer.model
    samples = write_samples(model, tokenizer, folder.samples, run, is_fast=trainer.is_fast)
    folder.page.unlink(missing_ok=True)  # After a resume it would hold older weights.
    if make_page is not None:
        try:
            make_page(folder)
        except Exception as error:
            # A student's classes may raise anything, and the run itself has gone well.
            logger.warning("%s was not made: %s", folder.page, error)
    return samples


def draw_losses(log: MetricsLog, folder: RunFolder) -> None:
    """Draw the losses; a full disk costs only the picture, which can be drawn again."""
    try:
        plot_losses(log.rows, folder.plot, title=folder.path.name)
    except OSError as error:
        logger.warning("%s was not drawn: %s", folder.plot, error)


def _git_commit() -> str | None:
    """Return the commit of this code, if it is a git checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
