"""Climb to the lowest loss in ten minutes of training, one idea after the other.

python scripts/ladder.py --train-text FILE --valid-text FILE
python scripts/ladder.py --train-text FILE --valid-text FILE --rungs muon mean-of-fifth

Stopped or killed, it goes on where it was: every finished run is kept. What the rungs are, and by
which rules they are accepted: cs_basics/study/record/ and the page that this writes.
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
from typing import Any, Literal

from process import keep_freed_memory  # isort: split

import torch
from cli import check_can_write, run

from cs_basics.run.atomic import write_atomically
from cs_basics.run.document import Picture, to_markdown
from cs_basics.run.json_file import read_json
from cs_basics.run.metrics import format_duration, read_metrics
from cs_basics.run.presets import PRESETS
from cs_basics.study.record.climb import Recipe, climb, runs_left_at_most
from cs_basics.study.record.page import TITLE, Ladder, blocks
from cs_basics.study.record.rungs import BASE, Rung, choose_rungs, settings_of
from cs_basics.study.record.score import Runs, Score, read_score, values
from cs_basics.study.record.texts import Texts, checksum, split
from cs_basics.study.timing import machine

SCRIPTS = Path(__file__).parent
DOCS = SCRIPTS.parent / "docs"
MAX_THREADS = 2


def main(
    train_text: Path,
    valid_text: Path,
    rungs: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    max_minutes: float = 10.0,
    out: Path = Path("runs/ladder"),
    preset: Literal["stories", "debug"] = "stories",
) -> None:
    """Train every rung alone and on top of those that won, and write record.md with a staircase.

    The page goes into the folder and, unless it is of a rehearsal, into docs/ too.

    Args:
        train_text: Text to train on, a tenth of which is held back to choose the rungs.
        valid_text: Text for the final scores alone.
        rungs: Names of rungs; what they need is added (none: all).
        seeds: Every recipe is trained once with each; fewer than five are a rehearsal.
        max_minutes: Minutes of a run, all included; fewer than ten are a rehearsal.
        out: Folder of the runs; what is done there is not done again.
        preset: What the rungs change; debug is a rehearsal.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds={seeds}: give one or more, each once")
    chosen = choose_rungs(rungs)
    base = PRESETS[preset][1].replace(max_minutes=max_minutes, **BASE)
    for rung in chosen:
        base.replace(**rung.settings)  # Raises if a value breaks a rule.
    for text in (train_text, valid_text):
        if not text.is_file():
            raise FileNotFoundError(f"{text} does not exist")
    check_can_write(out / "record.md")
    keep_freed_memory()
    # Not the default action: so the run that is being made ends with this process.
    signal.signal(signal.SIGTERM, end)
    torch.set_num_threads(min(MAX_THREADS, os.cpu_count() or 1))
    begin(out, {
        "minutes": max_minutes, "preset": base.to_json(),
        "texts": {"training": checksum(train_text), "validation": checksum(valid_text)},
    })  # fmt: skip
    texts = split(train_text, out / "texts")
    command = [sys.executable, SCRIPTS / "train.py", preset, "--max-minutes", max_minutes]
    Climber(out, chosen, seeds, texts, valid_text, command).climb()


def begin(out: Path, what: dict[str, Any]) -> None:
    """Keep what all runs of a folder have in common, or compare it with what was kept.

    Raises:
        ValueError: The folder was begun with something else.
    """
    path, plain = out / "ladder.json", json.loads(json.dumps(what))
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(plain, indent=2).encode() + b"\n")
        return
    stored = read_json(path)
    if stored != plain:
        changed = next(name for name in plain if stored.get(name) != plain[name])
        raise ValueError(f"{out} was begun with another {changed}: choose another --out")


