"""The student edition: nothing of the solution is in it, and it judges like the examination."""

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "instructor")]
make_starter = importlib.import_module("make_starter")
blank = importlib.import_module("starter.blank").blank

LIBRARY = ROOT / "cs_basics"
WRITTEN = {module for module, _ in make_starter.SOLUTIONS.values()} | make_starter.BEYOND.keys()

# A line as short as this may be anybody's: `return x`, `x = x + 1`, `for p in params:`.
SHORT = 28

WRONG_SOFTMAX = '''

def softmax(x, dim):
    """Forget which axis is meant."""
    weights = torch.exp(x - x.amax())
    return weights / weights.sum(-1, keepdim=True)
'''


@pytest.fixture(scope="module")
def texts():
    return make_starter.texts()


def test_what_it_installs_and_packs_is_there(texts):
    project = tomllib.loads(texts["pyproject.toml"])
    for package in project["tool"]["setuptools"]["packages"]:
        assert f"{package}/__init__.py" in texts
    assert "package-data" not in project["tool"]["setuptools"]
    wanted = " ".join(project["project"]["optional-dependencies"]["dev"])
    assert "pytest" in wanted
    assert "transformers" not in wanted


# --- nothing of the solution survives ---


def solution_lines(module):
    """Lines of the bodies that a student is to write, with the place of each."""
    source = (LIBRARY / f"{module}.py").read_text(encoding="utf-8")
    given = make_starter.GIVEN.get(module, frozenset())
    wanted = {name for where, names in make_starter.SOLUTIONS.values() for name in names}
    lines = source.splitlines()
    for top in ast.parse(source).body:
        name = getattr(top, "name", None)
        if name is None or name in given or ("*" in given and name not in wanted):
            continue
        for node in ast.walk(top):
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                for line in lines[body[0].lineno - 1 : body[-1].end_lineno] if body else []:
                    yield f"{module}.{node.name}", line.strip()


def survivors(texts):
    """Lines of the solution that stand in the student edition, apart from what is given."""
    given = set().union(*(given_lines(module) for module in WRITTEN))
    present = set()
    for place, text in texts.items():
        is_written = place.startswith("cs_basics/") and Path(place).stem in WRITTEN
        source = (ROOT / place).read_text(encoding="utf-8") if (ROOT / place).exists() else ""
        if text == source and not is_written:
            given |= stripped(text)
        elif place.endswith(".py"):
            present |= stripped(text)
    return {
        (where, line)
        for module in WRITTEN
        for where, line in solution_lines(module)
        if len(line) > SHORT and line in present - given
    }


def given_lines(module):
    """Lines of a module that a student is given on purpose."""
    source = (LIBRARY / f"{module}.py").read_text(encoding="utf-8")
    kept = make_starter.GIVEN.get(module, frozenset())
    wanted = {name for where, names in make_starter.SOLUTIONS.values() for name in names}
    return {
        line
        for node in ast.parse(source).body
        if getattr(node, "name", None) in kept or ("*" in kept and node_is_free(node, wanted))
        for line in stripped(ast.get_source_segment(source, node))
    }


def node_is_free(node, wanted):
    return getattr(node, "name", None) not in wanted


def stripped(text):
    return {line.strip() for line in text.splitlines()}


def test_no_line_of_the_solution_survives(texts):
    assert not survivors(texts)


def test_a_forgotten_line_of_the_solution_would_be_found(texts):
    source = (LIBRARY / "functional.py").read_text(encoding="utf-8")
    assert survivors({**texts, "cs_basics/functional.py": source})
    line = "    return (weights / weights.sum(dim=dim, keepdim=True)).to(x.dtype)\n"
    assert line in source
    assert survivors({**texts, "tests/compare.py": texts["tests/compare.py"] + line})


def test_every_function_to_write_says_so(texts):
    for module, names in make_starter.SOLUTIONS.values():
        tree = ast.parse(texts[f"cs_basics/{module}.py"])
        found = {node.name: node for node in tree.body if hasattr(node, "name")}
        for name in names:
            functions = [n for n in ast.walk(found[name]) if isinstance(n, ast.FunctionDef)]
            assert functions
            for function in functions:
                assert ast.get_docstring(function) or function.name == "__init__"
                assert ast.unparse(function.body[-1]) == "raise NotImplementedError"
                assert len(function.body) <= 2


def test_every_problem_of_the_rubric_has_a_place_in_the_library():
    import report

    assert list(make_starter.SOLUTIONS) == list(report.RUBRIC)


def test_oracles_and_mistakes_compute_no_answer(texts):
    for place, text in texts.items():
        if place.startswith(("tests/oracles/", "tests/mistakes/")):
            functions = {
                n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)
            }
            assert functions <= {"wide", "rounded", "vocab_of"}, place
    assert not any(place.startswith("tests/project/") for place in texts)


