"""The book: fourteen short files that know nothing of machines, with the handout's signatures."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT
from file_names import leading_nowhere

from cs_basics.attention import CausalSelfAttention
from cs_basics.generate import generate
from cs_basics.training import train
from cs_basics.transformer import TransformerBlock, TransformerLM

BOOK = ROOT / "cs_basics"
MODULES = (
    "pretokenize", "bpe", "tokenizer", "functional", "layers", "norms", "rope", "attention",
    "transformer", "optim", "data", "checkpoint", "generate", "training",
)  # fmt: skip
PACKAGES = ("cs_basics", "cs_grader")
FILES = sorted(BOOK.glob("*.py"))


def imported_names(path):
    """Return every module that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_fourteen_modules_are_all_that_lies_directly_in_the_folder():
    assert {path.stem for path in FILES} == {*MODULES, "__init__"}
    assert [path.name for path in BOOK.iterdir() if path.is_file() and path not in FILES] == []


def test_every_file_that_is_named_is_there():
    code = [f"{folder}/**/*.py" for folder in ("cs_basics", "cs_grader", "scripts", "lab")]
    pages = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md")]
    pages.append("lab/README.md")
    pages.remove("docs/log.md")  # It tells of files of its day.
    assert leading_nowhere(ROOT, [*code, *pages, "README.md", "data/README.md"]) == []


MAPPED = [
    path.parent.relative_to(ROOT)
    for name in (*PACKAGES, "tests/mistakes", "tests/oracles", "tests/probes")
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


def test_the_book_is_short():
    lengths = {path.name: len(path.read_text().splitlines()) for path in FILES}
    assert sum(lengths.values()) <= 2300
    assert {name: length for name, length in lengths.items() if length > 260} == {}


def test_an_installation_holds_every_file():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found, data = (settings["tool"]["setuptools"][name] for name in ("packages", "package-data"))
    names = PACKAGES
    assert found["find"]["include"] == [f"{name}*" for name in names]
    packages = [path.parent for name in names for path in (ROOT / name).rglob("__init__.py")]
    installed = {path for package in packages for path in package.glob("*.py")}
    marks = [(name, mark) for name in names for mark in data[name]]
    installed |= {path for name, mark in marks for path in (ROOT / name).glob(mark)}
    there = {path for name in names for path in (ROOT / name).rglob("*")}
    missing = {path for path in there - installed if path.suffix != ".pyc" and path.is_file()}
    assert not missing


def test_the_readme_fits_two_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_file_of_the_book_imports_a_subpackage(path):
    ours = {name.split(".")[1] for name in imported_names(path) if name.startswith("cs_basics.")}
    assert ours <= set(MODULES)


def test_the_model_is_at_most_seven_of_our_modules():
    program = (
        "import sys, cs_basics.transformer\n"
        "print(*(name for name in sys.modules if name.startswith('cs_basics.')))"
    )
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    loaded = finished.stdout.split()
    assert "cs_basics.attention" in loaded
    assert len(loaded) <= 7, loaded


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
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_signatures_are_those_of_the_handout(function, parameters):
    found = [name for name in inspect.signature(function).parameters if name != "self"]
    assert found == parameters.split()


def test_the_loop_is_called_with_model_optimizer_batches_and_schedule():
    parameters = list(inspect.signature(train).parameters.values())
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == ["model", "optimizer", "batches", "lr_at"]
    assert all(p.default is not p.empty for p in parameters[4:])