class Climber:
    """Trains what is missing.

    Args:
        out: The folder of the ladder.
        rungs: Its rungs.
        seeds: Its seeds.
        texts: The training text and its two parts.
        valid_text: The validation text, which is only named here until all rungs are decided.
        command: The beginning of the command line of every run.
    """

    def __init__(
        self,
        out: Path,
        rungs: Sequence[Rung],
        seeds: Sequence[int],
        texts: Texts,
        valid_text: Path,
        command: list[Any],
    ) -> None:
        self.out, self.rungs, self.seeds, self.texts = out, rungs, seeds, texts
        self.valid_text, self.command = valid_text, command
        self.walls_s: list[float] = []

    def climb(self) -> None:
        """Make run after run, and write the page after each."""
        while True:
            ladder = self.read()
            self.write(ladder)
            state, missing = ladder.state, self.missing(ladder)
            if missing is None:
                break
            is_final, recipe, seed = missing
            left = 2 * len(self.seeds) if not is_final else sum(
                seed not in ladder.final.get(one, {}) for one in {(), state.accepted}
                for seed in self.seeds
            )  # fmt: skip
            left += runs_left_at_most(self.rungs, values(ladder.chosen), self.seeds, state)
            each_s = sum(self.walls_s) / len(self.walls_s) if self.walls_s else 60 * ladder.minutes
            kind = "final" if is_final else "choice"
            name = "+".join(recipe) or "base"
            time_left = format_duration(left * each_s)
            print(f"{kind} {name}, seed {seed}  (at most {left} runs, {time_left})", flush=True)
            started = time.monotonic()
            score = self.make_run(recipe, seed, is_final=is_final)
            self.walls_s.append(time.monotonic() - started)
            told = (
                score.failure or f"{score.bits_per_byte:.4f} bits per byte, {score.steps:,} updates"
            )
            print(f"        {told}", flush=True)
        print(f"accepted: {', '.join(state.accepted) or 'nothing'}; page {self.out / 'record.md'}")

    def read(self) -> Ladder:
        """Return all that is known so far."""
        chosen, final = self.scores("choice"), self.scores("final")
        state = climb(self.rungs, values(chosen), self.seeds)
        stored = read_json(self.out / "ladder.json")
        return Ladder(
            self.rungs, state, chosen, final, self.seeds, stored["minutes"],
            self.command[2], stored["texts"],
        )  # fmt: skip

    def missing(self, ladder: Ladder) -> tuple[bool, Recipe, int] | None:
        """Return the next run: whether it is a final one, its recipe and its seed."""
        state = ladder.state
        finals: list[Recipe] = (
            [(), state.accepted] if state.is_decided and not state.missing else []
        )
        for is_final, recipes, done in (
            (False, state.missing, ladder.chosen), (True, finals, ladder.final)
        ):  # fmt: skip
            for recipe in recipes:
                for seed in self.seeds:
                    if seed not in done.get(recipe, {}):
                        return is_final, recipe, seed
        return None

    def folder(self, kind: str, recipe: Recipe, seed: int) -> Path:
        """Return the folder of a run."""
        return self.out / kind / ("+".join(recipe) or "base") / f"seed-{seed}"

    def scores(self, kind: str) -> Runs:
        """Read the scores of all finished runs of a kind."""
        found: dict[Recipe, dict[int, Score]] = {}
        for folder in sorted((self.out / kind).glob("*/seed-*")):
            name = folder.parent.name
            recipe = () if name == "base" else tuple(name.split("+"))
            if (score := read_score(folder)) is not None:
                found.setdefault(recipe, {})[int(folder.name.removeprefix("seed-"))] = score
        return found

    def make_run(self, recipe: Recipe, seed: int, *, is_final: bool) -> Score:
        """Train from the start and score; of a run that is killed, nothing counts.

        Raises:
            ValueError: The run was killed.
        """
        kind = "final" if is_final else "choice"
        folder, texts = self.folder(kind, recipe, seed), self.texts
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        judge = self.valid_text if is_final else texts.tenth
        train = [
            *self.command, *flags(settings_of(recipe)), "--seed", seed, "--run-dir", folder / "run",
            # Even a final run does not see the validation text while it trains.
            "--train-text", texts.whole if is_final else texts.rest, "--valid-text", texts.tenth,
            "--num-samples", 0, "--sample-tokens", 0, "--no-page",
        ]  # fmt: skip
        evaluate = [
            sys.executable, SCRIPTS / "evaluate.py", folder / "run", "--text", judge, "--json",
            "--dtype", "float32",
        ]  # fmt: skip
        bits, steps, failure = None, 0, call(train, folder, "train.log")
        if not failure:
            steps = int(read_metrics(folder / "run" / "metrics.jsonl")[-1]["step"])
            failure = call(evaluate, folder, "evaluation.json")
        if not failure:
            text = (folder / "evaluation.json").read_text(encoding="utf-8")
            bits = json.loads(text.splitlines()[-1])["bits_per_byte"]
        today = datetime.datetime.now().astimezone().date().isoformat()
        score = Score(
            bits_per_byte=bits, steps=steps, date=today, machine=machine(), failure=failure
        )
        score.write(folder)
        shutil.rmtree(folder / "cache", ignore_errors=True)
        if not is_final:
            # The weights of all runs would fill a disk.
            shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)
        return score

    def write(self, ladder: Ladder) -> None:
        """Write the page and its picture."""
        document = blocks(ladder)
        for folder in (self.out, *([] if ladder.is_rehearsal else [DOCS])):
            for block in document:
                if isinstance(block, Picture):
                    (folder / block.name).parent.mkdir(parents=True, exist_ok=True)
                    write_atomically(folder / block.name, block.png)
            write_atomically(folder / "record.md", to_markdown(TITLE, document).encode())


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


def call(command: Sequence[Any], folder: Path, log: str) -> str:
    """Run a program with few threads and an empty cache; return its last line if it fails.

    Raises:
        ValueError: It was killed, so that nothing is known of what it does.
    """
    settings = {
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "TORCHINDUCTOR_CACHE_DIR": str((folder / "cache").resolve()),
    }
    with (folder / log).open("wb") as out, (folder / "errors.log").open("wb") as errors:
        code = subprocess.run(
            list(map(str, command)), env=os.environ | settings, stdout=out, stderr=errors,
            check=False,
        ).returncode  # fmt: skip
    if code < 0 or code == 130:
        raise ValueError(f"the run in {folder} was killed (exit code {code}): call this again")
    lines = (folder / "errors.log").read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "no message")
    return (last if code else "").strip()


if __name__ == "__main__":
    run(main)
