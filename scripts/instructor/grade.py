"""Grade one submission, or a folder of them, without trusting any of it.

    python scripts/instructor/grade.py alice.zip --out report
    python scripts/instructor/grade.py submissions --out results --jobs 4

One submission writes results.json (as Gradescope reads it) and index.html; a folder of them writes
gradebook.csv, index.html for the class, and a folder for each submission. The exit code is 0 when
every submission got a verdict.
"""

import argparse
import hashlib
import os
import secrets
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cs_grader import batch, sandbox
from cs_grader.batch import Graded
from cs_grader.marking import Marking, Terms, rubric_of
from cs_grader.submissions import Submission, find_submissions

LINE_INTERVAL_S = 10.0
MAX_SEED = 2**31


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """End with one line."""
        raise ValueError(message)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = Parser(
        prog="grade.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("submission", type=Path, help="a zip, a folder, or a folder of these")
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the results")
    add("--jobs", type=int, default=1, metavar="N", help="submissions at a time")
    add("--resume", action="store_true", help="go on with what is in --out")
    add(
        "--exam-seed",
        metavar="SECRET",
        help="number or words from which hidden inputs are drawn (default: a fresh one, recorded"
        " in DIR/batch.json); 0 means no hidden inputs",
    )
    add(
        "--require-isolation",
        choices=sandbox.TIERS,
        metavar="TIER",
        help=f"grade only if this or a stronger one works: {', '.join(sandbox.TIERS)}",
    )
    add("--only", action="append", default=[], metavar="PROBLEM", help="examine only this problem")
    add("--packages", type=Path, metavar="FILE", help="requirements that submissions may import")
    add("--minutes", type=float, default=20.0, help="most time for one submission")
    add("--tests", type=Path, default=ROOT / "tests", metavar="DIR", help="the examination")
    return parser.parse_args(arguments)


def terms_of(options: argparse.Namespace) -> Terms:
    """Check what is asked for.

    Raises:
        ValueError: Something of it cannot be.
    """
    if options.jobs < 1:
        raise ValueError(f"--jobs {options.jobs}: use at least 1")
    if not options.minutes > 0:
        raise ValueError(f"--minutes {options.minutes:g}: use more than 0")
    if not (options.tests / "rubric.toml").is_file():
        raise ValueError(f"--tests {options.tests}: there is no rubric.toml in it")
    problems = tuple(rubric_of(options.tests))
    for problem in options.only:
        if problem not in problems:
            raise ValueError(f"--only {problem}: the problems are {', '.join(problems)}")
    packages: tuple[str, ...] = ()
    if options.packages is not None:
        if not options.packages.is_file():
            raise ValueError(f"--packages {options.packages} is not a file")
        options.out.mkdir(parents=True, exist_ok=True)
        packages = (batch.install(options.packages, options.out),)
    return Terms(
        tests=options.tests.resolve(),
        tier=sandbox.choose_tier(options.require_isolation),
        seeds=seeds_from(options.exam_seed),
        problems=tuple(p for p in problems if p in options.only or not options.only),
        packages=packages,
        budget_s=options.minutes * 60,
    )


def seeds_from(secret: str | None) -> tuple[int, ...]:
    """Return the public seed and the hidden one."""
    if secret is None:
        hidden = 1 + secrets.randbelow(MAX_SEED - 1)
    elif secret.isdecimal():
        hidden = int(secret) % MAX_SEED
    else:
        hidden = int.from_bytes(hashlib.sha256(secret.encode()).digest()[:8], "big") % MAX_SEED
    return (0, hidden) if hidden else (0,)


class Progress:
    """Shows how far the grading is and how long it still takes."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.started = self.shown = time.monotonic()
        self.shares: dict[str, float] = {}
        self.lock = threading.Lock()

    def on_item(self, marking: Marking) -> None:
        """Take note of an item; say something now and then."""
        with self.lock:
            self.shares[marking.name] = len(marking.rows) / max(len(marking.plan), 1)
            now = time.monotonic()
            if now - self.shown >= (0.5 if sys.stderr.isatty() else LINE_INTERVAL_S):
                self.shown = now
                self.show(f"grading {marking.name}", is_last=False)

    def on_graded(self, graded: Graded) -> None:
        """Say what became of a submission."""
        with self.lock:
            name, result = graded.submission.name, graded.result
            self.shares[name] = 1.0
            if result is None:
                self.show(f"{name}: NOT GRADED: {graded.fault}", is_last=True)
            else:
                note = f" ({result.note})" if result.note else ""
                score = f"{result.score:.1f} of {result.max_score:g}"
                self.show(f"{name}: {score}{note}", is_last=True)

    def show(self, text: str, is_last: bool) -> None:
        """Write a line, or write over the one before on a terminal."""
        done = sum(self.shares.values())
        left = (time.monotonic() - self.started) * (self.total - done) / done if done else 0.0
        count = sum(share == 1.0 for share in self.shares.values())
        line = f"[{count} of {self.total}, {duration(left)} left] {text}"
        is_terminal = sys.stderr.isatty()
        end = "\n" if is_last or not is_terminal else ""
        start = "\r\x1b[K" if is_terminal else ""
        print(
            start + (line if is_last or not is_terminal else line[:100]), end=end, file=sys.stderr
        )
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """Write a duration in minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def main(arguments: list[str]) -> int:
    """Grade what the command line asks for; return the exit code."""
    options = parse(arguments)
    submissions, is_batch = find_submissions(options.submission)
    batch.remove_remains()
    terms = batch.settle_terms(options.out, terms_of(options), options.resume)

    def folder_of(submission: Submission) -> Path:
        return options.out / submission.name if is_batch else options.out

    progress = Progress(len(submissions))
    graded = batch.grade(
        submissions, folder_of, terms, options.jobs, progress.on_item, progress.on_graded
    )
    if is_batch:
        batch.write_gradebook(graded, options.out)
    return 0 if all(one.result is not None for one in graded) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        # Without waiting for the threads: what they have started ends with this process.
        os._exit(130)
