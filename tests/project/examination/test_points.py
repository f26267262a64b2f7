"""Claims earn the points, and better work never has fewer of them."""

import numpy as np
import progress
import pytest
import report
from points import MAIN, claim_of, points, points_of_all
from processes import python

from cs_grader.trusted.verdict import trivial_items

ENTRY = {"points": 10, "claims": {"streams": {"share": 0.2, "items": ["iterable"]}}}


def outcomes(**kinds):
    """So many passed and failed items of each kind."""
    return [
        (f"tests/test_x.py::test_{kind}[{n}]", outcome)
        for kind, (passed, failed) in kinds.items()
        for n, outcome in enumerate(["passed"] * passed + ["failed"] * failed)
    ]


def test_a_claim_costs_its_share_however_many_items_examine_it():
    assert points(ENTRY, outcomes(encode=(10, 0), iterable=(0, 90)), ()) == pytest.approx(8)
    assert points(ENTRY, outcomes(encode=(10, 0), iterable=(0, 1)), ()) == pytest.approx(8)
    assert points(ENTRY, outcomes(encode=(5, 5), iterable=(2, 0)), ()) == pytest.approx(6)
    assert points(ENTRY, outcomes(encode=(1, 1)), ()) == pytest.approx(5)  # No item: no share.


def test_who_passes_trivial_items_only_earns_nothing():
    rows = outcomes(encode=(1, 1))
    assert points(ENTRY, rows, {rows[0][0]}) == 0
    assert points(ENTRY, [], ()) == 0


RULE = "gain_one_plus"
NORM = {"points": 4, "convention": RULE}
RUBRIC = {"softmax": ENTRY, "attention": ENTRY, "norm": NORM, "model": {"points": 7}}
FAILED, LENT, PASSED = range(3)


def row(problem, item, state, borrowed, is_hidden=False):
    """What became of an item: FAILED, PASSED, or LENT, if it passes with what it borrows.

    That is the operators of other problems, or a RULE other than that of the class.
    """
    lent = {"missed": [RULE]} if RULE in borrowed else {"borrowed": borrowed}
    lent = lent | {"with_borrowed": "passed"} if state == LENT else {}
    outcome = "passed" if state == PASSED else "failed"
    asked = {"problem": problem, "item": f"{problem}::{item}", "is_hidden": is_hidden}
    return asked | {"outcome": outcome} | lent


def rows_of(**states):
    """Rows of two items in each problem; whatever is LENT borrows the operators of softmax."""
    return [
        row(problem, n, state, ["softmax"])
        for problem, both in states.items()
        for n, state in enumerate(both)
    ]


def test_an_operator_is_charged_once():
    """At most what its problem has earned, however many others call it."""
    lent, passed, failed = [LENT] * 2, [PASSED] * 2, [FAILED] * 2
    cases = {
        (0, 10, 7): rows_of(softmax=failed, attention=lent, model=lent),
        (10, 10 * 7 / 17, 7 * 7 / 17): rows_of(softmax=passed, attention=lent, model=lent),
        (10, 0, 0): rows_of(softmax=passed, attention=lent, model=failed),
    }
    for wanted, rows in cases.items():
        got = points_of_all(RUBRIC, rows, ())
        assert [got[name] for name in ("softmax", "attention", "model")] == pytest.approx(wanted)
    # Where its problem is not asked for, nobody can tell: alone a problem has what it has with all.
    alone = points_of_all(RUBRIC, rows_of(attention=lent), ())
    assert alone == pytest.approx({"attention": 10})


def test_a_convention_that_is_missed_costs_a_third_of_its_problem_however_often():
    def earned(*states):
        rows = [row(name, 1, state, [RULE]) for name, state in zip(RUBRIC, states, strict=True)]
        return sum(points_of_all(RUBRIC, rows, ()).values())

    whole = sum(entry["points"] for entry in RUBRIC.values())
    assert earned(PASSED, PASSED, LENT, PASSED) == pytest.approx(whole - 4 / 3)
    assert earned(PASSED, PASSED, LENT, LENT) == pytest.approx(whole - 4 / 3)
    assert earned(PASSED, PASSED, PASSED, LENT) == pytest.approx(whole - 4 / 3)
    assert earned(PASSED, PASSED, LENT, FAILED) == pytest.approx(whole - 4 / 3 - 7)


