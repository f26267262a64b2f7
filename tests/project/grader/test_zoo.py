"""The grader marks every animal of the zoo rightly.

Here is a tenth of them in one test; `make zoo` grades all, twice (zoo/whole.py).
"""

import pytest
from zoo.animal import load
from zoo.grading import complaints, graded, hand_in

ANIMALS = load()
# A tenth of them, of each kind those that grade within a few seconds.
FAST_TITLES = """
exits-during-import asks-for-50-GB segmentation-fault writes-results
looks-for-the-answer-in-frames a-zip-with-names-that-lead-elsewhere
a-package-that-is-not-installed writes-into-every-descriptor SiLU-in-the-package
falls-back-where-it-is-caught is-right-where-nobody-looks
"""
FAST = [which for which in ANIMALS if which.title in FAST_TITLES.split()]


@pytest.mark.needs("bwrap")
@pytest.mark.slow
def test_the_fast_tenth_of_the_zoo_is_graded_rightly(tmp_path):
    hand_in(FAST, tmp_path / "in")
    finished, found = graded(FAST, tmp_path / "in", tmp_path / "out")
    wrong = {which.title: complaints(which, found.get(which.title)) for which in FAST}
    wrong = {title: words for title, words in wrong.items() if words}
    told = "\n".join(f"{title}: {'; '.join(words)}" for title, words in wrong.items())
    assert not wrong, f"{told}\n{finished.stderr[-3000:]}"
    assert finished.returncode == 0, finished.stderr
