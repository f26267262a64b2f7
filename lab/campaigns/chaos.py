"""Kill a training run again and again, and see that it ends as if nothing had happened.

python -m lab.campaigns.chaos --kills 30

One run is left alone. Another is killed (SIGKILL) again and again: at random, during a checkpoint,
during an evaluation, after a line of metrics, and at the very end. Some kills also damage a file:
the last line of the metrics is cut off, or a bit of the newest checkpoint flips. Each time the run
is resumed. In the end both must agree in every bit of weights, optimizer and random states and in
every row of their metrics.
"""

import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from cli import run

from cs_basics.run.checkpoint_file import read_checkpoint
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import Row, Sample, format_duration, read_metrics, read_samples
from cs_basics.run.optimizer import make_optimizer
from cs_basics.stories.grammar import write_stories
from cs_basics.variants.model import build_model
from lab import ROOT

TRAIN_SCRIPT = ROOT / "scripts" / "train.py"
EVAL_EVERY = 12
# About the number of updates between kills: the events waited for come every few updates.
STEPS_PER_KILL = 40
SETTINGS = shlex.split(f"""
    --vocab-size 300 --context-length 32 --d-model 32 --d-ff 64
    --batch-size 4 --eval-every {EVAL_EVERY} --eval-tokens 3000 --log-every 4
    --checkpoint-every 10 --num-samples 0 --device cpu --dtype float32
""")
# A rough figure, used only to wait for a few more rows.
BYTES_PER_ROW = 150
POLL_S = 0.0005
# A run that has not reached its moment after this time is taken to hang.
PATIENCE_S = 300.0

Moment = Literal["checkpoint", "evaluation", "log line", "any", "end"]
MOMENTS: list[Moment] = ["checkpoint", "evaluation", "log line", "any", "checkpoint", "any", "end"]


@dataclass
class Kill:
    """How far a process had come when it was killed."""

    moment: Moment
    step: int
    """The step of the last row of its metrics."""
    damage: str
    """What was broken in addition."""


def main(kills: int = 30, seed: int = 0, out: Path | None = None) -> None:
    """Kill a small run many times, resume it each time, and compare it with one left alone.

    Args:
        kills: How often to kill.
        seed: Seed of the moments that are drawn at random.
        out: Folder for the runs, kept; none: a temporary one.
    """
    if kills < 1:
        raise ValueError(f"kills={kills} must be at least 1")
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty: choose another --out")
        run_chaos(folder, kills, random.Random(seed))


def run_chaos(folder: Path, num_kills: int, chance: random.Random) -> None:
    """Make the run that is left alone, and as many runs to be killed as the kills need.

    Raises:
        ValueError: A run that was killed differs from the one left alone.
    """
    start = time.monotonic()
    max_steps = STEPS_PER_KILL * min(num_kills, 15)
    folder.mkdir(parents=True, exist_ok=True)
    write_stories(folder / "train.txt", 100_000, seed=1)
    write_stories(folder / "valid.txt", 10_000, seed=2)
    whole = RunFolder(folder / "whole")
    finish(whole, max_steps)
    usual_s = time.monotonic() - start
    print(f"left alone: {max_steps} updates in {format_duration(usual_s)}", flush=True)
    num_done, num_rounds = 0, 0
    while num_done < num_kills:
        num_rounds += 1
        victim = RunFolder(folder / f"killed-{num_rounds}")
        while num_done < num_kills:
            moment = MOMENTS[num_done % len(MOMENTS)]
            watch = Watch(victim, moment, max_steps, usual_s, chance)
            kill = start_and_kill(watch, num_done, chance)
            if kill is None:
                break
            num_done += 1
            print(
                f"{num_done:>3} killed at {kill.moment:<10} step {kill.step:>4} {kill.damage}",
                flush=True,
            )
            check_prefix(victim, whole)
        finish(victim, max_steps)
        check_same(victim, whole, max_steps)
    elapsed = format_duration(time.monotonic() - start)
    print(
        f"{num_done} kills of {num_rounds} run(s) in {elapsed}: weights, optimizer and metrics are "
        "those of the run left alone, bit for bit"
    )


class Watch:
    """Tells when the moment has come to kill a run.

    Args:
        folder: The run, about to be started.
        moment: What to wait for.
        max_steps: Its last update.
        usual_s: How long a whole run takes.
        chance: Draws how long to wait.
    """

    def __init__(
        self,
        folder: RunFolder,
        moment: Moment,
        max_steps: int,
        usual_s: float,
        chance: random.Random,
    ) -> None:
        self.folder, self.max_steps = folder, max_steps
        self.moment: Moment = moment
        self.until = time.monotonic() + chance.uniform(0, usual_s)
        # The run gets further than the last time, by a different distance each time.
        self.size = metrics_size(folder) + BYTES_PER_ROW * chance.randint(1, 6)
        self.left_over = set(folder.checkpoints.glob("*.tmp"))

    def has_come(self) -> bool:
        """Whether this is the moment."""
        if self.moment == "any":
            return time.monotonic() > self.until
        if self.moment == "end":
            return self.folder.checkpoint_of(self.max_steps).exists()
        if metrics_size(self.folder) <= self.size:
            return False
        if self.moment == "checkpoint":
            return bool(set(self.folder.checkpoints.glob("*.tmp")) - self.left_over)
        return self.moment == "log line" or is_evaluating(self.folder)


def command(folder: RunFolder, max_steps: int) -> list[str]:
    """Return the command that begins a run, or goes on with it."""
    texts = [folder.path.with_name(name) for name in ("train.txt", "valid.txt")]
    given = [sys.executable, TRAIN_SCRIPT, "debug", "--run-dir", folder.path, "--train-text"]
    resume = ["--resume"] if folder.config.exists() else []
    given += [texts[0], "--valid-text", texts[1], "--max-steps", max_steps, *SETTINGS, *resume]
    return list(map(str, given))


