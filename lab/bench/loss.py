"""The loss after equal time: our model against transformers' with torch's optimizers.

Same text, tokenizer, batches, schedule and clock; each with the rate that won a sweep of its own,
in turns of a few seconds (loss_worker.py). The sweep trains on nine in ten stories of the training
text and is judged by the others, so the validation text chooses nothing. Each time that is asked
for is a run of its own, with a schedule that ends there.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.config import TrainConfig
from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.folder import RunFolder
from cs_basics.run.presets import PRESETS
from lab.ladder.texts import split

from .loss_worker import Attempt, Kind
from .measuring import Report, Row, write_measured
from .worker import Worker, command_of, environment_of

TURN_S = 10.0
SWEEP_SHARE = 0.15
"""Each rate of the sweep is tried for this share of the longest time."""
KINDS: tuple[Kind, ...] = ("ours", "transformers, AdamW", "transformers, Muon")
RATES = (1.5e-3, 3e-3, 6e-3, 1.2e-2)
MARK = "loss at equal time"
"""Where docs/performance.md has the table."""
LEAD = 0.035
"""Bits per byte, over the better of the peers."""
COLORS = dict(zip(KINDS, ("#c44e52", "#4c72b0", "#55a868"), strict=True))


@dataclass
class Run:
    """The result of an attempt."""

    attempt: Attempt
    rows: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    """At the end of each turn: elapsed_s, step, loss (mean of the turn)."""
    bits_per_byte: float = float("nan")
    """On the whole validation text, at the end."""

    def to_json(self) -> dict[str, Any]:
        """Return what is worth keeping."""
        attempt = self.attempt
        return {
            "kind": attempt.kind, "lr": attempt.lr, "minutes": attempt.minutes,
            "bits_per_byte": self.bits_per_byte, "curve": self.rows,
        }  # fmt: skip


def settings_of(train_text: Path | None, valid_text: Path | None) -> TrainConfig:
    """Return the run that all make: the preset for a text of one's own, or for the grammar's.

    Raises:
        ValueError: One of the texts is missing.
    """
    preset = "stories" if train_text is None else "own-text"
    return PRESETS[preset][1].replace(train_text=train_text, valid_text=valid_text)


def measure(minutes: Sequence[float], config: TrainConfig) -> Report:
    """Sweep the rates, then race for each of the times.

    Args:
        minutes: How long to train, each above 0; for each time a run of its own.
        config: The run, but for its rate and its end.

    Raises:
        ValueError: There is no time, or one is not above 0.
        FileNotFoundError: A text does not exist.
    """
    if not minutes or min(minutes) <= 0:
        raise ValueError(f"minutes={minutes}: give one or several times above 0")
    with tempfile.TemporaryDirectory() as scratch:
        whole = RunFolder(Path(scratch) / "whole")
        attempt = attempts_on(config, whole)
        texts = split(config.data.train_text or whole.corpus / "train.txt", Path(scratch))
        held_back = config.replace(train_text=texts.part, valid_text=texts.tenth)
        attempt_to_choose = attempts_on(held_back, RunFolder(Path(scratch) / "sweep"))
        sweep_minutes = SWEEP_SHARE * max(minutes)
        sweep = race([attempt_to_choose(kind, lr, sweep_minutes) for kind in KINDS for lr in RATES])
        best = best_rates(sweep)
        races = [race([attempt(kind, lr, m) for kind, lr in best.items()]) for m in minutes]
    rows = [*sweep_rows(sweep), *(row for runs in races for row in race_rows(runs))]
    details = {
        "sweep": [run.to_json() for run in sweep],
        "races": [[run.to_json() for run in runs] for runs in races],
    }
    tables = [result_table(sweep, races)]
    return Report(
        rows, details=details, draw=lambda path: draw(races, path),
        write=lambda path: write_measured(path, MARK, tables),
    )  # fmt: skip


def attempts_on(config: TrainConfig, folder: RunFolder) -> Callable[[Kind, float, float], Attempt]:
    """Prepare a corpus; return what makes an attempt on it of a kind, a rate and minutes."""
    corpus = prepare_corpus(config, folder)
    settings = config.replace(vocab_size=corpus.tokenizer.vocab_size).to_json()

    def attempt(kind: Kind, lr: float, minutes: float) -> Attempt:
        tokens = str(folder.tokens)
        return Attempt(kind=kind, lr=lr, minutes=minutes, tokens=tokens, settings=settings)

    return attempt


def best_rates(sweep: list[Run]) -> dict[Kind, float]:
    """Return the rate of each kind that led to the fewest bits per byte."""
    kinds: list[Kind] = list(dict.fromkeys(run.attempt.kind for run in sweep))
    return {
        kind: min(
            (run for run in sweep if run.attempt.kind == kind), key=lambda run: run.bits_per_byte
        ).attempt.lr
        for kind in kinds
    }


def sweep_rows(sweep: list[Run]) -> list[Row]:
    """Show what each rate led to."""
    return [
        Row(
            f"sweep, {run.attempt.minutes:.2g} min: {run.attempt.kind}, rate {run.attempt.lr:g}",
            run.bits_per_byte,
            "bits/byte",
        )
        for run in sweep
    ]


def race_rows(runs: list[Run]) -> list[Row]:
    """Compare ours with each peer after one time: loss, updates, and the lead over the better."""
    mine, *peers = (next(run for run in runs if run.attempt.kind == kind) for kind in KINDS)
    when = f"after {mine.attempt.minutes:g} min"
    lead = min(peer.bits_per_byte for peer in peers) - mine.bits_per_byte
    rows: list[Row] = []
    for peer in peers:
        against = f"{when}, {peer.attempt.kind}"
        rows += [
            Row(f"{against}: validation", mine.bits_per_byte, "bits/byte", peer.bits_per_byte),
            Row(f"{against}: updates", mine.rows[-1]["step"], "", peer.rows[-1]["step"]),
        ]
    return [*rows, Row(f"{when}: lead", lead, "bits/byte", None, f"at least {LEAD}", lead >= LEAD)]


def result_table(sweep: list[Run], races: Sequence[Sequence[Run]]) -> str:
    """Return the table for a document: a row for each race, and one for the sweep."""

    def of_kind(runs: Sequence[Run], kind: Kind) -> list[Run]:
        return [run for run in runs if run.attempt.kind == kind]

    lines = [
        f"| bits per byte | {' | '.join(KINDS)} | lead | goal |",
        f"|---{'|---' * (len(KINDS) + 2)}|",
    ]
    for runs in races:
        *_, lead = race_rows(list(runs))
        cells = [
            f"{run.bits_per_byte:.4f} ({run.rows[-1]['step']:,} updates, rate {run.attempt.lr:g})"
            for kind in KINDS
            for run in of_kind(runs, kind)
        ]
        goal = f"{lead.goal}: {'met' if lead.met else 'missed'}"
        when = f"validation text, after {runs[0].attempt.minutes:g} minutes"
        lines.append(f"| {when} | {' | '.join(cells)} | {lead.ours:.3f} | {goal} |")
    tried = (
        ", ".join(f"{run.bits_per_byte:.3f}" for run in of_kind(sweep, kind)) for kind in KINDS
    )
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    when = (
        f"a tenth of the training text, after {sweep[0].attempt.minutes:g} minutes, rates {rates}"
    )
    return "\n".join([*lines, f"| {when} | {' | '.join(tried)} | | |"])


def race(attempts: list[Attempt]) -> list[Run]:
    """Let attempts train in turns until each has had its time.

    Raises:
        ValueError: A process ended early.
    """
    runs = [Run(attempt) for attempt in attempts]
    with ExitStack() as stack:
        workers: list[Worker] = []
        for attempt in attempts:
            name = f"{attempt.kind}, rate {attempt.lr:g}"
            print(f"starting: {name}", file=sys.stderr)
            command = command_of("loss_worker", attempt.to_json())
            worker = stack.enter_context(Worker(name, command, environment_of()))
            worker.ask("begin")  # One after the other: each compiles first.
            workers.append(worker)
        unfinished = list(zip(runs, workers, strict=True))
        while unfinished:
            for run, worker in unfinished:
                run.rows.append(worker.ask(TURN_S))
            unfinished = [
                (run, worker)
                for run, worker in unfinished
                if run.rows[-1]["elapsed_s"] < 60 * run.attempt.minutes
            ]
        for run, worker in zip(runs, workers, strict=True):
            run.bits_per_byte = worker.ask("evaluate")
    return runs


def draw(races: Sequence[Sequence[Run]], path: Path) -> None:
    """Draw training loss against time, a panel for each race, into a PNG."""
    figure = Figure(figsize=(7 * len(races), 5), layout="constrained")
    (panels,) = figure.subplots(1, len(races), squeeze=False)
    for panel, runs in zip(panels, races, strict=True):
        for run in runs:
            attempt = run.attempt
            label = (
                f"{attempt.kind}, rate {attempt.lr:g}: validation "
                f"{run.bits_per_byte:.4f} bits per byte"
            )
            minutes = [row["elapsed_s"] / 60 for row in run.rows]
            losses = [row["loss"] for row in run.rows]
            panel.plot(minutes, losses, label=label, color=COLORS[attempt.kind])
        panel.set_title(f"{runs[0].attempt.minutes:g} minutes each")
        panel.set_xlabel("minutes of training")
        panel.set_ylabel("training loss (nats per token)")
        panel.legend()
        panel.grid(alpha=0.3)
    with atomic_writer(path) as file:
        figure.savefig(file, dpi=130, format="png")
