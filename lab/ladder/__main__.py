"""Climb to the lowest loss in ten minutes of training, one idea after the other.

python -m lab.ladder --train-text FILE --valid-text FILE
python -m lab.ladder --train-text FILE --valid-text FILE --rungs muon mean-of-fifth

Stopped or killed, it goes on where it was: every finished run is kept. What the rungs are, and by
which rules they are accepted: lab/ladder/ and the page that this writes.
"""

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from process import keep_freed_memory  # isort: split

import torch
from cli import check_can_write, run

from cs_basics.run.atomic import lock
from cs_basics.run.document import write_markdown
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import format_duration, read_metrics
from cs_basics.run.presets import PRESETS
from lab import ROOT
from lab.ladder.climb import Ladder, Recipe, climb, runs_left_at_most
from lab.ladder.page import TITLE, blocks, is_rehearsal
from lab.ladder.rungs import (
    BASE,
    RUNGS,
    choose_rungs,
    flags,
    name_of,
    settings_of,
    work_of,
)
from lab.ladder.scores import (
    HOUR,
    Kind,
    Record,
    Score,
    Terms,
    check_unchanged,
    values,
)
from lab.ladder.texts import Texts, checksum, split
from lab.timing import machine

SCRIPTS = ROOT / "scripts"
HERE = Path(__file__).parent
MAX_THREADS = 2
DIVERGED = "Try a lower lr"
"""What a training says that diverged; other failures say nothing about a recipe."""


