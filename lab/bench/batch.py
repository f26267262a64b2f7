"""Make a mixed batch of submissions, grade it, and say what that takes.

python -m lab.bench.batch hand-in --size 200 --out submissions    # only make it
python -m lab.bench.batch speed                # one right submission beside plain pytest
python -m lab.bench.batch jobs --size 12       # one job, two jobs, memory
python -m lab.bench.batch kills --size 12      # killed at random and resumed
"""

import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from cli import check_can_write, run

from cs_grader.inside.processes import cpu_below, descendants, memory_of
from lab import ROOT

GRADE = ROOT / "scripts" / "instructor" / "grade.py"
LOOK_EVERY_S = 0.5


def main(
    what: Annotated[Literal["hand-in", "speed", "jobs", "kills"], tyro.conf.Positional],
    size: int = 12,
    first: int = 0,
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    kills: int = 3,
    jobs: int = 2,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Make a batch of right, wrong, unfinished, hostile and damaged submissions, and grade it.

    Args:
        what: hand-in: only make the batch. speed: grade a right submission and compare with pytest.
            jobs: grade the batch with one job and with more. kills: kill the grader now and then
            and compare the gradebook.
        size: Number of submissions.
        first: Number of the first submission: every ten hold all kinds, in the same order.
        only: Grade this problem only; may be repeated (none: all of them).
        kills: How often to kill.
        jobs: Submissions at a time.
        seed: Seed of the moments of the kills.
        out: Where to write the batch; needed for hand-in.
    """
    if min(size, jobs, kills) < 1:
        raise ValueError("--size, --jobs and --kills have to be at least 1")
    if what == "hand-in" and out is None:
        raise ValueError("--out is missing: name a folder for the submissions")
    if out is not None:
        check_can_write(out)
        if out.exists():
            raise ValueError(f"{out} exists already: name a new folder")
    with tempfile.TemporaryDirectory(prefix="batch-") as scratch:
        folder = Path(scratch)
        submissions = out or folder / "submissions"
        hand_in(submissions, 1 if what == "speed" else size, first)
        options = [word for problem in only for word in ("--only", problem)]
        if what == "speed":
            compare_speed(next(submissions.iterdir()), folder, only)
        elif what == "jobs":
            compare_jobs(submissions, folder, options, jobs)
        elif what == "kills":
            kill_and_compare(submissions, folder, [*options, "--jobs", str(jobs)], kills, seed)


def hand_in(folder: Path, size: int, first: int) -> None:
    """Write the submissions; speed takes number 0, which is right."""
    sys.path.append(str(ROOT / "tests" / "project" / "grader"))
    mixed: Any = importlib.import_module("mixed_batch")
    folder.mkdir(parents=True)
    for number in range(first, first + size):
        mixed.hand_in(number, folder)
    print(f"{size} submissions in {folder}", flush=True)


# --- what is compared ---


def compare_speed(submission: Path, folder: Path, only: tuple[str, ...]) -> None:
    """Time pytest on a submission, as its author would run it, and the grader on the same items.

    Raises:
        ValueError: More than one problem is given, and pytest examines one or all.
    """
    if len(only) > 1:
        raise ValueError(f"only={only}: give one problem to compare, or none for all")
    plain = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *tests_of(ROOT / "tests")]
    plain += [f"--submission={submission}", *(f"--problem={problem}" for problem in only)]
    options = [word for problem in only for word in ("--only", problem)]
    used = {
        "pytest": measured(plain),
        "the grader, the same items": measured(
            grading(submission, folder / "public", "0", options)
        ),
        "the grader, hidden inputs too": measured(
            grading(submission, folder / "hidden", None, options)
        ),
    }
    base = used["pytest"]
    for name, (wall_s, cpu_s, _, bytes_used) in used.items():
        print(
            f"{name:<30} {wall_s:6.1f} s ({wall_s / base[0]:.2f}), {cpu_s:6.1f} s of CPU"
            f" ({cpu_s / base[1]:.2f}), {bytes_used / 2**20:5.0f} MB"
        )


def compare_jobs(submissions: Path, folder: Path, options: list[str], jobs: int) -> None:
    """Grade a batch with one job and with more."""
    size = len(list(submissions.iterdir()))
    took: dict[int, float] = {}
    for num in sorted({1, jobs}):
        command = grading(submissions, folder / f"jobs-{num}", None, [*options, "--jobs", str(num)])
        wall_s, _, code, bytes_used = measured(command)
        took[num] = wall_s
        print(
            f"{num} at a time: {wall_s:.1f} s, {wall_s / size:.1f} s each,"
            f" {bytes_used / 2**20:.0f} MB at most, exit code {code}"
        )
    print(f"{took[1] / took[jobs]:.2f} times as fast with {jobs} jobs as with one")


def kill_and_compare(
    submissions: Path, folder: Path, options: list[str], kills: int, seed: int
) -> None:
    """Grade a batch in one go, and once more with a kill now and then.

    Raises:
        ValueError: The gradebooks differ.
    """
    chance, secret = random.Random(seed), "what the inputs of both are drawn from"
    began = time.monotonic()
    subprocess.run(grading(submissions, folder / "whole", secret, options), check=False)
    whole_s = time.monotonic() - began
    print(f"left alone: {whole_s:.1f} s", flush=True)
    again = grading(submissions, folder / "killed", secret, [*options, "--resume"])
    for number in range(kills):
        process = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Short enough that the grader is rarely done before it is killed.
        wait_s = chance.uniform(0.5, max(1.2 * whole_s / (kills + 1), 1.0))
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        done = len(list((folder / "killed").glob("*/result.json")))
        print(f"kill {number + 1} after {wait_s:.1f} s: {done} results are there", flush=True)
    subprocess.run(again, check=False)
    first, second = (folder / name / "gradebook.csv" for name in ("whole", "killed"))
    if first.read_bytes() != second.read_bytes():
        kept = Path(tempfile.mkdtemp(prefix="batch-differs-"))
        shutil.copy(first, kept / "whole.csv")
        shutil.copy(second, kept / "killed.csv")
        raise ValueError(f"the gradebooks differ: see {kept}")
    rows = len(first.read_text(encoding="utf-8").splitlines()) - 1
    print(f"killed {kills} times and resumed: the same gradebook of {rows} rows, byte for byte")


# --- how it is measured ---


def tests_of(folder: Path) -> list[str]:
    """The files of the examination."""
    return sorted(map(str, folder.glob("test_*.py")))


def grading(submissions: Path, out: Path, secret: str | None, options: list[str]) -> list[str]:
    """The command that grades these."""
    chosen = [] if secret is None else ["--exam-seed", secret]
    return [sys.executable, str(GRADE), str(submissions), "--out", str(out), *chosen, *options]


def measured(command: list[str]) -> tuple[float, float, int, int]:
    """Run a command; return seconds, seconds of CPU, exit code, and its most bytes of memory.

    CPU and memory are those of all its processes, looked at every half second. CPU is that of one
    sandbox: what an earlier one used is gone with it. Memory that several share counts once.
    """
    before, began, cpu_s, most = cpu_below(), time.monotonic(), 0.0, 0
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    while process.poll() is None:
        cpu_s = max(cpu_s, cpu_below() - before)
        most = max(most, memory_of([process.pid, *descendants(process.pid)], enough=0))
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - began, cpu_s, process.returncode, most


if __name__ == "__main__":
    run(main)
