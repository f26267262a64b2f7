"""Who pays for a forbidden operator: the problem that calls it, and those built from it do not."""

import os

import pytest
from attacks.attack import add_to_adapters, reference
from files import write_files
from grade_folders import grade

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


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="hosts are forked")
def test_operator_is_paid_for_where_it_is_called(tmp_path):
    """Also where an early problem has it in dead code."""
    folders = {}
    for really in ("True", "False"):
        folders[really] = write_files(tmp_path / really, reference())
        add_to_adapters(folders[really], HONEST.replace("REALLY", really))
    graded = grade(folders, tmp_path / "out", ("softmax", ATTENTION))
    called, dead = (one.result for one in graded)
    for result, problem in ((called, "softmax"), (dead, ATTENTION)):
        told = [(one.problem, one.operator) for one in result.policy if one.rule == "forbidden"]
        assert (problem, "torch.softmax") in told
    share = [[p.points / p.max_points for p in one.problems] for one in (called, dead)]
    assert share[0] == [0.0, 1.0]
    # At most what softmax, the problem that the operator solves, has earned.
    assert share[1][0] == 1.0
    softmax, attention = (p.max_points for p in dead.problems)
    assert dead.score == pytest.approx(attention)
    assert attention > softmax
