"""Every animal of the zoo is graded rightly, and the same again: `make zoo`.

Not among the tests of `make test`, where a tenth of them has to do: it takes a quarter of an
hour.
"""

import pytest
import table
import trivial
from test_policy_variants import TITLES, check_variants

from cs_grader.trusted.examination import rubric_of
from zoo.animal import load
from zoo.grading import complaints, graded, hand_in

ANIMALS = load()
pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture(scope="module")
def twice(request, tmp_path_factory):
    """The chosen animals, handed in once and graded two times over."""
    chosen = {item.callspec.params["which"] for item in request.session.items if is_of_zoo(item)}
    animals = [which for which in ANIMALS if which in chosen]
    folder = tmp_path_factory.mktemp("zoo")
    hand_in(animals, folder / "in")
    return [graded(animals, folder / "in", folder / out) for out in ("first", "again")]


def is_of_zoo(item):
    return hasattr(item, "callspec") and "which" in item.callspec.params


@pytest.mark.parametrize("which", ANIMALS, ids=lambda which: which.title)
def test_animal_is_graded_rightly_and_the_same_again(twice, which):
    (_, first), (_, again) = twice
    words = complaints(which, first.get(which.title))
    assert not words, "\n".join(words)
    assert first[which.title].without_times() == again[which.title].without_times()


def test_every_animal_gets_a_verdict(twice):
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


def test_every_honest_variant_passes_with_everything_forbidden_blocked():
    check_variants(TITLES)
