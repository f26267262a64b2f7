"""Climb to the lowest loss in ten minutes of training, one idea after the other.

python scripts/ladder.py --train-text FILE --valid-text FILE
python scripts/ladder.py --train-text FILE --valid-text FILE --rungs muon mean-of-fifth

Stopped or killed, it goes on where it was: every finished run is kept. On a machine of another
speed, too: there a run takes longer or shorter, so that the base makes as many updates. What the
rungs are, and by which rules they are accepted: cs_basics/study/record/ and the page that this
writes.
"""

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal

from process import keep_freed_memory  # isort: split

import torch
from cli import check_can_write, run

from cs_basics.run.atomic import lock, write_atomically
from cs_basics.run.document import Picture, to_markdown
from cs_basics.run.metrics import format_duration, read_metrics
from cs_basics.run.presets import PRESETS
from cs_basics.study.record.climb import Recipe, climb, runs_left_at_most
from cs_basics.study.record.page import TITLE, Ladder, blocks, is_rehearsal
from cs_basics.study.record.rungs import BASE, RUNGS, choose_rungs, settings_of
from cs_basics.study.record.scores import Kind, Record, Score, Terms, values
from cs_basics.study.record.texts import Texts, checksum, split
from cs_basics.study.timing import machine

SCRIPTS = Path(__file__).parent
DOCS = SCRIPTS.parent / "docs"
MAX_THREADS = 2
SPEED_MINUTES, CHANCE, MAX_STRETCH = 0.5, 0.1, 4.0
"""How long the speed of the machine is measured, which differences are chance, and how much longer
or shorter than when the ladder was begun its runs may take."""
DIVERGED = "Try a lower lr"
"""What a training says that diverged; other failures say nothing about a recipe."""
AROUND_MINUTES = 0.3
"""What a run takes beside its minutes: starting Python, and being judged."""


