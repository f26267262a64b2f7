"""What is told of the failures: which is shown, by what group, from which line, what to do next."""

import codecs
import json

import failure
import pytest
import report
import torch

SILENT = {"diagnosis": None, "message": "values differ"}


def test_the_table_says_what_to_do_first():
    def rows(**outcomes):
        return [
            {"problem": problem, "item": f"tests/test_{problem}.py::x", "outcome": outcome} | SILENT
            for problem, outcome in outcomes.items()
        ]

    def advice(**outcomes):
        return "\n".join(line for line, _ in report.table(rows(**outcomes))).split("\n\n")[1]

    assert advice(scaled_dot_product_attention="failed", softmax="error", linear="not_started") == (
        'Repair next: Softmax  (make test ARGS="--problem softmax")\n'
        "It may explain: Scaled dot-product attention."
    )
    assert advice(linear="passed", softmax="not_started").startswith("Start next: Softmax")
    # The smallest first: nobody begins with the tokenizer's fifteen points.
    assert advice(**dict.fromkeys(report.RUBRIC, "not_started")).startswith("Start next: Linear")
    assert advice(linear="passed") == "All that was examined is right. What comes next: make test"
    assert advice(**dict.fromkeys(report.RUBRIC, "passed")).startswith("Nothing is left to do.")


def test_what_earns_most_for_least_is_to_be_repaired():
    def rows(problem, passed, failed, item="x"):
        file = f"tests/test_{problem}.py"
        outcomes = [("passed", "")] * passed + [("failed", "values differ")] * failed
        row = {"problem": problem, "diagnosis": None}
        return [
            row | {"item": f"{file}::{item}[{n}]", "outcome": outcome, "message": message}
            for n, (outcome, message) in enumerate(outcomes)
        ]

    little, much = rows("linear", 99, 1), rows("train_bpe", 10, 20)
    assert report.to_repair(little + much) == "train_bpe"
    # Which is hardly why the block is broken, either.
    assert report.to_repair(little + rows("transformer_block", 0, 9)) == "transformer_block"
    assert report.to_repair(rows("linear", 0, 9) + rows("transformer_block", 0, 9)) == "linear"
    scattered = [row | {"diagnosis": f"mistake-{place}"} for place, row in enumerate(much)]
    assert report.to_repair(rows("rope", 0, 9) + scattered) == "rope"


def test_an_exception_of_one_line_is_counted_in_all_problems():
    row = {"outcome": "error", "message": "ValueError: no (x.py, line 3)", "diagnosis": None}
    items = [("linear", 2), ("rope", 3), ("rmsnorm", 4)]
    rows = [row | {"problem": p, "item": f"{p}::x"} for p, number in items for _ in range(number)]
    told = "\n".join(report.first_failures(rows))
    assert "3 x ValueError from x.py, line 3 (and 6 in 2 other problems)" in told


def test_the_failure_that_says_most_is_shown():
    def failed(item, diagnosis=None):
        return {
            "problem": "rmsnorm", "item": f"tests/test_rmsnorm.py::{item}", "outcome": "failed",
            "message": f"message of {item}", "diagnosis": diagnosis,
        }  # fmt: skip

    eps, plain, named = (
        "test_rmsnorm_adds_the_given_eps_inside_the_root[0.01]",
        "test_rmsnorm_divides_by_the_root_mean_square[(2, 3)]",
        "test_rmsnorm_divides_by_the_root_mean_square[(4, 5)]",
    )
    rows = [failed(eps), failed(eps), failed(plain), failed(named, "keepdim-is-missing")]
    assert f"  message of {named}" in report.first_failures(rows)
    assert f"  message of {plain}" in report.first_failures(rows[:-1])


def test_failures_with_one_diagnosis_or_of_one_line_have_one_cause():
    def failed(message, diagnosis=None, outcome="error"):
        row = {"problem": "rmsnorm", "item": "tests/test_rmsnorm.py::test_x", "outcome": outcome}
        return row | {"message": message, "diagnosis": diagnosis}

    rows = [
        failed("ValueError: size (3) (norms.py, line 7)\nasked for one"),
        failed("ValueError: size (4) (norms.py, line 7)\nasked for another"),
        failed("ValueError: size (4) (norms.py, line 9)"),
        *2 * [failed("TypeError: no argument 'weights'\nasked for another")],
        failed("ValueError: size (4) (norms.py, line 9)", "eps-is-outside"),
        failed("asked for it\nvalues differ", outcome="failed"),
        failed(
            "values differ\n  This is what comes out when the pairs are (i, i + d/2): see RoPE.",
            "the-pairs-are-i",
            outcome="failed",
        ),
        failed(
            "values differ\n  This is what comes out when eps is lost, or when it is -1 always.",
            "it-is-1-always",
            outcome="failed",
        ),
    ]
    found = {cause: len(failures) for cause, failures in report.causes_of("rmsnorm", rows)}
    assert found == {
        "ValueError from norms.py, line 7": 2, "ValueError from norms.py, line 9": 1,
        "TypeError: no argument 'weights'": 2,
        "eps is outside": 1, "no known mistake": 1,
        # As the message words it: an id has lost the signs.
        "the pairs are (i, i + d/2)": 1, "it is -1 always": 1,
    }  # fmt: skip


def test_the_line_of_an_error_is_one_of_the_submission():
    def parse():
        return json.loads("{")

    def of_a_package():
        return torch.linalg.inv(torch.zeros(2, 3, dtype=torch.int64))

    def of_a_frozen_module():
        return codecs.getincrementaldecoder("utf-8")().decode(b"\xff")

    for run in (parse, of_a_package, of_a_frozen_module):
        with pytest.raises(Exception) as caught:  # noqa: PT011  Of any class.
            run()
        found = failure.place_of_error(caught.value)
        assert found.startswith("test_report.py, line "), found
