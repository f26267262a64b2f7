"""The student edition as it is handed out: a copy of folders, with blanks in what is examined."""

import importlib
import runpy
import shutil

import pytest
from editions import ROOT, make_starter, plain_environment, with_answers
from file_names import leading_nowhere
from processes import python

GIVEN_FOLDERS = importlib.import_module("cli").GIVEN


def files_of(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {path.relative_to(folder).as_posix(): path for path in paths}


def test_every_given_file_is_its_source_byte_for_byte(tmp_path):
    make_starter.build(tmp_path / "edition")
    made = {f"cs_basics/{module}.py" for module in make_starter.BLANK}
    made |= {path.relative_to(ROOT).as_posix() for path in make_starter.answering()}
    there = files_of(tmp_path / "edition")
    assert made <= there.keys()
    own = files_of(make_starter.OWN)
    for place in there.keys() - made:
        assert there[place].read_bytes() == own.get(place, ROOT / place).read_bytes(), place


def test_what_is_given_is_told_from_what_is_written(edition):
    folders = (path for path in (edition / "cs_basics").glob("*/") if path.name != "__pycache__")
    assert {f"cs_basics/{path.name}" for path in folders} == set(GIVEN_FOLDERS)
    not_handed_in = runpy.run_path(str(edition / "conftest.py"))["NOT_HANDED_IN"]
    assert set(not_handed_in) == {*GIVEN_FOLDERS, "cs_grader", "scripts"}


def test_every_file_that_is_named_is_there(edition):
    assert leading_nowhere(edition, ["cs_basics/**/*.py", "scripts/*.py", "**/*.md"]) == []


def test_a_saved_file_is_examined_by_the_problems_that_are_written_in_it(edition):
    pytest.importorskip("watchfiles", reason="needs the watchfiles package")
    program = (
        "import sys; sys.path.insert(0, 'scripts'); from pathlib import Path; import watch; "
        "print(*(watch.depending_on([Path(name)]) for name in sys.argv[1:]), sep='\\n')"
    )
    finished = run(edition, "-c", program, "cs_basics/norms.py", "tests/test_silu.py", "README.md")
    assert finished.stdout.splitlines()[:3] == ["['rmsnorm']", "['silu']", "[]"], finished.stderr


def test_a_folder_with_oracles_in_the_place_of_answers_is_watched_too(edition, tmp_path):
    pytest.importorskip("watchfiles", reason="needs the watchfiles package")
    folder = shutil.copytree(edition, tmp_path / "solution")
    (folder / "tests/exam/stored.py").unlink()
    shutil.copytree(ROOT / "tests/exam/oracles", folder / "tests/exam/oracles", dirs_exist_ok=True)
    program = "import sys; sys.path.insert(0, 'scripts'); import watch; watch.prepare()"
    finished = run(folder, "-c", program)
    assert finished.returncode == 0, finished.stderr


def run(folder, *arguments):
    return python(*arguments, cwd=folder, env=plain_environment(folder))


def test_every_module_can_be_imported(edition):
    places = [
        path.relative_to(edition).with_suffix("") for path in edition.glob("cs_basics/**/*.py")
    ]
    names = [".".join(place.parts).removesuffix(".__init__") for place in places]
    # A whole tree that is installed would lend the edition what it leaves out.
    alone = "import sys; sys.meta_path = [f for f in sys.meta_path if 'Editable' not in str(f)]"
    finished = run(edition, "-c", "\n".join([alone, *(f"import {name}" for name in names)]))
    assert finished.returncode == 0, finished.stderr


@pytest.mark.slow
def test_nothing_is_started(edition, answers, sit):
    rows = sit(with_answers(edition, answers))
    assert {row["outcome"] for row in rows.values()} == {"not_started"}
    assert {row["problem"] for row in rows.values()} == set(make_starter.RUBRIC)


def test_a_script_names_in_one_line_what_is_still_to_be_written(edition, of_texts, tmp_path):
    given = [*of_texts, "--run-dir", tmp_path / "run"]
    finished = run(edition, "scripts/train.py", "debug", *given)
    assert finished.returncode == 2
    last = finished.stderr.splitlines()[-1]
    assert last.startswith("error: train_bpe in ")
    assert last.endswith("bpe.py is not written yet.")
    assert "Traceback" not in finished.stderr


def test_another_seed_is_refused(edition):
    finished = run(edition, "-m", "pytest", "--exam-seed", "7", "tests/test_softmax.py")
    assert finished.returncode == 4
    assert "public seed only" in finished.stderr


def test_blanking_keeps_what_is_listed_and_nothing_else():
    source = '''"""A module."""

import math
from typing import Any, cast

LIMIT = 3  # of something
"""What it limits."""
_SECRET = 4


# Above it.
@cache
def wanted(x: Any) -> "str":  # a comment on the signature
    """Do it."""
    # how it is done
    return str(_helper(x))


# How a helper helps.


def _helper(x):
    return math.sqrt(x)


class Both:
    """A class."""

    table: int

    def __init__(self, x):
        # how it is done
        self.x = x

    def kept(self):
        return self.x + LIMIT

    def _helper(self):
        return _SECRET
'''
    made = make_starter.blank(source, ["wanted", "Both"], ["LIMIT", "Both.kept"], "Yours.")
    assert (
        made
        == '''"""Yours."""

from typing import Any

LIMIT = 3  # of something
"""What it limits."""


# Above it.
@cache
def wanted(x: Any) -> "str":  # a comment on the signature
    """Do it."""
    raise NotImplementedError


class Both:
    """A class."""

    def __init__(self, x):
        raise NotImplementedError

    def kept(self):
        return self.x + LIMIT
'''
    )


def test_blanking_refuses_a_name_that_is_not_there():
    with pytest.raises(ValueError, match="no softmaks"):
        make_starter.blank('"""A module."""\n', ["softmaks"], (), "")
