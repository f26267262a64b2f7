"""Measure what this project promises, on this machine: python -m lab.bench SUBJECT."""

from typing import Literal

from process import keep_freed_memory  # isort: split

import tyro
from cli import run

from lab.bench import generation, tokenizer, training
from lab.bench.measuring import show, write_table
from lab.timing import machine

SUBJECTS = {
    "tokenizer": tokenizer.measure,
    "training": training.measure,
    "generation": generation.measure,
}


def main(
    subject: tyro.conf.Positional[Literal["tokenizer", "training", "generation"]],
) -> None:
    """Measure, show each figure as it is had, and write the table of docs/performance.md.

    Args:
        subject: tokenizer: training and encoding against other libraries. training,
            generation: against the transformers package.
    """
    keep_freed_memory()
    print(machine())
    write_table(subject, show(SUBJECTS[subject]()))


if __name__ == "__main__":
    run(main)