def test_signatures_stay_as_they_are(texts):
    for module in WRITTEN:
        reference = signatures((LIBRARY / f"{module}.py").read_text(encoding="utf-8"))
        edition = signatures(texts[f"cs_basics/{module}.py"])
        assert edition
        for name, signature in edition.items():
            assert signature == reference[name]


def signatures(source):
    """Signature, decorators and docstring of each function, by its name in the module."""
    found = {}
    for top in ast.parse(source).body:
        members = top.body if isinstance(top, ast.ClassDef) else [top]
        for node in members:
            if isinstance(node, ast.FunctionDef):
                head = ast.unparse([*node.decorator_list, node.args, *filter(None, [node.returns])])
                prefix = f"{top.name}." if node is not top else ""
                found[prefix + node.name] = (head, ast.get_docstring(node))
    return found


def test_blanking_keeps_what_is_given_and_what_that_needs():
    source = '''"""A module.

    Long story.
    """

import math
import os

LIMIT = 3  # of something


def wanted(x: int) -> "str":  # a comment on the signature
    """Do it."""
    # how it is done
    return str(_secret(x))


def _secret(x):
    return math.sqrt(x)


def given():
    return _needed() + LIMIT


def _needed():
    return os.getpid()
'''
    text = blank(source, ["wanted"], {"given"}, "Yours.")
    assert (
        text
        == '''"""A module.

Yours.
"""

import os

LIMIT = 3  # of something


def wanted(x: int) -> "str":  # a comment on the signature
    """Do it."""
    raise NotImplementedError


def given():
    return _needed() + LIMIT


def _needed():
    return os.getpid()
'''
    )


def test_blanking_refuses_a_name_that_is_not_there():
    with pytest.raises(ValueError, match="no softmaks"):
        blank("x = 1\n", ["softmaks"])


# --- it works ---


@pytest.fixture
def folder(texts, tmp_path):
    """The student edition without stored answers."""
    for place, text in texts.items():
        make_starter.write(tmp_path / "starter" / place, text)
    return tmp_path / "starter"


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def sit(folder, report_file, *arguments):
    """Sit the examination; return its rows by item."""
    report_file.unlink(missing_ok=True)
    options = ["-p", "no:randomly", "--quiet", "--exam-report", str(report_file)]
    finished = run(folder, "-m", "pytest", *options, *arguments)
    assert report_file.exists(), finished.stdout + finished.stderr
    return {row["item"]: row for row in json.loads(report_file.read_text(encoding="utf-8"))}


def test_every_module_can_be_imported_and_is_clean(folder):
    modules = [f"cs_basics.{path.stem}" for path in (folder / "cs_basics").glob("*.py")]
    finished = run(folder, "-c", "\n".join(f"import {name}" for name in modules))
    assert finished.returncode == 0, finished.stderr
    finished = run(folder, "-m", "ruff", "check", "cs_basics", "tests", "scripts")
    assert finished.returncode == 0, finished.stdout


def test_another_seed_is_refused(folder):
    finished = run(folder, "-m", "pytest", "--exam-seed", "7", "tests/test_softmax.py")
    assert finished.returncode == 4
    assert "public seed only" in finished.stderr


def check_verdicts(folder, tmp_path, tests):
    """Not started as handed out; full marks for the reference; the same words for a mistake."""
    report_file = tmp_path / "report.json"
    rows = sit(folder, report_file, *tests)
    assert {row["outcome"] for row in rows.values()} == {"not_started"}

    shutil.copytree(LIBRARY, folder / "cs_basics", dirs_exist_ok=True)
    rows = sit(folder, report_file, *tests)
    assert {row["outcome"] for row in rows.values()} == {"passed"}

    module = folder / "cs_basics" / "functional.py"
    module.write_text(module.read_text(encoding="utf-8") + WRONG_SOFTMAX, encoding="utf-8")
    at_home = sit(folder, report_file, "tests/test_softmax.py")
    # With "=": a path on its own would be one more place to look for conftest.py in.
    marked = sit(ROOT, report_file, "tests/test_softmax.py", f"--submission={folder}")
    assert any(row["diagnosis"] for row in at_home.values())
    assert at_home == marked


@pytest.mark.slow
def test_verdicts_on_all_problems_are_those_of_the_examination(tmp_path):
    out = tmp_path / "starter"
    finished = run(ROOT, "scripts/instructor/make_starter.py", "--out", str(out))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert (out / "docs" / "handout.md").exists()
    check_verdicts(out, tmp_path, ["tests"])


def test_an_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    finished = run(ROOT, "scripts/instructor/make_starter.py", "--out", str(tmp_path))
    assert (finished.returncode, finished.stdout) == (2, "")
    assert len(finished.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
