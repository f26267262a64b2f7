"""How long an update of a run takes, in updates of another: both are trained a little, in turns.

python -m lab.ladder.update_cost runs/stories runs/stories-2

In turns of a few updates, both meet the same changes of the machine's speed. Each goes through a
whole run in small, and the median turn counts: dropout from three tenths of the run on is included,
a mean over its last fifth is not, nor are evaluations and checkpoints. The runs themselves stay as
they are.
"""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from process import keep_freed_memory  # isort: split

from cli import run

from cs_basics.run.clock import Clock
from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.folder import RunFolder
from cs_basics.run.trainer import Trainer
from cs_basics.run.updates import make_updates
from cs_basics.training import Update
from lab.timing import alternating_times

UPDATES = 4
"""Of a turn."""


def main(
    base: Annotated[Path, tyro.conf.Positional],
    other: Annotated[Path, tyro.conf.Positional],
    turns: int = 61,
) -> None:
    """Print the ratio of the median times as a line of JSON: {"cost": 1.08}.

    Args:
        base: Folder of the run to compare with; its config.json is enough.
        other: Folder of the run to measure.
        turns: Turns of four updates for each, of which the median counts; fewer are less exact.
    """
    if turns < 1:
        raise ValueError(f"turns={turns} must be at least 1")
    keep_freed_memory()
    trainers = [trainer_of(RunFolder(path), turns) for path in (base, other)]
    of_base, of_other = alternating_times([partial(make_turn, t) for t in trainers], turns)
    print(json.dumps({"cost": round(of_other / of_base, 4)}))


def trainer_of(folder: RunFolder, turns: int) -> Trainer:
    """Return a training, compiled and ready for its first update."""
    config = folder.read_config()
    corpus = prepare_corpus(config, folder)
    config = config.replace(vocab_size=corpus.tokenizer.vocab_size)
    # One turn more: the first does not count.
    trainer = Trainer(config, folder, corpus, Clock((turns + 1) * UPDATES, None))
    if trainer.is_fast:
        trainer.compile()
    return trainer


def make_turn(trainer: Trainer) -> None:
    """Make the updates of a turn."""

    def after(update: Update) -> None:
        trainer.step = update.step

    make_updates(
        trainer.optimizer, (trainer.next_batch() for _ in range(UPDATES)), trainer.lr_at,
        trainer.loss_of, trainer.clip,
        num_parts=trainer.config.run.grad_accum_steps, first_step=trainer.step + 1,
        on_update=after,
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
