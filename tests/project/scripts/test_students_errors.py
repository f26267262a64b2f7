"""What a script says of an exception: ours is a line, a student's has those that led to it.

Both modules are made up here: theirs.py lies where a student writes, ours.py in a given folder.
"""

import importlib
import importlib.util
import sys

import pytest
import torch
from files import write_files
from processes import ROOT

sys.path.append(str(ROOT / "scripts"))
cli = importlib.import_module("cli")

STUDENTS = """def clip(x):
    norm, rest = x


def deep(x, n=9):
    deep(x, n - 1) if n else clip(x)
"""
OURS = """from theirs import clip, deep

def over():
    clip([1, 2, 3])

def deeply():
    deep([1, 2, 3])

def misnamed():
    clip(y=[1, 2, 3])

def refuse():
    error = ValueError("lr=-1 must be greater than 0")
    error.add_note("(a note)")
    raise error
"""
RAISED = "error: ValueError: too many values to unpack (expected 2)"


@pytest.fixture(autouse=True)
def _no_flags(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script"])


@pytest.fixture
def edition(tmp_path, monkeypatch):
    write_files(tmp_path, {"cs_basics/theirs.py": STUDENTS, "cs_basics/run/ours.py": OURS})
    for folder in ("cs_basics", "cs_basics/run"):
        monkeypatch.syspath_prepend(tmp_path / folder)
    monkeypatch.setattr(cli, "ROOT", tmp_path)
    monkeypatch.setattr(cli, "IS_EDITION", True)
    yield importlib.import_module("ours")
    del sys.modules["ours"], sys.modules["theirs"]


def said_of(main, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.run(main)
    assert stop.value.code == 2
    return capsys.readouterr().err.splitlines()


def test_the_students_line_is_shown_and_the_call_that_led_to_it(edition, capsys):
    assert said_of(edition.over, capsys) == [
        RAISED,
        "  cs_basics/theirs.py, line 2, in clip",
        "    norm, rest = x",
        "  called by cs_basics/run/ours.py, line 4, in over",
        "    clip([1, 2, 3])",
    ]


def test_a_call_with_other_arguments_is_told_with_the_definition(edition, capsys):
    assert said_of(edition.misnamed, capsys) == [
        "error: TypeError: clip() got an unexpected keyword argument 'y'",
        "  cs_basics/theirs.py, line 1, in clip",
        "    def clip(x):",
        "  called by cs_basics/run/ours.py, line 10, in misnamed",
        "    clip(y=[1, 2, 3])",
    ]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def clip(x:\n    pass\n",
            "SyntaxError: '(' was never closed (cs_basics/broken.py, line 1)",
        ),
        ("\nUNIT = 1 / 0\n", "ZeroDivisionError: division by zero (cs_basics/broken.py, line 2)"),
        ("import nonsuch\n", "ModuleNotFoundError: No module named 'nonsuch' (cs_basics/broken.py"),
        ("def clap():\n    pass\n", "ImportError: cannot import name 'clip' from 'broken' (cs_bas"),
    ],
)
@pytest.mark.usefixtures("edition")
def test_a_module_that_cannot_be_imported_is_one_line(capsys, tmp_path, source, said):
    (tmp_path / "cs_basics" / "broken.py").write_text(source)
    sys.modules.pop("broken", None)  # One of these can be imported.
    with pytest.raises((SyntaxError, ZeroDivisionError, ImportError)) as raised:
        exec(compile("from broken import clip", tmp_path / "cs_basics/run/ours.py", "exec"), {})
    # Scripts import the student's modules before their own main function runs.
    with pytest.raises(SystemExit) as stop:
        cli.report_import(raised.type, raised.value, raised.tb)
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {said}")


def test_a_file_beside_the_book_is_the_students_too(edition, capsys, tmp_path, monkeypatch):
    (tmp_path / "cs_basics" / "theirs.py").rename(tmp_path / "my_model.py")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(edition, "clip", importlib.import_module("my_model").clip)
    assert said_of(edition.over, capsys)[1] == "  my_model.py, line 2, in clip"


def test_of_a_long_way_there_the_ends_are_shown(edition, capsys):
    said = said_of(edition.deeply, capsys)
    assert said[1] == "  cs_basics/theirs.py, line 2, in clip"
    assert said[-3:-1] == ["  ...", "  called by cs_basics/run/ours.py, line 7, in deeply"]
    assert len(said) == 2 + 2 * cli.MOST_FRAMES


def test_an_error_of_ours_is_one_line_with_its_notes(edition, capsys):
    assert said_of(edition.refuse, capsys) == ["error: lr=-1 must be greater than 0 (a note)"]


def test_outside_of_an_edition_nobody_is_a_student(edition, capsys, monkeypatch):
    monkeypatch.setattr(cli, "IS_EDITION", False)
    assert said_of(edition.over, capsys) == ["error: too many values to unpack (expected 2)"]


def test_a_forward_that_is_missing_is_told_with_its_module(capsys):
    class Linear(torch.nn.Module):
        def foward(self, x):
            return x

    assert said_of(lambda: Linear()(1), capsys) == [
        'error: Module [Linear] is missing the required "forward" function'
    ]
