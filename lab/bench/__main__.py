"""Measure what this project promises, on this machine: python -m lab.bench SUBJECT."""

from pathlib import Path
from typing import Annotated, Literal

from process import keep_freed_memory  # isort: split

import tyro
from cli import run

from lab.bench import generation, loss, norms, tokenizer, training
from lab.bench.measuring import show, write_table
from lab.timing import machine

SUBJECTS = {
    "norms": norms.measure,
    "tokenizer": tokenizer.measure,
    "training": training.measure,
    "generation": generation.measure,
}


def main(
    subject: Annotated[
        Literal["norms", "tokenizer", "training", "generation", "loss"],
        tyro.conf.Positional,
    ],
    minutes: float = 10.0,
    quick: bool = False,
    train_text: Path | None = None,
    valid_text: Path | None = None,
) -> None:
    """Measure, show each figure as it is had, and say which goals are met.

    What is whole also goes into docs/performance.md.

    Args:
        subject: norms: normalisation layers against the bandwidth of memory. tokenizer: training,
            encoding and decoding against other libraries. training, generation: against the
            transformers package. loss: which has the lower loss after the same time, transformers
            or ours.
        minutes: How long each trains (loss).
        quick: Ours and two peers only, in the machine's fastest dtype: minutes (training).
        train_text: Text to train on (loss needs it).
        valid_text: Text to validate on (loss needs it).
    """
    keep_freed_memory()
    print(machine())
    if quick and subject != "training":
        raise ValueError(f"--quick is of training: leave it out with {subject}")
    if quick:
        show(training.measure_quickly())
    elif subject in SUBJECTS:
        rows = show(SUBJECTS[subject]())
        if subject in ("training", "tokenizer", "generation"):
            write_table(subject, rows)
    elif train_text is None or valid_text is None:
        raise ValueError("loss needs --train-text and --valid-text")
    else:
        show(loss.measure(minutes, train_text, valid_text))


if __name__ == "__main__":
    run(main)
