"""A training run, from a text to its page: `Run.train` is the whole story, told by its methods."""

import contextlib
import logging
import subprocess
from collections.abc import Callable, Generator
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
from cs_basics.run.metrics import Console, MetricsLog
from cs_basics.run.model import check_rooms
from cs_basics.run.progress import OnProgress
from cs_basics.run.report import Find, Report
from cs_basics.run.samples import write_samples
from cs_basics.run.saving import MAX_UNSAVED_S
from cs_basics.run.stopping import StopSignals
from cs_basics.run.trainer import Trainer
from cs_basics.run.wandb_sink import Wandb
from cs_basics.settings.run import TrainConfig

logger = logging.getLogger(__name__)

MakePage = Callable[[RunFolder], object]
Examine = Callable[[Trainer], Find]


def train_run(
    config: TrainConfig,
    resume: bool = False,
    on_progress: OnProgress | None = None,
    world: World = ALONE,
    make_page: MakePage | None = None,
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
    run = Run(config, resume, on_progress, world, make_page, examine)
    return run.train()


class Run:
    """A run in its folder; arguments and errors as of `train_run`."""

    def __init__(
        self,
        config: TrainConfig,
        is_resumed: bool,
        on_progress: OnProgress | None,
        world: World,
        make_page: MakePage | None,
        examine: Examine | None,
    ) -> None:
        self.config, self.is_resumed, self.world = config, is_resumed, world
        self.on_progress, self.make_page, self.examine = on_progress, make_page, examine
        self.samples: list[str] = []
        """Stories that the trained model wrote."""
        run = config.run
        check_rooms(config)
        if run.run_dir is None:
            raise ValueError("run_dir is not set: where should the run be kept?")
        self.folder = RunFolder(run.run_dir)
        if self.folder.config.exists() and not self.is_resumed:
            raise ValueError(
                f"{run.run_dir} already holds a run: go on with it by --resume, or choose another "
                "--run-dir"
            )
        check_layout(config, world)
        self.clock = Clock(run.max_steps, run.max_minutes and 60 * run.max_minutes)

    def train(self) -> Evaluation:
        """Look at the texts, make vocabulary and ids, then model, updates, last figures and page.

        The first process writes; the others do the same work beside it.
        """
        with self.claimed():
            self.resolve_hardware()
            corpus = self.prepare()
            trainer = self.make_trainer(corpus)
            find = self.examine(trainer) if self.examine else None
            self.compile(trainer)
            with self.watched(trainer, find) as log:
                with StopSignals() as stop:
                    trainer.run(log, stop)
                logger.info("evaluating on the whole validation text, then writing samples")
                result = trainer.validate(log, on_progress=self.on_progress)
                if self.world.is_first:
                    self.finish(trainer, log)
        return result

    @contextlib.contextmanager
    def claimed(self) -> Generator[None]:
        """Keep other runs out of the folder; a run that fails at once leaves nothing there."""
        folder, is_first = self.folder, self.world.is_first
        parts = (folder.path, folder.config, folder.corpus, folder.tokenizer, folder.tokens)
        made = [path for path in parts if not path.exists()]
        with folder.claim() if is_first else contextlib.nullcontext():
            try:
                yield
            except Exception:
                # What took longer to prepare is worth a --resume; so is a run without minutes.
                is_short = self.clock.elapsed_s < MAX_UNSAVED_S and self.clock.progress(0) < 1
                if is_short and is_first and not folder.has_begun():
                    for path in made:
                        remove(path)
                raise

    def resolve_hardware(self) -> None:
        """Settle where to train, and in which type of numbers: that of the first process."""
        device = resolve_device(self.config.run.device)
        is_bfloat16 = resolve_dtype(self.config.run.dtype, device) == torch.bfloat16
        dtype = "bfloat16" if self.world.from_first(is_bfloat16) else "float32"
        self.config = self.config.replace(device=device.type, dtype=dtype)

    def prepare(self) -> Corpus:
        """Let the first process look at the texts and make vocabulary and ids; the others wait.

        config.json is written first, when every process has found the folder free: what a kill
        leaves is then a run to be resumed, and not taken for a free folder.
        """
        config, folder, is_first = self.config, self.folder, self.world.is_first
        if is_first:
            folder.remove_leftovers()
            if not self.is_resumed:
                folder.write_config(config, launch=launch())
        else:
            self.world.wait()
        is_fast = config.run.fast == "auto"
        corpus = prepare_corpus(config, folder, self.on_progress, is_fast=is_fast, clock=self.clock)
        if is_first:
            self.world.wait()  # Now the others find everything prepared.
        if not folder.all_checkpoints():
            # Otherwise the model has its size, which may be larger: an imported one may be padded.
            self.config = config.replace(vocab_size=corpus.tokenizer.vocab_size)
        return corpus

    def make_trainer(self, corpus: Corpus) -> Trainer:
        """Build the model and all that trains it, as the newest checkpoint of a resumed run has it.

        config.json then holds what the run was made with.
        """
        config, folder = self.config, self.folder
        self.clock.enter("building the model")
        trainer = Trainer(config, folder, corpus, self.clock, self.world)
        if self.is_resumed:
            trainer.restore()
        if self.world.is_first:
            folder.write_config(
                config,
                torch=torch.__version__,
                git_commit=_git_commit(),
                imported_from=folder.imported_from(),
                launch=launch(),
            )
        return trainer

    def compile(self, trainer: Trainer) -> None:
        """Compile the training step unless the run is to take the book's code as it stands."""
        self.clock.enter("compiling and first update")
        if trainer.is_fast:
            trainer.compile()
        run, num_processes = self.config.run, self.world.size
        logger.info(
            f"{sum(p.numel() for p in trainer.model.parameters()):,} parameters, "
            f"{len(trainer.corpus.train.tokens):,} training tokens, {trainer.device}, {run.dtype}"
            + (f", {num_processes} processes ({run.parallel})" if num_processes > 1 else "")
        )

    @contextlib.contextmanager
    def watched(self, trainer: Trainer, find: Find | None) -> Generator[MetricsLog]:
        """Keep metrics, console, wandb and report up to date, however the run ends."""
        config, folder, is_first = self.config, self.folder, self.world.is_first
        with (
            MetricsLog(folder.metrics if is_first else None, trainer.num_metrics_bytes) as log,
            Wandb(config.run.wandb if is_first else "disabled", config, folder.path) as wandb,
        ):
            size = sum(p.numel() for p in trainer.model.parameters())
            report = Report(folder, config, log, find, size, self.clock)
            for sink in (Console(), wandb, report):
                log.add(sink)
            if is_first:
                report.write("running", is_running=True)  # What draws is loaded before the updates.
            try:
                yield log
                if is_first:
                    report.write("finished")
                    wandb.log_samples(self.samples)
            except BaseException as error:
                if is_first:
                    report.write(str(error) or type(error).__name__)
                if isinstance(error, OSError | ValueError) and (found := folder.all_checkpoints()):
                    error.add_note(
                        f"(the last checkpoint is {found[-1]}; --resume goes on from it)"
                    )
                raise

    def finish(self, trainer: Trainer, log: MetricsLog) -> None:
        """Write samples and page of a run that has made all its updates."""
        folder, run, tokenizer = self.folder, self.config.run, trainer.corpus.tokenizer
        model = folder.load_model(trainer.device) if trainer.layout.is_split else trainer.model
        self.clock.enter("samples")
        self.samples = write_samples(model, tokenizer, folder.samples, run, is_fast=trainer.is_fast)
        if self.samples and not log.samples:  # No evaluation came before the last one.
            log.log_sample(trainer.step, self.samples[0])
        self.clock.enter("page")
        folder.page.unlink(missing_ok=True)  # After a resume it would hold older weights.
        if self.make_page is not None:
            try:
                self.make_page(folder)
            except Exception as error:
                # A student's classes may raise anything, and the run itself has gone well.
                logger.warning("%s was not made: %s", folder.page, error)


def _git_commit() -> str | None:
    """Return the commit of this code, if it is a git checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