def main(
    train_text: Path,
    valid_text: Path,
    rungs: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    max_minutes: float = 10.0,
    choice_updates: int = 1000,
    choice_stories: int = 2,
    out: Path = Path("runs/ladder"),
    preset: Literal["stories", "debug"] = "stories",
) -> None:
    """Train every rung on top of those that won, and alone, and draw the staircase.

    The scores, record.jsonl, and the page, record.md, are in lab/ladder/; those of a rehearsal in
    the folder.

    Args:
        train_text: Text to train on, a tenth of which is held out to choose the rungs.
        valid_text: Text for the final scores alone.
        rungs: Names of rungs to try; what they need is added (none: all).
        seeds: Every recipe is trained once with each; fewer than five are a rehearsal.
        max_minutes: Minutes of a final run, all included; fewer than ten are a rehearsal.
        choice_updates: Updates of the base in a run that decides about a rung; fewer than 1,000 are
            a rehearsal.
        choice_stories: Such a run is trained on one story in so many; in more than two it is a
            rehearsal.
        out: Folder of the runs.
        preset: What the rungs change; debug is a rehearsal.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds={seeds}: give one or more, each once")
    if min(seeds) < 0:
        raise ValueError(f"seeds={seeds}: each must be 0 or greater")
    if choice_updates < 1:
        raise ValueError(f"choice_updates={choice_updates} must be at least 1")
    if choice_stories < 1:
        raise ValueError(f"choice_stories={choice_stories} must be at least 1")
    choose_rungs(rungs)
    base = PRESETS[preset][1].replace(max_minutes=max_minutes, **BASE)
    for rung in RUNGS:
        base.replace(**rung.settings)  # Raises if a value breaks a rule.
    for text in (train_text, valid_text):
        if not text.is_file():
            raise FileNotFoundError(f"{text} does not exist")
    check_can_write(out / "record.md")
    keep_freed_memory()
    # Not the default action: so the run that is being made ends with this process.
    signal.signal(signal.SIGTERM, end)
    torch.set_num_threads(min(MAX_THREADS, os.cpu_count() or 1))
    terms = Terms(
        preset=preset, minutes=max_minutes, choice_updates=choice_updates,
        choice_stories=choice_stories,
        settings={k: v for k, v in base.settings().items() if not isinstance(v, Path)},
        texts={"training": checksum(train_text), "validation": checksum(valid_text)},
        machine=machine(),
    )  # fmt: skip
    home = out if is_rehearsal(terms, seeds) else HERE
    record = Record.open(home / "record.jsonl", terms)
    texts = split(train_text, out / "texts", choice_stories)
    with (out / "lock").open("ab") as file:
        try:
            lock(file)  # Two at once would share the processors, and measure nothing.
        except ValueError:
            raise ValueError(
                f"another process is climbing in {out}: wait for it, or stop it"
            ) from None
        Climber(out, record, rungs, seeds, texts, valid_text).climb()


class Climber:
    """Trains what is missing.

    Args:
        out: The folder of the runs.
        record: What is known so far.
        rungs: Names of the rungs to try; none: all.
        seeds: The seeds.
        texts: The training text and its two parts.
        valid_text: The validation text, which is only named here until all rungs are decided.
    """

    def __init__(
        self,
        out: Path,
        record: Record,
        rungs: Sequence[str],
        seeds: Sequence[int],
        texts: Texts,
        valid_text: Path,
    ) -> None:
        self.out, self.record, self.seeds = out, record, seeds
        self.texts, self.valid_text = texts, valid_text
        tried = {name for score in record.scores for name in score.recipe}
        check_unchanged(record)
        self.rungs = choose_rungs([*rungs, *sorted(tried)]) if rungs else RUNGS
        self.seconds: list[float] = []
        """What each choice took since the start, with the measurement of its update."""

    def climb(self) -> None:
        """Make run after run, and write the page after each."""
        while True:
            ladder = self.read()
            self.write(ladder)
            missing = self.missing(ladder)
            if missing is None:
                break
            kind, recipe, seed = missing
            print(f"{kind} {name_of(recipe)}, seed {seed}{self.left_at_most(ladder)}", flush=True)
            score = self.make_run(kind, recipe, seed)
            self.record.add(score)
            told = (
                score.failure or f"{score.bits_per_byte:.4f} bits per byte, {score.steps:,} updates"
            )
            print(f"        {told}", flush=True)
        accepted = ", ".join(ladder.state.accepted) or "nothing"
        print(f"accepted: {accepted}; page {self.record.path.with_suffix('.md')}")

    def read(self) -> Ladder:
        """Return all that is known so far."""
        chosen = self.record.runs("choice")
        state = climb(self.rungs, values(chosen), self.seeds)
        return Ladder(RUNGS, state, self.record, self.seeds)

    def missing(self, ladder: Ladder) -> tuple[Kind, Recipe, int] | None:
        """Return the next run: its kind, recipe and seed."""
        state = ladder.state
        finals: list[Recipe] = []
        # The validation text waits until all rungs are decided, not only those asked for.
        is_whole = len(self.rungs) == len(RUNGS) or is_rehearsal(self.record.terms, self.seeds)
        if is_whole and state.is_decided:
            finals = list(dict.fromkeys([(), state.accepted]))
        # Base and recipe take turns by the clock: both meet the same changes of the machine.
        # Trials of rungs by themselves come last: no result depends on them.
        wanted: list[tuple[Kind, Sequence[Recipe], Sequence[int]]] = [
            ("final", finals, self.seeds),
            ("hour", finals[-1:], self.seeds[:1]),
            ("choice", state.missing[:1], self.seeds),
        ]
        for kind, recipes, seeds in wanted:
            done = self.record.runs(kind)
            for seed in seeds:
                for recipe in recipes:
                    if seed not in done.get(recipe, {}):
                        return kind, recipe, seed
        return None

    def left_at_most(self, ladder: Ladder) -> str:
        """Say how long all missing runs take if every rung is accepted, once that is known."""
        if not self.seconds:
            return ""
        state, final = ladder.state, self.record.runs("final")
        num_choices = runs_left_at_most(
            self.rungs, values(self.record.runs("choice")), self.seeds, state
        )
        recipes = {(), state.accepted} if state.is_decided else {()}
        num_recipes = len(recipes) if state.is_decided else 2
        made = sum(len(final.get(recipe, {})) for recipe in recipes)
        num_finals = num_recipes * len(self.seeds) - made
        has_hour = state.is_decided and state.accepted in self.record.runs("hour")
        num_hours = 0 if has_hour else HOUR
        seconds = num_choices * fmean(self.seconds)
        seconds += 60 * self.record.terms.minutes * (num_finals + num_hours)
        return f"  (at most about {format_duration(seconds)} left)"

    def make_run(self, kind: Kind, recipe: Recipe, seed: int) -> Score:
        """Train from the start and score; of a run that is killed, nothing counts.

        Raises:
            ValueError: The run was killed.
        """
        folder = self.out / kind / name_of(recipe) / f"seed-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        is_whole, terms, cost = kind != "choice", self.record.terms, None
        start = time.monotonic()
        cache = (folder if is_whole else self.out) / "cache"
        if is_whole:
            minutes = HOUR * terms.minutes if kind == "hour" else terms.minutes
            limit: tuple[Any, ...] = ("--max-minutes", minutes)
        else:
            cost = self.cost_of(recipe)
            steps = max(1, round(terms.choice_updates / cost))
            limit = ("--max-minutes", None, "--max-steps", steps)
        text = self.texts.whole if is_whole else self.texts.part
        train = self.command(folder / "run", recipe, seed, text, limit)
        evaluate = [
            sys.executable, SCRIPTS / "evaluate.py", folder / "run", "--text",
            self.valid_text if is_whole else self.texts.tenth, "--json", "--dtype", "float32",
        ]  # fmt: skip
        bits, failure = None, call(train, folder / "train.log", cache)
        rows = read_metrics(folder / "run" / "metrics.jsonl")
        steps = int(rows[-1]["step"]) if rows else 0
        if not failure:
            failure = call(evaluate, folder / "evaluation.json", cache)
            if not failure:
                told = (folder / "evaluation.json").read_text(encoding="utf-8")
                bits = json.loads(told.splitlines()[-1])["bits_per_byte"]
        if is_whole:
            shutil.rmtree(cache, ignore_errors=True)
        else:
            self.seconds.append(time.monotonic() - start)
            # The weights of all runs would fill a disk.
            shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)
        today = datetime.datetime.now().astimezone().date().isoformat()
        return Score(
            kind=kind, recipe=recipe, seed=seed, bits_per_byte=bits, steps=steps, date=today,
            failure=failure, cost=cost, settings=settings_of(recipe),
        )  # fmt: skip

    def cost_of(self, recipe: Recipe) -> float:
        """Return the time of an update, in updates of the base; it is measured once.

        Rungs that leave the work of an update as it is share one measurement, and its error.

        Raises:
            ValueError: It cannot be measured.
        """
        recipe = work_of(recipe)
        if not recipe:
            return 1.0
        for score in self.record.scores:
            if work_of(score.recipe) == recipe and score.cost is not None:
                return score.cost
        print(f"measuring how long an update takes with {name_of(recipe)}", flush=True)
        folders = [self.out / "cost" / name_of(one) for one in ((), recipe)]
        for folder, one in zip(folders, ((), recipe), strict=True):
            shutil.rmtree(folder, ignore_errors=True)  # It may be of another text.
            folder.mkdir(parents=True)
            settings = settings_of(one) | {
                "train_text": self.texts.part, "valid_text": self.texts.tenth, "max_minutes": None,
                "max_steps": self.record.terms.choice_updates,
            }  # fmt: skip
            preset = PRESETS[self.record.terms.preset][1]
            RunFolder(folder).write_config(preset.replace(**settings))
        answer = folders[1] / "cost.json"
        measure = [sys.executable, "-m", "lab.ladder.update_cost", *folders]
        if failure := call(measure, answer, self.out / "cache"):
            raise ValueError(f"the time of an update with {name_of(recipe)}: {failure}")
        return json.loads(answer.read_text(encoding="utf-8").splitlines()[-1])["cost"]

    def command(
        self, folder: Path, recipe: Recipe, seed: int, text: Path, limit: Sequence[Any]
    ) -> list[Any]:
        """Return the command of a training, which never sees the validation text."""
        return [
            sys.executable, SCRIPTS / "train.py", self.record.terms.preset,
            *limit, *flags(settings_of(recipe)), "--seed", seed,
            "--run-dir", folder, "--train-text", text, "--valid-text", self.texts.tenth,
            "--num-samples", 0, "--sample-tokens", 0, "--no-page",
        ]  # fmt: skip

    def write(self, ladder: Ladder) -> None:
        """Write the page and its picture beside the scores."""
        write_markdown(self.record.path.with_suffix(".md"), TITLE, blocks(ladder))


def end(number: int, frame: object) -> None:  # noqa: ARG001
    """Leave, as after Ctrl-C."""
    sys.exit(128 + number)


def call(command: Sequence[Any], log: Path, cache: Path) -> str:
    """Run a program with few threads and this cache; return its last line if it fails.

    Raises:
        ValueError: It was killed, or lacks something, so that nothing is known of what it does.
    """
    settings = {
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "TORCHINDUCTOR_CACHE_DIR": str(cache.resolve()),
    }
    path = log.with_suffix(".errors.log")
    with log.open("wb") as out, path.open("wb") as errors:
        code = subprocess.run(
            list(map(str, command)), env=os.environ | settings, stdout=out, stderr=errors,
            check=False,
        ).returncode  # fmt: skip
    if code < 0 or code in (130, 143):  # SIGINT or SIGTERM, as train.py reports them.
        raise ValueError(f"the run in {log.parent} was killed (exit code {code}): call this again")
    if not code:
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "no message").strip()
    if DIVERGED not in last:
        raise ValueError(f"the run in {log.parent} failed, and counts for nothing: {last}")
    return last


if __name__ == "__main__":
    run(main)
