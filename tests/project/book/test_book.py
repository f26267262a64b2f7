"""The book: fourteen short files that know nothing of machines, with the handout's signatures."""

import ast
import doctest
import importlib
import inspect
import re
import tomllib

import pytest
from file_names import leading_nowhere
from processes import ROOT

from cs_basics.attention import CausalSelfAttention
from cs_basics.generate import generate
from cs_basics.training import train
from cs_basics.transformer import TransformerBlock, TransformerLM

PACKAGES = ("cs_basics", "cs_grader")


def test_every_file_that_is_named_is_there():
    code = [f"{folder}/**/*.py" for folder in ("cs_basics", "cs_grader", "scripts", "lab")]
    pages = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md")]
    pages.append("lab/README.md")
    pages.remove("docs/log.md")  # It tells of files of its day.
    named = leading_nowhere(ROOT, [*code, *pages, "README.md", "data/README.md"])
    # This one is written by `python -m lab.claims`.
    assert [name for name in named if "claims.md" not in name] == []


MAPPED = [
    path.parent.relative_to(ROOT)
    for name in (*PACKAGES, "tests/exam/mistakes", "tests/exam/oracles", "tests/exam/probes")
    for path in sorted((ROOT / name).rglob("__init__.py"))
]


@pytest.mark.parametrize("package", MAPPED, ids=str)
def test_the_map_of_a_package_names_its_files_and_no_others(package):
    folder = ROOT / package
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    modules = {path.stem for path in folder.glob("*.py")}
    wanted = modules - {"__init__", "__main__"}
    missing = {name for name in wanted if not re.search(rf"\b{name}[.,:)]", text)}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    missing |= {name for name in packages if not re.search(rf"\b{name}\b", text)}
    assert not missing
    assert {*re.findall(r"(?<![\w/])(\w+)\.py\b", text)} <= modules
    assert {*re.findall(r"(?m)^ *(\w+)/ ", text)} <= {path.name for path in folder.iterdir()}


def test_an_installation_holds_every_file():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found, data = (settings["tool"]["setuptools"][name] for name in ("packages", "package-data"))
    assert found["find"]["include"] == [f"{name}*" for name in PACKAGES]
    packages = [path.parent for name in PACKAGES for path in (ROOT / name).rglob("__init__.py")]
    installed = {path for package in packages for path in package.glob("*.py")}
    marks = [(name, mark) for name in PACKAGES for mark in data[name]]
    installed |= {path for name, mark in marks for path in (ROOT / name).glob(mark)}
    there = {path for name in PACKAGES for path in (ROOT / name).rglob("*")}
    missing = {path for path in there - installed if path.suffix != ".pyc" and path.is_file()}
    assert not missing


def test_the_readme_fits_two_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (
            TransformerLM.__init__,
            "vocab_size context_length d_model num_layers num_heads d_ff rope_theta device dtype",
        ),
        (TransformerLM.forward, "token_ids"),
        (TransformerBlock.__init__, "d_model num_heads d_ff rope device dtype"),
        (TransformerBlock.forward, "x"),
        (CausalSelfAttention.__init__, "d_model num_heads rope device dtype"),
        (CausalSelfAttention.forward, "x positions"),
        (generate, "model prompt max_tokens sampling stop_ids seed"),
        (train, "model optimizer batches lr_at max_grad_norm on_update"),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_signatures_are_those_of_the_handout(function, parameters):
    found = [name for name in inspect.signature(function).parameters if name != "self"]
    assert found == parameters.split()


BOOK = sorted((ROOT / "cs_basics").glob("*.py"))


def test_the_examples_in_the_book_are_true():
    modules = [importlib.import_module(f"cs_basics.{path.stem}") for path in BOOK]
    tests = [test for module in modules for test in doctest.DocTestFinder().find(module)]
    shown = [test for test in tests if test.examples]
    results = {test.name: doctest.DocTestRunner().run(test) for test in shown}
    assert [name for name, result in results.items() if result.failed] == []
    assert len(shown) >= 13


def test_what_is_examined_is_called_by_position():
    """Names of arguments are free to a student, whose functions the book calls."""
    rubric = tomllib.loads((ROOT / "tests" / "rubric.toml").read_text(encoding="utf-8"))
    examined = {place.split(".")[1] for problem in rubric.values() for place in problem["write"]}
    calls = [
        (path.name, ast.unparse(node))
        for path in BOOK
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in examined
    ]
    assert len(calls) > 30
    assert [call for call in calls if "=" in call[1]] == []
