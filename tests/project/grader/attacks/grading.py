"""Grades attacks with scripts/instructor/grade.py and says what is not as it should be."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import python

from attacks.attack import PROBLEMS, ROOT, Attack, Expected, build

SECRET = "the secret of all attacks"
# A sandbox is needed: these would kill and read what they can.
LEAST_ISOLATION = "uid"
MAX_S = 120.0
"""Seconds that a whole submission may take on an idle machine."""


@dataclass(frozen=True)
class Graded:
    """What the grader made of one attack."""

    result: dict[str, Any]
    folder: Path

    def without_times(self) -> str:
        """The result without what differs from run to run."""
        plain = self.result | {"seconds": 0}
        plain["items"] = [item | {"seconds": 0} for item in self.result["items"]]
        # Addresses, ids of processes and the time that a submission prints are chance too.
        chance = r"0x[0-9a-f]+|\bpid \d+|\d\d:\d\d:\d\d(\.\d+)?"
        return re.sub(chance, "", json.dumps(plain, indent=1))


def hand_in(attacks: Sequence[Attack], folder: Path) -> None:
    """Build attacks, each as a folder or a zip of the name of its title."""
    folder.mkdir(parents=True)
    for which in attacks:
        made = folder / which.title
        handed_in = build(which, made)
        if handed_in != made:
            shutil.rmtree(made)


def graded(attacks: Sequence[Attack], submissions: Path, out: Path):
    """Grade attacks that are handed in; return the finished command and the results by title.

    It needs a sandbox, and draws the same hidden inputs always.
    """
    only = [word for problem in PROBLEMS for word in ("--only", problem)]
    fixed = ["--exam-seed", SECRET, "--require-isolation", LEAST_ISOLATION]
    more = ["--jobs", os.environ.get("ZOO_JOBS", "2")]
    script = ROOT / "scripts" / "instructor" / "grade.py"
    environment = os.environ | {"ZOO_SECRET": "1", "OMP_NUM_THREADS": "1"}
    finished = python(script, submissions, "--out", out, *only, *fixed, *more, env=environment)
    paths = {which.title: out / which.title / "result.json" for which in attacks}
    return finished, {
        title: Graded(json.loads(path.read_text(encoding="utf-8")), path.parent)
        for title, path in paths.items()
        if path.exists()
    }


def complaints(which: Attack, graded: Graded | None) -> list[str]:
    """Say what of an attack's result is not as it should be."""
    if graded is None:
        return ["no verdict"]
    expected, result = which.expected, graded.result
    found = [*score_complaints(expected, result), *word_complaints(expected, result)]
    # A machine that is not idle is slower.
    if result["seconds"] > MAX_S * max(1.0, os.getloadavg()[0]):
        found.append(f"took {result['seconds']} s, more than {MAX_S:g}")
    if expected.check is not None:
        try:
            expected.check(result, graded.folder)
        except AssertionError as error:
            found.append(str(error) or "its check fails")
    return found


def score_complaints(expected: Expected, result: dict[str, Any]) -> Iterator[str]:
    kept = {
        each["problem"]: each["points"] / each["max_points"]
        for each in result["problems"]
        if each["problem"] not in expected.unsure
    }
    kinds = {name: {0: "none", 1: "all"}.get(share, "some") for name, share in kept.items()}
    wanted = dict.fromkeys(PROBLEMS, "all") | dict.fromkeys(expected.lost, "none")
    wanted |= dict.fromkeys(expected.partly, "some")
    if kinds != {name: kind for name, kind in wanted.items() if name not in expected.unsure}:
        yield f"keeps {kept} of the points, expected {wanted}"
    # Points are written with six places.
    if abs(sum(problem["points"] for problem in result["problems"]) - result["score"]) > 1e-5:
        yield f"a score of {result['score']} is not the sum of the problems"


def word_complaints(expected: Expected, result: dict[str, Any]) -> Iterator[str]:
    note, messages = result["note"], [item["message"] for item in result["items"]]
    if not re.search(expected.note, note):
        yield f"note {note!r} has nothing of {expected.note!r}"
    if not expected.note and note and not expected.lost:
        yield f"note {note!r}, where there is nothing to say"
    if not any(re.search(expected.message, message) for message in messages):
        some = sorted(set(messages), key=len)[-2:]
        yield f"no message has {expected.message!r}; there are {[m[:300] for m in some]}"
    findings = [
        f"{finding['rule']} {finding['operator']} {finding['file']}:{finding['line']}"
        for finding in result["policy"]
    ]
    for pattern in expected.policy:
        if not any(re.search(pattern, finding) for finding in findings):
            yield f"no finding has {pattern!r}; there are {findings[:6]}"
    if findings and not expected.policy and not expected.any_policy:
        yield f"the policy has {findings[:6]}, where there is nothing to find"
