"""The grader marks every animal of the zoo rightly.

`make test` grades a third of the rows in one test; `make zoo` grades all, twice, with a test for
each animal (ZOO=all).
"""

import os
import re
import signal
import subprocess
import time

import pytest
from zoo.animal import Animal, Expected, load
from zoo.grading import command, complaints, grade, hand_in, results

from cs_grader import sandbox

ANIMALS = load()
# A third of the rows, those that grade within a few seconds.
FAST_TITLES = """
01-exits-during-import 02-ends-by-os-exit 08-asks-for-50-GB 10-segmentation-fault 12-writes-results
14-makes-comparisons-agree 16-looks-for-the-answer-in-frames 20-a-shape-that-broadcasts
25-brings-settings-and-plugins-for-pytest 29-its-adapters-are-a-link
30-a-zip-with-names-that-lead-elsewhere 33-without-adapters 34-a-package-that-is-not-installed
36-prints-without-end 37-writes-into-every-descriptor 41-SiLU-in-the-package
42-falls-back-where-it-is-caught 43-only-looks-forbidden 46-is-right-where-nobody-looks
"""
FAST = [which for which in ANIMALS if which.title in FAST_TITLES.split()]
IS_WHOLE = os.environ.get("ZOO") == "all"
whole = pytest.mark.skipif(not IS_WHOLE, reason="make zoo grades all animals")


def has_a_wall():
    try:
        sandbox.choose_tier("uid")
    except (ValueError, OSError):
        return False
    return True


walled = pytest.mark.skipif(not has_a_wall(), reason="neither bubblewrap nor another user works")


def graded_once(animals, folder):
    hand_in(animals, folder / "in")
    finished = grade(folder / "in", folder / "out", "--jobs", os.environ.get("ZOO_JOBS", "1"))
    return finished, results(animals, folder / "out")


@pytest.fixture(scope="module")
def twice(request, tmp_path_factory):
    """The chosen animals, graded two times over."""
    chosen = {item.callspec.params["which"] for item in request.session.items if is_of_zoo(item)}
    animals = [which for which in ANIMALS if which in chosen]
    return [graded_once(animals, tmp_path_factory.mktemp("zoo")) for _ in range(2)]


def is_of_zoo(item):
    return hasattr(item, "callspec") and "which" in item.callspec.params


def test_every_row_has_an_animal_except_that_of_the_killed_grader():
    assert {which.row for which in ANIMALS} == set(range(1, 50))


def test_titles_are_unique():
    titles = [which.title for which in ANIMALS]
    assert len(titles) == len(set(titles))


def test_a_third_of_the_rows_is_fast():
    assert len(FAST) == len(FAST_TITLES.split())
    assert len({which.row for which in FAST}) >= 50 / 3


@walled
@pytest.mark.slow
@pytest.mark.skipif(IS_WHOLE, reason="each animal has a test of its own")
def test_the_fast_third_of_the_zoo_is_graded_rightly(tmp_path):
    finished, graded = graded_once(FAST, tmp_path)
    wrong = {which.title: complaints(which, graded.get(which.title)) for which in FAST}
    wrong = {title: words for title, words in wrong.items() if words}
    assert not wrong, "\n".join(f"{title}: {'; '.join(words)}" for title, words in wrong.items())
    assert finished.returncode == 0, finished.stderr


@walled
@whole
@pytest.mark.parametrize("which", ANIMALS, ids=lambda which: which.title)
def test_animal_is_graded_rightly_and_the_same_again(twice, which):
    (_, first), (_, again) = twice
    words = complaints(which, first.get(which.title))
    assert not words, "\n".join(words)
    assert first[which.title].without_times() == again[which.title].without_times()


@walled
@whole
def test_every_animal_gets_a_verdict(twice):
    for finished, _ in twice:
        assert finished.returncode == 0, finished.stderr


@walled
@whole
def test_grader_that_is_killed_goes_on_to_the_same_gradebook(tmp_path):
    """Row 50."""
    right = [Animal(50, f"right {number}", lambda _: None, Expected()) for number in range(3)]
    hand_in(right, tmp_path / "in")
    assert grade(tmp_path / "in", tmp_path / "whole").returncode == 0
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        command(tmp_path / "in", killed),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not list(killed.glob("*/result.json")):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert len(list(killed.glob("*/result.json"))) < 3, "it was not killed midway"
    assert grade(tmp_path / "in", killed, "--resume").returncode == 0
    first, resumed = (tmp_path / "whole" / "gradebook.csv", killed / "gradebook.csv")
    assert first.read_text() == resumed.read_text()


def test_complaints_tell_a_wrong_verdict(tmp_path):
    """The zoo itself can fail: what is wrong in every way is complained of in every way."""
    wrong = {
        "score": 3.0,
        "note": "",
        "seconds": 1e9,
        "problems": [
            {"problem": "silu", "points": 1.0, "max_points": 2.0},
            {"problem": "softmax", "points": 3.0, "max_points": 3.0},
        ],
        "items": [{"message": "fine"}],
        "policy": [
            {"rule": "forbidden", "operator": "torch.softmax", "file": "tests/a.py", "line": 3}
        ],
    }
    from zoo.grading import Graded

    expected = Expected(lost=("softmax",), note="left during import", message="SIGSEGV")
    said = "\n".join(complaints(Animal(1, "x", str, expected), Graded(wrong, tmp_path)))
    for words in (
        "silu: 1.0 of 2.0 points, expected all",
        "softmax: 3.0 of 3.0 points, expected none",
        "a score of 3.0 is not the sum",
        "note '' has nothing of",
        "no message has 'SIGSEGV'",
        "the policy has",
        "took 1000000000.0 s",
    ):
        assert re.search(re.escape(words), said), words
