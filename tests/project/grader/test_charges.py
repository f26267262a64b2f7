"""Who pays for a forbidden operator: the problem that calls it, and those built from it do not."""

import os

import pytest
from zoo.animal import PACKAGE, ROOT, Animal, Expected, adapters_of, build

from cs_grader.outside import batch
from cs_grader.outside.charges import Charges
from cs_grader.outside.submissions import Submission
from cs_grader.outside.terms import Terms
from cs_grader.outside.tiers import choose_tier

ATTENTION = "scaled_dot_product_attention"
HONEST = """

def short(x, dim, really=True):
    if really:
        return torch.softmax(x, dim)
    return softmax(x, dim)


def attention(Q, K, V, mask=None):
    scores = Q @ K.transpose(-2, -1) / K.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return short(scores, -1) @ V


def run_scaled_dot_product_attention(Q, K, V, mask=None):
    return attention(Q, K, V, mask)


def run_softmax(in_features, dim):
    return short(in_features, dim, REALLY)
"""


def result_of(tmp_path, really, *problems):
    submission = build(Animal(0, "x", lambda _: None, Expected()), tmp_path / "in")
    with adapters_of(submission).open("a", encoding="utf-8") as file:
        file.write(HONEST.replace("REALLY", str(really)))
    assert f"from {PACKAGE}" in adapters_of(submission).read_text(encoding="utf-8")
    terms = Terms(tests=ROOT / "tests", tier=choose_tier("process"), secret="", problems=problems)
    out = tmp_path / "out"
    (graded,) = batch.grade([Submission("x", submission)], lambda _: out, terms)
    assert graded.result is not None, graded.fault
    return graded.result


def points(result):
    return {problem.problem: problem.points / problem.max_points for problem in result.problems}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="hosts are forked")
def test_operator_is_paid_for_where_it_is_called(tmp_path):
    result = result_of(tmp_path, True, "softmax", ATTENTION)
    assert points(result) == {"softmax": 0.0, ATTENTION: 1.0}
    (finding,) = [one for one in result.policy if one.rule == "forbidden"]
    assert (finding.problem, finding.operator) == ("softmax", "torch.softmax")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="hosts are forked")
def test_operator_in_dead_code_of_an_early_problem_is_paid_for_where_it_is_called(tmp_path):
    result = result_of(tmp_path, False, "softmax", ATTENTION)
    assert points(result)["softmax"] == 1.0
    assert points(result)[ATTENTION] < 0.2
    (finding,) = result.policy
    assert (finding.rule, finding.problem) == ("forbidden", ATTENTION)


def test_a_problem_has_paid_when_most_of_its_probes_were_stopped():
    charges = Charges({"b": {"softmax": {"a"}}}, ["a", "b"])
    assert charges.excused("b") == []
    for is_stopped in (True, False):
        charges.note("a", is_stopped)
    assert charges.excused("b") == []
    charges.note("a", True)
    assert charges.excused("b") == ["softmax"]
    assert charges.excused("a") == []


def test_every_earlier_problem_has_to_have_paid():
    charges = Charges({"c": {"softmax": {"a", "b"}}}, ["a", "b", "c"])
    charges.note("a", True)
    assert charges.excused("c") == []
    charges.note("b", True)
    assert charges.excused("c") == ["softmax"]


def test_what_is_not_examined_counts_as_paid():
    assert Charges({"b": {"softmax": {"a"}}}, ["b"]).excused("b") == ["softmax"]
