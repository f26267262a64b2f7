"""The doctor on runs of this project: before and after them, and on presets."""

import logging
import tempfile
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from statistics import median
from typing import Any

from cs_basics.functional import cross_entropy
from cs_basics.run.batches import draw_batch
from cs_basics.run.clock import Clock
from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import Row, read_metrics
from cs_basics.run.report import counted
from cs_basics.run.trainer import Trainer
from cs_basics.run.updates import make_updates
from cs_basics.settings.run import TrainConfig
from cs_basics.study.doctor.doctor import Doctor, examine
from cs_basics.study.doctor.log import of_metrics, points
from cs_basics.study.doctor.report import Finding, as_text, ranked
from cs_basics.study.doctor.subject import Subject

logger = logging.getLogger(__name__)

ROWS = slice(2)
"""Rows of the batch that is looked at before a run."""
UPDATES = 6
ALONE = {"fast": "off", "num_samples": 0, "device": "auto", "wandb": "disabled"}
"""Settings of a run that is looked at."""


class Examination:
    """What the doctor says of a run: before its first update, and of its losses.

    Attributes:
        verdict: What it said last, in a line.
    """

    verdict = ""

    def __call__(self, trainer: Trainer) -> Callable[..., Sequence[object]]:
        """Examine a run before its first update, and log what is found.

        Returns:
            What adds to that the findings of metrics.
        """
        found = list[Finding]()
        if trainer.world.size == 1 and trainer.step == 0:
            s = Subject(trainer.model, loss_of_run(trainer), trainer.optimizer)
            with s.quiet():  # The generators, too.
                tokens = trainer.corpus.train.tokens
                s.batch = draw_batch(tokens, trainer.config, 0, ROWS, trainer.device)
            examine(s)
            found = ranked(s.findings)
            for line in (*found, *s.could_not):
                logger.warning("doctor: %s", line)

        def find(rows: list[Row], counts: tuple[float, float]) -> Sequence[object]:
            both, could_not = of_metrics(rows, *counts)
            both = ranked([*found, *both])
            more = f"python scripts/doctor.py --run-dir {trainer.folder.path} looks further"
            text = as_text(both, could_not) + f"\n({more})" * bool(could_not and not both)
            self.verdict = text.removeprefix("doctor: ").removeprefix("1. ").replace("\n", " ")
            return [*both] or ([text] if could_not else [])

        return find


def loss_of_run(trainer: Trainer) -> Callable[[Any, Any], Any]:
    """Return the loss of a run; its place is that of the book's cross_entropy."""

    @wraps(cross_entropy)
    def loss_of(_: Any, batch: Any) -> Any:  # noqa: ANN401
        return trainer.plain_loss_of(*batch)

    return loss_of


def of_config(config: TrainConfig, *, is_fast: bool) -> list[Finding]:
    """Make a few updates of a run on a little of the embedded corpus, watched; print the report.

    Args:
        config: Settings of the run.
        is_fast: Whether to make tokens by the fast twins, which need the book itself.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch))
        config = config.replace(train_text=None, valid_text=None, corpus_megabytes=0.5, **ALONE)
        corpus = prepare_corpus(config, folder, is_fast=is_fast)
        config = config.replace(vocab_size=corpus.tokenizer.vocab_size)
        trainer = Trainer(config, folder, corpus, Clock(UPDATES, None))
        return updated(trainer, doctor_of(trainer), trainer.schedule.lr_at)


def of_run(path: Path) -> list[Finding]:
    """Look at the losses of a run, and make a few watched updates from its last weights.

    Nothing in its folder is changed.
    """
    folder = RunFolder(path)
    config, rows = folder.read_config().replace(**ALONE), read_metrics(folder.metrics)
    try:
        if not (folder.tokens / "train.bin").exists() or not folder.all_checkpoints():
            raise FileNotFoundError(f"{path} holds no checkpoint, or no tokens")
        corpus = prepare_corpus(config, folder)
        trainer = Trainer(config, folder, corpus, Clock(config.run.max_steps, None))
    except (OSError, ValueError) as error:
        found, could_not = of_metrics(rows, *counted(folder))
        print(as_text(found, [*could_not, f"the weights: {error}"]))  # noqa: T201
        return found
    doctor = doctor_of(trainer)
    doctor.begin(trainer.next_batch())  # With the first weights, which the seed has made again.
    trainer.restore()
    train, valid = points(rows)
    doctor.logged = train, valid, counted(folder)[1]
    rates = [row["optim/lr"] for row in rows if "optim/lr" in row]
    usual = median(rates or [config.optim.lr])
    doctor.peak = max(rates, default=usual) / (usual or 1.0)
    return updated(trainer, doctor, lambda _: usual)


def doctor_of(trainer: Trainer) -> Doctor:
    """Return a Doctor that knows all of a run."""
    config, corpus = trainer.config, trainer.corpus

    return Doctor(
        trainer.model,
        loss_of_run(trainer),
        trainer.optimizer,
        (trainer.next_batch() for _ in range(UPDATES)),
        tokens=corpus.train.tokens,
        evaluate=lambda: trainer.validate(None, 2_048).loss,
        clip=config.optim.max_grad_norm,
        accumulate=config.run.grad_accum_steps,
    )


def updated(trainer: Trainer, doctor: Doctor, lr_at: Callable[[int], float]) -> list[Finding]:
    """Make UPDATES updates of a run, watched; print and return the report."""
    doctor.loop.schedule = lr_at
    make_updates(
        trainer.optimizer,
        doctor.batches,
        lr_at,
        lambda inputs, targets: doctor.loss_of(trainer.model, (inputs, targets)),
        trainer.clip,
        num_parts=trainer.config.run.grad_accum_steps,
        on_update=lambda update: setattr(trainer, "step", trainer.step + 1),  # noqa: ARG005
    )
    return doctor.report()