def start_run(folder: RunFolder, max_steps: int) -> subprocess.Popen[bytes]:
    """Start or resume a run; what it says is added to a log beside its folder."""
    with folder.path.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(
            command(folder, max_steps),
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )


def finish(folder: RunFolder, max_steps: int) -> None:
    """Let a run come to its end.

    Raises:
        ValueError: It failed.
    """
    with start_run(folder, max_steps) as process:
        check_exit(process.wait(), folder)


def check_exit(code: int, folder: RunFolder) -> None:
    """Refuse any end but that of a whole run."""
    if code:
        log = folder.path.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        raise ValueError(f"{folder.path} ended with code {code}: {log[-2000:]}")


def start_and_kill(watch: Watch, damage_number: int, chance: random.Random) -> Kill | None:
    """Start or resume a run, kill it at its moment and break something; None: it ended before."""
    folder, moment = watch.folder, watch.moment
    with start_run(folder, watch.max_steps) as process:
        try:
            limit = time.monotonic() + PATIENCE_S
            while process.poll() is None and not watch.has_come():
                if time.monotonic() > limit:
                    raise ValueError(f"{folder.path} did not come to its {moment}")
                time.sleep(POLL_S)
            time.sleep(chance.choice([0, 0, 0.002, 0.01]))
        finally:
            process.send_signal(signal.SIGKILL)
        code = process.wait()
    if code != -signal.SIGKILL:
        check_exit(code, folder)
        return None
    rows = read_metrics(folder.metrics)
    return Kill(moment, int(rows[-1]["step"]) if rows else 0, damage(folder, damage_number))


def metrics_size(folder: RunFolder) -> int:
    """Return the length of the metrics in bytes."""
    return folder.metrics.stat().st_size if folder.metrics.exists() else 0


def is_evaluating(folder: RunFolder) -> bool:
    """Tell from the last row of the metrics whether an evaluation is under way."""
    row = read_metrics(folder.metrics)[-1]
    return "train/loss" in row and row["step"] % EVAL_EVERY == 0


def damage(folder: RunFolder, number: int) -> str:
    """Break something that a power cut may break; return what."""
    if number % 4 == 1 and folder.metrics.exists():
        with folder.metrics.open("ab") as file:
            file.write(b'{"step": 99, "train/lo')
        return "and a line was cut off"
    if number % 4 == 2 and len(checkpoints := folder.all_checkpoints()) > 1:
        content = bytearray(checkpoints[-1].read_bytes())
        content[len(content) // 2] ^= 1
        checkpoints[-1].write_bytes(content)
        return "and a bit of the newest checkpoint flipped"
    return ""


def check_prefix(victim: RunFolder, whole: RunFolder) -> None:
    """Refuse metrics, complete or not, that are not the beginning of those of the other run.

    Raises:
        ValueError: A row is missing, doubled or different.
    """
    for read in (timeless_rows, samples_of):
        rows, wanted = read(victim), read(whole)
        for number, row in enumerate(rows):
            if number >= len(wanted) or row != wanted[number]:
                raise ValueError(
                    f"{victim.metrics}: row {number + 1} of {read.__name__} is {row}, see "
                    f"{whole.metrics}"
                )


def check_same(victim: RunFolder, whole: RunFolder, max_steps: int) -> None:
    """Compare two finished runs.

    Raises:
        ValueError: They differ in a bit or a row.
    """
    check_prefix(victim, whole)
    if any(len(read(victim)) != len(read(whole)) for read in (timeless_rows, samples_of)):
        raise ValueError(f"{victim.metrics} lacks rows at its end")
    left, right = (state_of(run, max_steps) for run in (victim, whole))
    if difference := first_difference(left, right):
        raise ValueError(f"{victim.path} and {whole.path} differ in {difference}")


def state_of(folder: RunFolder, step: int) -> dict[str, Any]:
    """Return all that a run would go on with, loaded from the checkpoint of a step.

    The bytes that torch.save writes are not compared: they may differ where the tensors agree.
    """
    config, checkpoint = folder.read_config(), read_checkpoint(folder.checkpoint_of(step))
    model = build_model(config.model)
    optimizer = make_optimizer(model, config)
    return {
        "iteration": checkpoint.load_into(model, optimizer),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": checkpoint.progress,
    }


def timeless_rows(folder: RunFolder) -> list[Row]:
    """Return the metrics without what depends on the clock."""
    return [
        {k: v for k, v in row.items() if not k.startswith(("perf/", "elapsed"))}
        for row in read_metrics(folder.metrics)
    ]


def samples_of(folder: RunFolder) -> list[Sample]:
    """Return what the model wrote on the way."""
    return read_samples(folder.metrics)


def first_difference(left: Any, right: Any, name: str = "checkpoint") -> str | None:  # noqa: ANN401
    """Name the first part in which two states differ, except what depends on the clock."""
    if name.endswith((".elapsed_s", ".num_metrics_bytes")):
        return None
    if isinstance(left, torch.Tensor):
        return None if left.dtype == right.dtype and torch.equal(left, right) else name
    if isinstance(left, dict | list | tuple):
        if len(left) != len(right):
            return name
        keys: Any = left if isinstance(left, dict) else range(len(left))
        parts = (first_difference(left[key], right[key], f"{name}.{key}") for key in keys)
        return next((part for part in parts if part), None)
    return None if left == right else name


if __name__ == "__main__":
    run(main)
