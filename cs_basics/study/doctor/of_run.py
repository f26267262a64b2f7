"""The doctor on the runs of this project: before the first update, on a preset, on metrics."""

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cs_basics.generate import Sampling, generate
from cs_basics.run.batches import draw_batch
from cs_basics.run.checkpoint_file import read_checkpoint, write_checkpoint
from cs_basics.run.clock import Clock
from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import Row, Sample
from cs_basics.run.model import build_model
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.report import Find
from cs_basics.run.trainer import Trainer
from cs_basics.run.updates import make_updates
from cs_basics.settings.run import TrainConfig
from cs_basics.study.doctor import curve
from cs_basics.study.doctor.doctor import Doctor, examine
from cs_basics.study.doctor.finding import Finding
from cs_basics.study.doctor.subject import Subject

logger = logging.getLogger(__name__)

ROWS = slice(2)
"""Rows of the batch that is looked at before a run."""
UPDATES = 6


def before_run(trainer: Trainer) -> Find:
    """Examine model, loss and optimizer of a run before its first update, and log what is found.

    Returns:
        What adds to that the findings of metrics and samples.
    """
    found = list[Finding]()
    if trainer.world.size == 1 and trainer.step == 0:
        s = Subject(trainer.model, lambda _, b: trainer.plain_loss_of(*b), trainer.optimizer)
        with s.quiet():  # The generators, too.
            tokens = trainer.corpus.train.tokens
            s.batch = draw_batch(tokens, trainer.config, 0, ROWS, trainer.device)
        examine(s)
        found = sorted(s.findings, key=Finding.rank)
        for line in (*found, *s.could_not):
            logger.warning("doctor: %s", line)

    def find(rows: list[Row], samples: list[Sample], counted: tuple[float, float]) -> list[Finding]:
        return sorted([*found, *of_metrics(rows, samples, counted)], key=Finding.rank)

    return find


def of_metrics(
    rows: Sequence[Row], samples: Sequence[Sample], counted: tuple[float, float]
) -> list[Finding]:
    """Return what a run's losses and samples tell, beside the entropies of its text."""
    train, valid = (
        [(int(row["step"]), row[name]) for row in rows if name in row]
        for name in ("train/loss", "val/loss")
    )
    return [
        *curve.divergence(train),
        *curve.overfitting(train, valid),
        *curve.plateau(train, *counted),
        *curve.too_good(valid, counted[1]),
        *curve.looped(samples),
    ]


def of_config(config: TrainConfig, *, is_fast: bool) -> list[Finding]:
    """Make a few updates of a run on a little of the embedded corpus, watched; print the report.

    Args:
        config: Settings of the run.
        is_fast: Whether to make tokens by the fast twins, which need the book itself.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch))
        config = config.replace(
            train_text=None,
            valid_text=None,
            max_minutes=None,
            dtype="float32",
            max_steps=UPDATES,
            corpus_megabytes=0.5,
            fast="off",
            num_samples=0,
            run_dir=folder.path,
        )
        corpus = prepare_corpus(config, folder, is_fast=is_fast)
        config = config.replace(vocab_size=corpus.tokenizer.vocab_size)
        trainer = Trainer(config, folder, corpus, Clock(UPDATES, None))

        def save_and_load() -> tuple[Any, Any]:
            path = folder.checkpoint_of(trainer.step)
            write_checkpoint(path, trainer.model, trainer.optimizer, trainer.step, {})
            model = build_model(config.model, trainer.device)
            optimizer = make_optimizer(model, config)
            read_checkpoint(path).load_into(model, optimizer)
            return model, optimizer

        def write(ids: list[int]) -> list[int]:
            model: Any = trainer.model
            return [*ids, *generate(model, ids, 24, Sampling(), seed=sum(ids))]

        doctor = Doctor(
            trainer.model,
            lambda _, batch: trainer.plain_loss_of(*batch),
            trainer.optimizer,
            (trainer.next_batch() for _ in range(UPDATES)),
            tokens=corpus.train.tokens,
            decode=corpus.tokenizer.decode,
            text=(folder.corpus / "train.txt").read_text(encoding="utf-8")[:2000],
            evaluate=lambda: trainer.validate(None, 2_048).loss,
            generate=write,
            save_and_load=save_and_load,
            schedule=trainer.lr_at,
            clip=config.optim.max_grad_norm,
            accumulate=config.run.grad_accum_steps,
        )
        make_updates(
            trainer.optimizer,
            doctor.batches,
            trainer.lr_at,
            lambda inputs, targets: doctor.loss_of(trainer.model, (inputs, targets)),
            trainer.clip,
            num_parts=config.run.grad_accum_steps,
            on_update=lambda update: setattr(trainer, "step", update.step),
        )
        return doctor.report()
