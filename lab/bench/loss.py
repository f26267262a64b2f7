"""The loss after equal time: our model against transformers' with torch's optimizers.

Same text, tokenizer, batches, schedule and clock; each with the rate that won a sweep of its own,
in turns of a few seconds (loss_worker.py). The sweep trains on nine in ten stories of the training
text and is judged by the others, so the validation text chooses nothing.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

from cs_basics.run.config import END_OF_TEXT, TrainConfig
from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.folder import RunFolder
from cs_basics.run.presets import PRESETS

from .loss_worker import Kind
from .measuring import Row
from .worker import Worker, command_of, environment_of

TURN_S = 10.0
SWEEP_SHARE = 0.15
"""Each rate of the sweep is tried for this share of the time."""
KINDS: tuple[Kind, ...] = ("ours", "transformers, AdamW", "transformers, Muon")
RATES = (1.5e-3, 3e-3, 6e-3, 1.2e-2)
LEAD = 0.035
"""Bits per byte, over the better of the peers."""

Entrant = tuple[Kind, float]
"""What trains, and its rate."""


def measure(minutes: float, train_text: Path, valid_text: Path) -> Iterator[Row]:
    """Sweep the rates, then race; yield bits per byte, and the updates of the race."""
    config = PRESETS["own-text"][1].replace(train_text=train_text, valid_text=valid_text)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        part, tenth = held_out(train_text, folder)
        swept = config.replace(train_text=part, valid_text=tenth)
        rates = list(product(KINDS, RATES))
        sweep = race(rates, SWEEP_SHARE * minutes, swept, RunFolder(folder / "sweep"))
        for (kind, lr), (bits, _) in sweep.items():
            yield Row(f"sweep: {kind}, rate {lr:g}", bits, "bits/byte")
        best = [
            min((e for e in rates if e[0] == kind), key=lambda e: sweep[e][0]) for kind in KINDS
        ]
        found = race(best, minutes, config, RunFolder(folder / "whole"))
    for (kind, lr), (bits, steps) in found.items():
        yield Row(f"{kind}, rate {lr:g}, {steps:,} updates", bits, "bits/byte")
    mine, *theirs = (bits for bits, _ in found.values())
    lead = min(theirs) - mine
    yield Row("lead", lead, "bits/byte", None, f"at least {LEAD}", lead >= LEAD)


def held_out(text: Path, folder: Path) -> tuple[Path, Path]:
    """Write a text without every tenth story, and these stories; return both files."""
    mark = END_OF_TEXT.encode()
    stories = text.read_bytes().split(mark)
    tenth = stories[9::10]
    del stories[9::10]
    paths = folder / "part.txt", folder / "tenth.txt"
    for path, chosen in zip(paths, (stories, tenth), strict=True):
        path.write_bytes(mark.join(chosen))
    return paths


def race(
    entrants: list[Entrant], minutes: float, config: TrainConfig, folder: RunFolder
) -> dict[Entrant, tuple[float, int]]:
    """Let entrants train in turns until each has had its time; return bits per byte and updates."""
    corpus = prepare_corpus(config, folder)
    settings = config.replace(vocab_size=corpus.tokenizer.vocab_size).to_json()
    with ExitStack() as stack:
        workers: dict[Entrant, Worker] = {}
        for kind, lr in entrants:
            print(f"starting: {kind}, rate {lr:g}", file=sys.stderr)
            told = {"kind": kind, "lr": lr, "minutes": minutes, "settings": settings}
            told["tokens"] = str(folder.tokens)
            command = command_of("loss_worker", json.dumps(told))
            worker = stack.enter_context(Worker(kind, command, environment_of()))
            worker.ask("begin")  # One after the other: each compiles first.
            workers[kind, lr] = worker
        steps = dict.fromkeys(workers, 0)
        unfinished = set(workers)
        while unfinished:
            for entrant in [entrant for entrant in workers if entrant in unfinished]:
                steps[entrant], is_done = workers[entrant].ask(TURN_S)
                if is_done:
                    unfinished.remove(entrant)
        return {one: (worker.ask("evaluate"), steps[one]) for one, worker in workers.items()}
