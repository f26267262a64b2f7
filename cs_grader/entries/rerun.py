"""Runs the command of an entry again: the verifier's texts, its wall and its clock.

The validation text is nowhere inside. In its place stands the end of the training text, and what
the run says of itself is not read: only what it leaves is judged.
"""

import contextlib
import hashlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from cs_grader.entries import wall
from cs_grader.entries.entry import CHECKPOINT, Entry, Terms, copy_clean, newest_checkpoint
from cs_grader.entries.evaluation import Tell, stories_of
from cs_grader.entries.model import SHOWN
from cs_grader.plain_text import plain
from cs_grader.sandbox.processes import HAS_PROC, descendants
from cs_grader.trusted.copying import open_regular

START_S = 15.0
"""Allowed before the clock of a run begins (Python and its packages) and to save the weights."""
END_S = 180.0
"""Allowed after the weights are saved: the run's own evaluation and samples."""
LOOK_S = 0.2
MAX_MEAN_THREADS = 2.5
STAND_IN_BYTES = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Rerun:
    """What became of a command."""

    seed: int
    folder: Path
    """Clean copy of what it left; its `run` is a run folder."""
    complaint: str
    """Why it did not end well; "" if it did."""
    weights_s: float | None
    """Seconds from the start of the process to the last weights; None: it left none."""
    limit_s: float
    """After so many seconds, the weights must be there."""
    is_late: bool
    """Whether the weights that it left were not there in time."""
    mean_threads: float | None
    """Threads that were running or could have been, on average until then; None: the system does
    not tell."""

    @property
    def delay(self) -> str:
        """Why it was too slow; "" if it was not."""
        if not self.is_late:
            return ""
        return f"after {self.limit_s:.0f} s, weights or settings were not those of the end"

    @property
    def crowd(self) -> str:
        """Why it had too many threads; "" if it had not, or if the system does not tell."""
        mean = self.mean_threads or 0.0
        if mean <= MAX_MEAN_THREADS:
            return ""
        return f"{mean:.1f} threads at work on average, at most {MAX_MEAN_THREADS:g} are allowed"


def run_again(
    entry: Entry,
    arguments: list[str],
    terms: Terms,
    train_text: bytes,
    to: Path,
    seed: int,
    tell: Tell,
) -> Rerun:
    """Run the command of an entry behind the wall.

    Args:
        entry: The entry.
        arguments: Those of scripts/train.py, as its command says them.
        terms: The rules: the time of its class, threads, and where cs_basics and scripts are.
        train_text: The verifier's training text.
        to: A folder that does not exist, for what the run leaves.
        seed: The run's seed.
        tell: Called with the seconds that have passed.
    """
    limit_s = 60 * terms.classes[entry.contest] + START_S
    with (
        tempfile.TemporaryDirectory(prefix="cs_grader-") as folder,
        tempfile.TemporaryFile() as output,
    ):
        stage = wall.build_stage(Path(folder), terms.repository, entry.code)
        run = wall.out_of(stage) / "run"
        (stage.root / "train.txt").write_bytes(train_text)
        (stage.root / "valid.txt").write_bytes(stand_in(train_text))
        arguments = [*arguments, "--seed", str(seed), "--run-dir", str(run)]
        arguments += ["--train-text", f"{stage.root}/train.txt"]
        arguments += ["--valid-text", f"{stage.root}/valid.txt", "--device", "cpu", "--no-page"]
        started = wall.running(
            terms.tier,
            stage,
            "scripts/train.py",
            arguments,
            output,
            threads=terms.threads,
            is_training=True,
        )
        began, started_at = time.monotonic(), time.time()
        looks: list[int] = []
        in_time: list[str] = []
        with started as process:
            while process.poll() is None:
                elapsed_s = time.monotonic() - began
                if elapsed_s > limit_s and not in_time:
                    in_time = digests_of(run)
                if elapsed_s > limit_s + END_S:
                    break
                if HAS_PROC and not in_time:
                    looks.append(_running_threads(process.pid))
                told_s = min(round(elapsed_s), round(limit_s))
                tell("running again, seconds", told_s, round(limit_s))
                time.sleep(LOOK_S)
            exit_code = process.poll()
        complaint = ""
        if exit_code is None:
            complaint = f"it had not ended {limit_s + END_S:.0f} s after its start"
        elif exit_code != 0:
            said = plain(wall.last_line(output), 200)
            complaint = f"it ended with exit code {exit_code}: {said}"
        newest = newest_checkpoint(run)
        weights_s = newest.lstat().st_ctime - started_at if newest else None
        is_late = bool(in_time) and in_time != digests_of(run)
        if run.is_dir() and not run.is_symlink():
            left_out = copy_clean(run, to, "run/")
            complaint = complaint or "".join(left_out[:1])
        if not (to / CHECKPOINT).is_file():
            complaint = complaint or "it left no weights"
    return Rerun(
        seed=seed,
        folder=to,
        complaint=complaint,
        weights_s=weights_s,
        limit_s=limit_s,
        is_late=is_late,
        mean_threads=sum(looks) / len(looks) if looks else None,
    )


def digests_of(run: Path) -> list[str]:
    """Return digests of all that the model will be made of: the weights, and what it is shown.

    Time stamps would not do: a file changed through a memory map may keep them.
    """
    digests: list[str] = []
    for path in (newest_checkpoint(run), *(run / name for name in SHOWN)):
        digest = ""
        with contextlib.suppress(OSError):
            if path is not None:
                with open_regular(path) as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
        digests.append(digest)
    return digests


def stand_in(train_text: bytes) -> bytes:
    """Return the last stories of the training text, which the run takes for its validation text.

    Never all of it: a run refuses to validate on the very text that it trains on. Of a text that is
    a single story it is the second half.
    """
    taken: list[bytes] = []
    for story in reversed(stories_of(train_text)[1:]):
        taken.append(story)
        if sum(map(len, taken)) >= STAND_IN_BYTES:
            break
    return b"".join(reversed(taken)) or train_text[len(train_text) // 2 :]


def _running_threads(pid: int) -> int:
    """Count the threads of a process and those below it that run, or wait for a processor."""
    count = 0
    for each in (pid, *descendants(pid)):
        for task in Path(f"/proc/{each}/task").glob("*/stat"):
            try:
                state = task.read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            count += state[:1] == ["R"]
    return count
