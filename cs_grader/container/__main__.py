"""Mark the submission in a container of Gradescope; run_autograder starts it with the base folder.

results.json is rewritten while the examination goes on, whole each time, so that whatever ends this
process leaves the points earned so far. What is printed here only instructors see.
"""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from cs_grader.result import Result, write_atomically
from cs_grader.results.gradescope import results_json
from cs_grader.results.page import report as in_words
from cs_grader.results.reading import Reader
from cs_grader.trusted.examination import Examination, Terms, rubric_of
from cs_grader.trusted.isolation import choose_isolation
from cs_grader.trusted.sandbox import Limits
from cs_grader.trusted.verdict import result_of

WRITE_INTERVAL_S = 5.0
# Memory that the marking itself and PyTorch, without a submission, take in a small container.
OWN_BYTES = 320 * 2**20
LEAST_BYTES = 384 * 2**20
FAILED = "The autograder failed, which is not your submission's fault: tell your instructor."
MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class Report:
    """Keeps results.json up to date."""

    def __init__(self, path: Path, options: dict[str, Any]) -> None:
        self.path = path
        self.options = options
        self.written_at = -WRITE_INTERVAL_S
        self.one: Examination | None = None

    def on_item(self, one: Examination) -> None:
        """Write what is known so far, now and then."""
        self.one = one
        now = time.monotonic()
        if now - self.written_at >= WRITE_INTERVAL_S:
            self.written_at = now
            self.write_so_far("The autograder was stopped.")

    def write(self, result: Result, unfinished: str = "") -> None:
        """Write it in one go."""
        hidden_items = self.options["hidden_items"]
        text = results_json(result, hidden_items=hidden_items, unfinished=unfinished)
        write_atomically(self.path, text)

    def write_so_far(self, reason: str) -> None:
        """Write the points earned until now and say that they are not all."""
        if self.one is None:
            results = {"score": 0, "output": reason, "stdout_visibility": "hidden", "tests": []}
            write_atomically(self.path, json.dumps(results) + "\n")
            return
        done = f"{len(self.one.rows)} of {len(self.one.plan)} checks were made"
        unfinished = f"{reason} {done}; what was not checked counts as not passed."
        self.write(result_of(self.one), unfinished)


def main(base: Path) -> None:
    """Mark what is in the submission folder below `base`."""
    source = base / "source"
    options = json.loads((source / "autograder.json").read_text(encoding="utf-8"))
    report = Report(base / "results" / "results.json", options)
    try:
        terms = terms_of(source / "tests", options)
        one = Examination("submission", terms, report.on_item)
        one.run(base / "submission")
        result = result_of(one)
    except Exception as error:  # Whatever it is: a student gets a report.
        sys.stdout.write(f"not marked: {error}\n")
        report.write_so_far(FAILED)
        return
    report.write(result)
    sys.stdout.write(in_words(result, Reader.INSTRUCTOR))


def terms_of(tests: Path, options: dict[str, Any]) -> Terms:
    """How to mark here.

    Raises:
        ValueError: The container does not allow the isolation that is asked for.
    """
    memory_bytes = Limits().memory_bytes
    room = memory_of_container()
    if room is not None:
        memory_bytes = min(memory_bytes, max(room - OWN_BYTES, LEAST_BYTES))
    return Terms(
        tests=tests,
        isolation=choose_isolation(options["require_isolation"]),
        secret=options["exam_seed"],
        problems=tuple(p for p in rubric_of(tests) if not options["only"] or p in options["only"]),
        limits=Limits(memory_bytes=memory_bytes),
        budget_s=60 * options["minutes"],
    )


def memory_of_container() -> int | None:
    """Bytes that all processes may use together, where the kernel tells."""
    for file in MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):
            return int(file.read_text(encoding="utf-8"))
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
