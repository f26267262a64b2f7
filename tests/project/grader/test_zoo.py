"""The grader marks every animal of the zoo rightly.

Here is a fifth of the rows in one test; `make zoo` grades all, twice (zoo/whole.py).
"""

import re

import pytest
from zoo.animal import Animal, Expected, load
from zoo.grading import Graded, complaints, graded, hand_in

ANIMALS = load()
# A fifth of the rows, of each kind those that grade within a few seconds.
FAST_TITLES = """
01-exits-during-import 08-asks-for-50-GB 10-segmentation-fault 12-writes-results
16-looks-for-the-answer-in-frames 30-a-zip-with-names-that-lead-elsewhere
34-a-package-that-is-not-installed 37-writes-into-every-descriptor 41-SiLU-in-the-package
42-falls-back-where-it-is-caught 46-is-right-where-nobody-looks
"""
FAST = [which for which in ANIMALS if which.title in FAST_TITLES.split()]


def test_every_row_has_an_animal_except_that_of_the_killed_grader():
    assert {which.row for which in ANIMALS} == set(range(1, 50))


def test_titles_are_unique():
    titles = [which.title for which in ANIMALS]
    assert len(titles) == len(set(titles))


def test_a_fifth_of_the_rows_is_fast():
    assert len(FAST) == len(FAST_TITLES.split())
    assert len({which.row for which in FAST}) >= 50 / 5


@pytest.mark.needs("bwrap")
@pytest.mark.slow
def test_the_fast_fifth_of_the_zoo_is_graded_rightly(tmp_path):
    hand_in(FAST, tmp_path / "in")
    finished, found = graded(FAST, tmp_path / "in", tmp_path / "out")
    wrong = {which.title: complaints(which, found.get(which.title)) for which in FAST}
    wrong = {title: words for title, words in wrong.items() if words}
    told = "\n".join(f"{title}: {'; '.join(words)}" for title, words in wrong.items())
    assert not wrong, f"{told}\n{finished.stderr[-3000:]}"
    assert finished.returncode == 0, finished.stderr


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
