"""Grade one submission, or a folder of them, without trusting any of it.

python scripts/instructor/grade.py alice.zip --out report
python scripts/instructor/grade.py submissions --out results --jobs 4
"""

import contextlib
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tyro

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))  # for cli.py

from cli import print_result, progress_printer, run

from cs_grader.plain_text import plain
from cs_grader.results.reading import shown_points
from cs_grader.trusted import batch
from cs_grader.trusted.batch import Graded
from cs_grader.trusted.examination import (
    Examination,
    Terms,
    check_tests,
    remove_remains,
    rubric_of,
)
from cs_grader.trusted.hidden import check_secret
from cs_grader.trusted.isolation import choose_isolation
from cs_grader.trusted.submissions import Submission, find_submissions, passed_over


def main(
    submission: tyro.conf.Positional[Path],
    out: Path,
    jobs: int = 1,
    resume: bool = False,
    shard: str = "1/1",
    pages: bool = False,
    exam_seed: str | None = None,
    require_isolation: Literal["bubblewrap", "uid", "process"] | None = None,
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    minutes: float = 20,
    tests: Path = ROOT / "tests",
) -> None:
    """Grade a submission: results.json (as Gradescope reads it), index.html and other reports.

    A folder of submissions becomes gradebook.csv, index.html for the class, and a folder of reports
    for each submission. The exit code is 1 if there is a submission that the grader reached no
    verdict about.

    Args:
        submission: A zip, a folder, or a folder of these.
        out: Folder of the results.
        jobs: Submissions that are graded at the same time.
        resume: Continue from the results that the folder already holds.
        shard: K/N: grade only every N-th submission, from the K-th on, into a folder that the other
            shards write to as well, from this machine or others; --pages then writes the gradebook.
        pages: Grade nothing: rewrite gradebook and pages from the results that are there.
        exam_seed: Secret that hidden inputs are drawn from, at least 22 random characters; a fresh
            one is drawn and recorded in batch.json if not given. 0: no hidden inputs.
        require_isolation: Grade only if this isolation or a stronger one works; "process" hardly
            isolates and has to be asked for.
        only: Grade this problem only; may be repeated (none: all of them).
        minutes: Time limit for each submission.
        tests: Folder of the examination.
    """
    check_numbers(jobs, minutes)
    part, problems = part_of(shard), chosen(only, tests)
    secret = check_secret(exam_seed)
    ignored = {
        "--resume": resume, "--jobs": jobs != 1, "--exam-seed": exam_seed is not None,
        "--only": bool(only),
    }  # fmt: skip
    if pages and (given := [flag for flag, is_given in ignored.items() if is_given]):
        raise ValueError(f"--pages grades nothing: leave out {', '.join(given)}")
    total = sum(entry["points"] for entry in rubric_of(tests).values())
    if total != 100:
        print_result(f"the points of {tests / 'rubric.toml'} add up to {total:g}, not 100")
    submissions, is_batch = find_submissions(submission)
    if is_batch and out.resolve().is_relative_to(submission.resolve()):
        raise ValueError(f"--out {out} lies among the submissions: choose another folder")
    if is_batch and (others := passed_over(submission)):
        told = plain(", ".join(others), 2_000)
        print_result(f"not graded: {told}")

    def folder_of(one: Submission) -> Path:
        return out / one.name if is_batch else out

    if pages:
        if not out.is_dir():
            raise ValueError(f"--out {out}: there are no results to write pages from")
        looked_up = batch.look_up(submissions, folder_of)
        finish(looked_up, out if is_batch else None, about(submission, tests))
        return
    remove_remains()
    terms = Terms(
        tests=tests.resolve(),
        isolation=choose_isolation(require_isolation),
        secret=secret,
        problems=problems,
        budget_s=minutes * 60,
    )
    # Of several shards, the later ones grade under the terms that the first one has settled.
    terms = batch.settle_terms(out, terms, resume or part != (1, 1))
    if exam_seed is not None and terms.secret != secret:
        raise ValueError(
            f"--exam-seed: {out} was begun with another: leave it out, or use that one"
        )
    submissions = submissions[part[0] - 1 :: part[1]]
    report = Report(len(submissions))
    graded = batch.grade(submissions, folder_of, terms, jobs, report.on_item, report.on_graded)
    finish(graded, out if is_batch and part == (1, 1) else None, about(submission, tests))