def main(
    train_text: Path,
    valid_text: Path,
    rungs: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    max_minutes: float = 10.0,
    choice_minutes: float = 2.0,
    choice_stories: int = 2,
    out: Path = Path("runs/ladder"),
    preset: Literal["stories", "debug"] = "stories",
) -> None:
    """Train every rung on top of those that won, and alone, and draw the staircase.

    The scores, record.jsonl, and the page, record.md, are in docs/; those of a rehearsal in the
    folder.

    Args:
        train_text: Text to train on, a tenth of which is held back to choose the rungs.
        valid_text: Text for the final scores alone.
        rungs: Names of rungs to try; what they need is added (none: all).
        seeds: Every recipe is trained once with each; fewer than five are a rehearsal.
        max_minutes: Minutes of a final run, all included; fewer than ten are a rehearsal.
        choice_minutes: Minutes of a run that decides about a rung; fewer than two are a rehearsal.
        choice_stories: Such a run is trained on one story in so many; in more than two it is a
            rehearsal.
        out: Folder of the runs.
        preset: What the rungs change; debug is a rehearsal.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds={seeds}: give one or more, each once")
    if min(seeds) < 0:
        raise ValueError(f"seeds={seeds}: each must be 0 or greater")
    if choice_stories < 1:
        raise ValueError(f"choice_stories={choice_stories} must be at least 1")
    choose_rungs(rungs)
    PRESETS[preset][1].replace(max_minutes=choice_minutes)
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
        preset=preset, minutes=max_minutes, choice_minutes=choice_minutes,
        choice_stories=choice_stories,
        settings={k: v for k, v in base.settings().items() if not isinstance(v, Path)},
        texts={"training": checksum(train_text), "validation": checksum(valid_text)},
        machine=machine(),
    )  # fmt: skip
    home = out if is_rehearsal(terms, seeds) else DOCS
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
        self.rungs = choose_rungs([*rungs, *sorted(tried)]) if rungs else RUNGS
        terms = record.terms
        self.minutes: dict[Kind, float] = {
            "speed": SPEED_MINUTES, "choice": terms.choice_minutes,
            "final": terms.minutes, "hour": 6 * terms.minutes,
        }  # fmt: skip
        for score in record.scores:
            if score.settings not in (None, settings_of(score.recipe)):
                raise ValueError(
                    f"{record.path}: the rungs of {'+'.join(score.recipe)} have changed since "
                    f"{score.date}: delete its lines to train it again"
                )
        self.stretch = 1.0
        """Minutes of this machine for one of that on which the ladder was begun."""
        self.is_compiled: set[Recipe] = set()

    def climb(self) -> None:
        """Make run after run, and write the page after each.

        Raises:
            ValueError: The machine is much faster or slower than when the ladder was begun.
        """
        if self.missing(self.read()) is not None:
            self.measure_speed()
        while True:
            ladder = self.read()
            self.write(ladder)
            missing = self.missing(ladder)
            if missing is None:
                break
            kind, recipe, seed = missing
            left = self.minutes_left_at_most(ladder)
            name = "+".join(recipe) or "base"
            print(f"{kind} {name}, seed {seed}  (at most {format_duration(60 * left)} left)",
                  flush=True)  # fmt: skip
            score = self.make_run(kind, recipe, seed)
            self.record.add(score)
            told = (
                score.failure or f"{score.bits_per_byte:.4f} bits per byte, {score.steps:,} updates"
            )
            print(f"        {told}", flush=True)
        accepted = ", ".join(ladder.state.accepted) or "nothing"
        print(f"accepted: {accepted}; page {self.record.path.with_suffix('.md')}")

    def measure_speed(self) -> None:
        """Train the base for half a minute, and stretch all runs by how much longer it takes now.

        By a tenth it can take longer by chance; a larger difference is measured twice more. Then
        the base is trained as long as a choice, if it was before: half a minute is off by a tenth.

        Raises:
            ValueError: The machine is much faster or slower than when the ladder was begun.
        """
        print("measuring how fast this machine is", flush=True)
        score = self.make_run("speed", (), 0)
        before = self.record.runs("speed")
        if score.failure:
            raise ValueError(f"the base cannot be trained: {score.failure}")
        if not before:
            self.record.add(score)
            return
        begun, steps = before[()][0].steps, score.steps
        if abs(begun / max(1, steps) - 1) <= CHANCE:
            return
        steps = median([steps, *(self.make_run("speed", (), 0).steps for _ in range(2))])
        self.stretch = begun / max(1, steps)
        if not 1 / MAX_STRETCH <= self.stretch <= MAX_STRETCH:
            raise ValueError(
                f"this machine makes {steps:.0f} updates in half a minute, and {begun} were made "
                f"when {self.record.path} was begun: the runs would take {self.stretch:.2g} times "
                "as long; wait until it is quiet, or move that file away to begin anew"
            )
        print(f"{steps:.0f} updates in half a minute, {begun} when the ladder was begun: "
              f"{self.stretch:.2f} times its minutes", flush=True)  # fmt: skip
        choices = self.record.runs("choice").get((), {}).values()
        if known := [choice.steps for choice in choices if choice.stretch == 1]:
            score = self.make_run("choice", (), 0)
            if score.failure:
                raise ValueError(f"the base cannot be trained: {score.failure}")
            self.stretch *= median(known) / max(1, score.steps)
            print(f"{score.steps} updates of the base as a choice, {median(known):.0f} when the "
                  f"ladder was begun: {self.stretch:.2f} times its minutes",
                  flush=True)  # fmt: skip

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
        if is_whole and state.is_decided and not state.missing:
            finals = list(dict.fromkeys([(), state.accepted]))
        wanted: list[tuple[Kind, list[Recipe], Sequence[int]]] = [
            ("choice", state.missing, self.seeds),
            ("final", finals, self.seeds),
            ("hour", finals[-1:], self.seeds[:1]),
        ]
        for kind, recipes, seeds in wanted:
            done = self.record.runs(kind)
            for recipe in recipes:
                for seed in seeds:
                    if seed not in done.get(recipe, {}):
                        return kind, recipe, seed
        return None

    def minutes_left_at_most(self, ladder: Ladder) -> float:
        """Return how long all missing runs take if every rung is accepted."""
        final, state = self.record.runs("final"), ladder.state
        counts: dict[Kind, int] = {
            "choice": runs_left_at_most(
                self.rungs, values(self.record.runs("choice")), self.seeds, state
            ),
            "final": sum(
                seed not in final.get(recipe, {}) for recipe in {(), state.accepted}
                for seed in self.seeds
            ),
            "hour": 1,
        }  # fmt: skip
        return self.stretch * sum(
            number * (self.minutes[kind] + AROUND_MINUTES) for kind, number in counts.items()
        )

    def make_run(self, kind: Kind, recipe: Recipe, seed: int) -> Score:
        """Train from the start and score; of a run that is killed, nothing counts.

        Raises:
            ValueError: The run was killed.
        """
        folder = self.out / kind / ("+".join(recipe) or "base") / f"seed-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        is_whole = kind in {"final", "hour"}
        cache = (folder if is_whole else self.out) / "cache"
        if not is_whole and recipe not in self.is_compiled:
            # So that all choices find compiled code: in their minutes it would weigh too much.
            train = self.command(folder / "first", recipe, seed, self.texts.part, 1 / 60)
            call(train, folder / "first.log", cache)
            self.is_compiled.add(recipe)
        text = self.texts.whole if is_whole else self.texts.part
        minutes = self.minutes[kind] * self.stretch
        train = self.command(folder / "run", recipe, seed, text, minutes)
        evaluate = [
            sys.executable, SCRIPTS / "evaluate.py", folder / "run", "--text",
            self.valid_text if is_whole else self.texts.tenth, "--json", "--dtype", "float32",
        ]  # fmt: skip
        bits, steps, failure = None, 0, call(train, folder / "train.log", cache)
        if not failure:
            steps = int(read_metrics(folder / "run" / "metrics.jsonl")[-1]["step"])
        if not failure and kind != "speed":
            failure = call(evaluate, folder / "evaluation.json", cache)
            if not failure:
                told = (folder / "evaluation.json").read_text(encoding="utf-8")
                bits = json.loads(told.splitlines()[-1])["bits_per_byte"]
        if is_whole:
            shutil.rmtree(cache, ignore_errors=True)
        else:
            # The weights of all runs would fill a disk.
            shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)
        today = datetime.datetime.now().astimezone().date().isoformat()
        return Score(
            kind=kind, recipe=recipe, seed=seed, bits_per_byte=bits, steps=steps, date=today,
            failure=failure, stretch=round(self.stretch, 3), settings=settings_of(recipe),
        )  # fmt: skip

    def command(
        self, folder: Path, recipe: Recipe, seed: int, text: Path, minutes: float
    ) -> list[Any]:
        """Return the command of a training, which never sees the validation text."""
        return [
            sys.executable, SCRIPTS / "train.py", self.record.terms.preset,
            "--max-minutes", minutes, *flags(settings_of(recipe)), "--seed", seed,
            "--run-dir", folder, "--train-text", text, "--valid-text", self.texts.tenth,
            "--num-samples", 0, "--sample-tokens", 0, "--no-page",
        ]  # fmt: skip

    def write(self, ladder: Ladder) -> None:
        """Write the page and its picture beside the scores."""
        home, document = self.record.path.parent, blocks(ladder)
        for block in document:
            if isinstance(block, Picture):
                write_atomically(home / block.name, block.png)
        write_atomically(home / "record.md", to_markdown(TITLE, document).encode())


def end(number: int, frame: object) -> None:  # noqa: ARG001
    """Leave, as after Ctrl-C."""
    sys.exit(128 + number)


def flags(settings: dict[str, Any]) -> list[str]:
    """Return settings as flags of train.py."""
    told: list[str] = []
    for setting, value in settings.items():
        name = setting.replace("_", "-")
        if isinstance(value, bool):
            told.append(f"--{name}" if value else f"--no-{name}")
        else:
            told += [f"--{name}", str(value)]
    return told


def call(command: Sequence[Any], log: Path, cache: Path) -> str:
    """Run a program with few threads and this cache; return its last line if it fails.

    Raises:
        ValueError: It was killed, or lacks something, so that nothing is known of what it does.
    """
    settings = {
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "TORCHINDUCTOR_CACHE_DIR": str(cache.resolve()),
    }
    path = log.with_name("errors.log")
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
