"""What is told of the failures, and what to do next."""

import importlib
import sys

import pytest
import report
from compare import WrongAnswer, expect_equal
from files import write_files
from lacking import what_to_do
from submission import PackagesFirst

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
        'Repair next: Softmax\nThen: make test ARGS="--problem softmax"\n'
        "It may explain: Scaled dot-product attention."
    )
    assert advice(linear="passed", softmax="not_started").startswith("Start next: Softmax")
    # The smallest first: nobody begins with the tokenizer's fifteen points.
    first = "Start next: Linear layer: write Linear in cs_basics/layers.py (docs/learn.md, "
    assert advice(**dict.fromkeys(report.RUBRIC, "not_started")).startswith(first)
    # Asked for alone, a problem is not told to be asked for.
    assert "make test" not in advice(linear="not_started")
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


def test_a_message_quotes_no_more_of_an_answer_than_anyone_reads():
    with pytest.raises(WrongAnswer) as raised:
        expect_equal([(b"/a" * 10**6, b"x")], [(b"a", b"b")], "merges")
    assert len(str(raised.value)) < 11_000


def test_after_an_import_that_failed_others_say_the_same(tmp_path, monkeypatch):
    write_files(
        tmp_path,
        {
            "halfway/__init__.py": "import halfway.parts.one, not_there\n",
            "halfway/parts/one.py": "",
            "halfway/parts/other.py": "",
        },
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [PackagesFirst(), *sys.meta_path])
    for name in ("one", "other"):
        with pytest.raises(ModuleNotFoundError, match="not_there"):
            importlib.import_module(f"halfway.parts.{name}")


def test_a_module_in_other_capitals_is_no_package_to_install(tmp_path, monkeypatch):
    write_files(tmp_path, {"Rope.py": "", "lm/__init__.py": "", "lm/Norms.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    for name, there in {"rope": "Rope.py", "lm.norms": "Norms.py"}.items():
        with pytest.raises(ModuleNotFoundError) as raised:
            importlib.import_module(name)
        assert what_to_do(raised.value).startswith(f": there is {there}, and Python tells capitals")