def test_where_inputs_are_hidden_an_item_passes_twice_and_the_rest_tells_nothing():
    def earned(*states):
        hidden = [(0, False), (0, True), (1, False)]
        pairs = zip(hidden, states, strict=True)
        rows = [row("norm", n, state, [], is_hidden) for (n, is_hidden), state in pairs]
        return points_of_all(RUBRIC, rows, ())["norm"]

    assert earned(PASSED, PASSED, PASSED) == 4
    assert earned(PASSED, PASSED, FAILED) == 2
    assert earned(PASSED, FAILED, PASSED) == earned(FAILED, PASSED, PASSED) == 0


@pytest.mark.parametrize("seed", range(200))
def test_better_work_never_has_fewer_points_in_whatever_order(seed):
    rng = np.random.default_rng(seed)
    names = [*RUBRIC]
    places = [(name, f"iterable{n}" if n else n) for name in names for n in range(3)]
    borrowed = [
        [*rng.choice([*names[:3], RULE], rng.integers(1, 3), replace=False)] for _ in places
    ]
    states = rng.integers(0, 3, len(places))

    def rows():
        return [row(*at, state, of) for at, state, of in zip(places, states, borrowed, strict=True)]

    before = points_of_all(RUBRIC, rows(), ())
    shuffled = [rows()[n] for n in rng.permutation(len(places))]
    assert points_of_all(RUBRIC, shuffled, ()) == pytest.approx(before)
    for place in np.flatnonzero(states < PASSED):
        states[place] += 1
        after = points_of_all(RUBRIC, rows(), ())
        assert sum(after.values()) >= sum(before.values()) - 1e-9
        assert all(0 <= after[name] <= RUBRIC[name]["points"] + 1e-9 for name in names)
        before = after


@pytest.mark.parametrize("problem", report.RUBRIC)
def test_no_claim_but_the_main_one_is_worth_more_than_a_fifth(problem):
    shares = [claim["share"] for claim in report.RUBRIC[problem]["claims"].values()]
    assert max(shares) <= 0.2
    assert sum(shares) <= 0.8 + 1e-9


COLLECT = """
import sys, pytest

class Tell:
    def pytest_collection_finish(self, session):
        for item in session.items:
            print("item", item.get_closest_marker("problem").args[0], item.nodeid)

sys.exit(pytest.main(
    ["--collect-only", "-q", "-p", "no:xdist", "tests", "--ignore", "tests/project"],
    plugins=[Tell()],
))
"""


@pytest.fixture(scope="module")
def items_of():
    """Of each problem the items that a run of the examination collects."""
    done = python("-c", COLLECT, check=True)
    items = {problem: [] for problem in report.RUBRIC}
    for line in done.stdout.splitlines():
        if line.startswith("item "):
            _, problem, item = line.split(" ", 2)
            items[problem].append(item)
    return items


@pytest.mark.parametrize("problem", report.RUBRIC)
def test_every_pattern_of_a_claim_finds_items_of_its_problem(items_of, problem):
    entry, items = report.RUBRIC[problem], items_of[problem]
    for claim, listed in entry["claims"].items():
        for pattern in listed["items"]:
            assert any(pattern in item for item in items), (claim, pattern)
    assert {claim_of(entry, item) for item in items} >= {MAIN, *entry["claims"]}


def test_every_item_that_is_called_trivial_exists(items_of):
    """One that was renamed would earn something again."""
    collected = {item for items in items_of.values() for item in items}
    assert trivial_items(report.RUBRIC_FILE.parent) <= collected


def test_what_was_solved_before_is_counted_with_what_is_solved_now(tmp_path):
    def told(problem, outcome="passed", number=2):
        rows = [{"problem": problem, "item": f"{problem}::x", "outcome": outcome}] * number
        return progress.line(rows, tmp_path / "progress.json")

    assert told("silu") == "1 of 20 problems, 2.0 points"
    assert told("rmsnorm") == "2 of 20 problems, 6.0 points"
    # Fewer items of a problem than before say nothing of it.
    assert told("silu", "failed", number=1) == "2 of 20 problems, 6.0 points"
    assert told("silu", "failed") == "1 of 20 problems, 4.0 points"
