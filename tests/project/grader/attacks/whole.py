"""Every attack is graded rightly, and the same again: `make zoo`.

Not among the tests of `make test`: a submission takes up to half a minute.
"""

import pytest
import table
import trivial

from attacks.attack import load
from attacks.grading import complaints, graded, hand_in
from cs_grader.trusted.examination import rubric_of

ATTACKS = load()
pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture(scope="module")
def twice(request, tmp_path_factory):
    """The chosen attacks, handed in once and graded two times over."""
    chosen = {item.callspec.params["which"] for item in request.session.items if is_chosen(item)}
    attacks = [which for which in ATTACKS if which in chosen]
    folder = tmp_path_factory.mktemp("attacks")
    hand_in(attacks, folder / "in")
    return [graded(attacks, folder / "in", folder / out) for out in ("first", "again")]


def is_chosen(item):
    return hasattr(item, "callspec") and "which" in item.callspec.params


@pytest.mark.parametrize("which", ATTACKS, ids=lambda which: which.title)
def test_attack_is_graded_rightly_and_the_same_again(twice, which):
    (_, first), (_, again) = twice
    words = complaints(which, first.get(which.title))
    assert not words, "\n".join(words)
    assert first[which.title].without_times() == again[which.title].without_times()


def test_every_attack_gets_a_verdict(twice):
    for finished, _ in twice:
        assert finished.returncode == 0, finished.stderr


def test_trivial_answers_to_all_problems_earn_nothing(tmp_path):
    every = rubric_of(trivial.ROOT / "tests")
    for kind, result in trivial.grade_all(tmp_path).items():
        assert {p.problem: p.points for p in result.problems} == dict.fromkeys(every, 0.0), kind


def test_table_of_public_answers_earns_next_to_nothing_in_any_problem(tmp_path):
    every = rubric_of(trivial.ROOT / "tests")
    result = table.grade_table(tmp_path, *every)
    rich = {p.problem: p.points for p in result.problems if p.points > 0.1 * p.max_points}
    assert not rich
