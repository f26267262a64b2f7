"""Answers that are worth nothing earn nothing: two problems here, all of them in `make zoo`."""

import pytest
import trivial

from cs_grader.outside.terms import trivial_items

FEW = ("silu", "gradient_clipping")


def test_every_item_on_the_list_exists():
    """Those of a test that was renamed would earn something again."""
    tests = {path.name for path in (trivial.ROOT / "tests").glob("test_*.py")}
    for item in trivial_items(trivial.ROOT / "tests"):
        file, _, name = item.removeprefix("tests/").partition("::")
        assert file in tests
        text = (trivial.ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {name.partition('[')[0]}(" in text, item


@pytest.mark.slow
def test_trivial_answers_to_some_problems_earn_nothing(tmp_path):
    for kind, result in trivial.grade_all(tmp_path, FEW, ("zeros", "input")).items():
        assert {p.problem: p.points for p in result.problems} == dict.fromkeys(FEW, 0.0), kind
        assert any(problem.passed for problem in result.problems), kind