def check_numbers(jobs: int, minutes: float) -> None:
    """Refuse numbers of jobs or minutes that are too small."""
    if jobs < 1:
        raise ValueError(f"--jobs {jobs}: use at least 1")
    if not minutes > 0:
        raise ValueError(f"--minutes {minutes:g}: use more than 0")


def finish(graded: Sequence[Graded], out: Path | None, about: Sequence[str] = ()) -> None:
    """Write gradebook and class page, if they have a folder; exit if a verdict is missing."""
    if out is not None:
        batch.write_gradebook(graded, out, about)
        whose = "1 submission" if len(graded) == 1 else f"{len(graded)} submissions"
        print_result(f"{out / 'gradebook.csv'}: the points of {whose}")
        print_result(f"{out / 'index.html'}: what they got wrong, and how many of them")
    if any(one.result is None for one in graded):
        sys.exit(1)


def about(submissions: Path, tests: Path) -> list[str]:
    """Say what was graded, when, by which examination and with which conventions."""
    command = ["git", "-C", str(tests), "rev-parse", "--short", "HEAD"]
    found = ""
    with contextlib.suppress(OSError):  # Without git.
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    by = f"the examination of commit {found}" if found else f"the examination in {tests}"
    contract = tests / "contract.toml"
    chosen = tomllib.loads(contract.read_text())["conventions"] if contract.is_file() else []
    conventions = f"; conventions of this class: {', '.join(chosen)}" if chosen else ""
    day = time.strftime("%Y-%m-%d")
    return [f"{submissions.resolve().name}, {day}, by {by}{conventions}"]


def part_of(shard: str) -> tuple[int, int]:
    """Read K/N.

    Raises:
        ValueError: The text does not have this form.
    """
    number, _, of = shard.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise ValueError(f"--shard {shard}: use K/N with K from 1 to N, such as 1/4")
    return int(number), int(of)


def chosen(only: tuple[str, ...], tests: Path) -> tuple[str, ...]:
    """Return the problems to grade, in the order of the rubric."""
    check_tests(tests)
    problems = tuple(rubric_of(tests))
    for problem in only:
        if problem not in problems:
            raise ValueError(f"--only {problem}: the problems are {', '.join(problems)}")
    return tuple(problem for problem in problems if problem in only or not only)


class Report:
    """Shows how far the grading has come, and each verdict."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done: dict[str, int] = {}
        """Checks made, by submission."""
        self.each = 0
        """Checks of one submission."""
        self.show = progress_printer()
        self.lock = threading.Lock()

    def on_item(self, one: Examination) -> None:
        """Take note of a check; several threads call this."""
        with self.lock:
            self.each = max(self.each, len(one.plan))
            self.done[one.name] = len(one.rows)
            self.show_progress()

    def on_graded(self, graded: Graded) -> None:
        """Say what became of a submission."""
        name, result = graded.submission.name, graded.result
        with self.lock:
            if result is None:
                print_result(f"{name}: NOT GRADED: {graded.fault}")
            else:
                note = f" ({result.note})" if result.note else ""
                print_result(f"{name}: {shown_points(result.total)} of {result.max_score:g}{note}")
                self.each = max(self.each, len(result.items))
            self.done[name] = self.each
            self.show_progress()

    def show_progress(self) -> None:
        """Show how many checks were made, of all submissions together."""
        done, total = sum(self.done.values()), self.each * self.total
        if total:
            self.show("grading", "checks", done, total)


if __name__ == "__main__":
    run(main)
