"""Who pays for a forbidden operator: the problem that calls it, and those built from it do not."""

import os

import pytest
from zoo.animal import PACKAGE, ROOT, Animal, Expected, adapters_of, build

from cs_grader.sandbox.ledger import Entry
from cs_grader.trusted import batch, examiner
from cs_grader.trusted.connection import Answer
from cs_grader.trusted.examination import Terms
from cs_grader.trusted.submissions import Submission
from cs_grader.trusted.tiers import choose_tier

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


@pytest.mark.parametrize(
    ("stopped", "excused"),
    [
        (["softmax"], {ATTENTION: ["softmax"], "softmax": []}),
        (["softmax", None], {ATTENTION: []}),  # Most of its probes have to be stopped.
        (["attention"], {ATTENTION: []}),  # A problem pays for what does its own work.
        ([], {ATTENTION: []}),
    ],
)
def test_an_operator_is_free_once_another_problem_has_paid_for_it(stopped, excused):
    adapters = examiner.RemoteAdapters(None, lambda _: None, "")
    adapters.problem = "softmax"
    names = {"softmax": "torch.softmax", "attention": "torch.nn.MultiheadAttention"}
    for group in stopped:
        noted = (Entry("forbidden", names[group], "", 0),) if group else ()
        kind = examiner.FORBIDDEN if group else ""
        adapters.charge(Answer(ended="raised", kind=kind, noted=noted))
    for problem, groups in excused.items():
        adapters.problem = problem
        assert adapters.excused() == groups
