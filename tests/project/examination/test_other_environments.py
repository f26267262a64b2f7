"""The examination where other people run it: their packages, their Python, their repositories."""

import importlib
import sys
import warnings

import missing_programs
import pytest
from files import write_files
from processes import python
from submission import PackagesFirst
from test_examination import FOUR, TESTS, by_problem, run_pytest, sit

SILU = "def run_silu(in_features):\n    return in_features * in_features.sigmoid()\n"
RAISES = "raise RuntimeError('code of the submission')\n"


def test_a_warning_is_an_error_in_our_own_tests():
    with pytest.raises(UserWarning, match="ours"):
        warnings.warn("ours", stacklevel=1)


@pytest.mark.parametrize(
    "is_one_word",
    [pytest.param(False, marks=pytest.mark.slow, id="--submission DIR"),
     pytest.param(True, id="--submission=DIR")],
)  # fmt: skip
def test_nothing_of_a_submission_is_run_but_its_adapters(tmp_path, is_one_word):
    names = ("conftest.py", "tests/conftest.py", "tests/test_x.py", "sitecustomize.py", "plugin.py")
    settings = {"pytest.ini": "[pytest]\naddopts = -p plugin\npythonpath = .\n"}
    root = write_files(
        tmp_path / "theirs", {**dict.fromkeys(names, RAISES), **settings, "tests/adapters.py": SILU}
    )
    option = [f"--submission={root}"] if is_one_word else ["--submission", root]
    problem = ["--problem", "silu", "-p", "no:xdist"]
    finished = run_pytest(*option, *problem, folder=TESTS.parent)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "SiLU" in finished.stdout


def test_a_folder_that_pytest_takes_for_its_own_is_refused_before_its_conftest(tmp_path):
    files = dict.fromkeys(("conftest.py", "tests/conftest.py"), RAISES) | {"pytest.ini": "[pytest]"}
    root = write_files(tmp_path, {**files, "tests/adapters.py": SILU})
    finished = python("-m", "pytest", "--submission", root)
    said = "ERROR: pytest takes the folder after --submission for its own: say --submission=DIR"
    assert (finished.returncode, finished.stderr.strip()) == (4, said)


NEWER = {
    "lm/typed.py": "\ndef same[T](x: T) -> T:\n    return x\n",
    "lm/kernels.py": "import kernels_that_nobody_has\n",
    "lm/library.py": "from typing import nothing_yet\n",
    "tests/adapters.py": SILU
    + "".join(
        f"def {name}(**_):\n    import lm.{module}\n"
        for name, module in (
            ("run_linear", "typed"),
            ("run_softmax", "kernels"),
            ("run_embedding", "library"),
        )
    ),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Let it sit three problems, beside a package that warns; return its rows by problem."""
    folder = tmp_path_factory.mktemp("newer")
    # torch imports it where it is installed.
    warns = "import warnings\nwarnings.warn('deprecated', FutureWarning)\nSEEN = True\n"
    write_files(folder, {"pynvml.py": warns})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        return by_problem(sit(folder, NEWER, problems=FOUR)[1])


def test_a_package_that_warns_when_it_is_imported_fails_nothing(rows):
    assert {row["outcome"] for row in rows["silu"]} == {"passed"}


def test_what_a_file_needs_and_is_not_here_costs_only_what_imports_it(rows):
    said = {problem: rows[problem][0]["message"].partition("\n")[0] for problem in rows}
    assert said["softmax"].endswith(
        "(kernels.py, line 1): if kernels_that_nobody_has is a package, install it: python -m pip"
        " install kernels_that_nobody_has"
    )
    assert "(library.py, line 1): the line (if it is right) needs a newer" in said["embedding"]
    assert said["embedding"].endswith("make clean, then make test PYTHON=python3.X")
    if sys.version_info < (3, 12):
        assert said["linear"].startswith("SyntaxError: expected '(' (typed.py, line 2): the line")
        assert said["linear"].endswith("make clean, then make test PYTHON=python3.12")


def test_a_missing_program_is_named_with_its_package_and_counted(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    told = missing_programs.why_not.__wrapped__
    assert told("g++") == "g++ not installed (Debian: apt-get install g++)"
    needs = TESTS / "project" / "grader" / "test_isolation.py"
    finished = run_pytest(needs, "-k", "leaves_something", "-p", "no:xdist", folder=TESTS.parent)
    last = "1 test skipped: bwrap not installed (Debian: apt-get install bubblewrap)"
    assert finished.stdout.splitlines()[-1] == last


def test_after_an_import_that_failed_others_say_the_same(tmp_path, monkeypatch):
    files = ("halfway/parts/one.py", "halfway/parts/other.py")
    lacking = {"halfway/__init__.py": "import halfway.parts.one, not_there\n"}
    write_files(tmp_path, lacking | dict.fromkeys(files, ""))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [PackagesFirst(), *sys.meta_path])
    for name in ("one", "other"):
        with pytest.raises(ModuleNotFoundError, match="not_there"):
            importlib.import_module(f"halfway.parts.{name}")
