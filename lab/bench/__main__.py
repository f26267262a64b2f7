"""Measure what this project promises, on this machine.

python -m lab.bench pipeline
python -m lab.bench norms --plot norms.png --document docs/norms.md
python -m lab.bench training --plot training.png
python -m lab.bench generation
python -m lab.bench loss --minutes 5 10 --train-text FILE --valid-text FILE
python -m lab.bench norms --json > norms.json
python -m lab.bench tokenizer --plot tokenizer.png
"""

import json
from pathlib import Path
from typing import Annotated, Literal

from process import keep_freed_memory  # isort: split

import tyro
from cli import check_can_write, run

from lab.bench import generation, loss, norms, pipeline, tokenizer, training
from lab.bench.measuring import Report
from lab.timing import machine

SUBJECTS = {
    "pipeline": pipeline.measure,
    "norms": norms.measure,
    "tokenizer": tokenizer.measure,
    "training": training.measure,
    "generation": generation.measure,
}
MINUTES = (5.0, 10.0)
WITH_TABLES = ("norms", "loss")
WITH_PICTURE = ("norms", "tokenizer", "training", "loss")


def main(
    subject: Annotated[
        Literal["pipeline", "norms", "tokenizer", "training", "generation", "loss"],
        tyro.conf.Positional,
    ],
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    plot: Path | None = None,
    document: Path | None = None,
    minutes: tuple[float, ...] = MINUTES,
    train_text: Path | None = None,
    valid_text: Path | None = None,
) -> None:
    """Measure, show a table, and say which goals are met.

    Args:
        subject: pipeline: the way from text to stories, each station by itself. norms:
            normalisation layers against the bandwidth of memory. tokenizer: training, encoding and
            decoding against other libraries. training, generation: against the transformers
            package. loss: which has the lower loss after the same time, transformers or ours.
        as_json: Print one JSON object instead of the table.
        plot: Also draw the subject's picture into this PNG (norms, tokenizer, training, loss).
        document: Also write the subject's tables into this document: docs/norms.md (norms) or
            docs/performance.md (loss).
        minutes: How long each trains; each of these times is a run of its own (loss).
        train_text: Text to train on; none: stories from the grammar (loss).
        valid_text: Text to validate on; goes with train_text (loss).
    """
    if plot is not None:
        if subject not in WITH_PICTURE:
            raise ValueError(
                f"--plot: {subject} has no picture; {', '.join(WITH_PICTURE)} have one"
            )
        check_can_write(plot)
    if document is not None and subject not in WITH_TABLES:
        raise ValueError(
            f"--document: {subject} has no tables in a document; {', '.join(WITH_TABLES)} have"
        )
    if document is not None and not document.is_file():
        raise ValueError(f"--document {document} is not a file")
    if subject != "loss" and (train_text, valid_text, minutes) != (None, None, MINUTES):
        raise ValueError(f"--train-text, --valid-text and --minutes are for loss, not {subject}")
    keep_freed_memory()
    if subject == "loss":
        report = loss.measure(minutes, loss.settings_of(train_text, valid_text))
    else:
        report = SUBJECTS[subject]()
    # Printed first: a document without its marks must not cost the measurement.
    print(json.dumps(to_json(report)) if as_json else to_text(report), flush=True)
    if plot is not None and report.draw is not None:
        report.draw(plot)
    if document is not None and report.write is not None:
        report.write(document)


def to_json(report: Report) -> dict[str, object]:
    """Return the machine, the rows, and what the subject adds."""
    rows = [row.to_json() for row in report.rows]
    return {"machine": machine(), "rows": rows, **report.details}


def to_text(report: Report) -> str:
    """Return the machine, the subject's own tables, and a line for each row."""
    width = max(len(row.name) for row in report.rows)
    lines = [f"\n{machine()}", report.text] if report.text else [f"\n{machine()}"]
    lines += ["", f"{'':{width}}{'ours':>10}{'peer':>10}  {'unit':<10}{'ratio':>7}  goal"]
    for row in report.rows:
        peer = "" if row.peer is None else f"{row.peer:,.4g}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        goal = "" if row.goal is None else f"{row.goal}: {'met' if row.met else 'MISSED'}"
        line = f"{row.name:{width}}{row.ours:>10,.4g}{peer:>10}  {row.unit:<10}{ratio:>7}  {goal}"
        lines.append(line.rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    run(main)
