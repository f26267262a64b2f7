"""The student edition as it is handed out: what is where, blank, and joined to what."""

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib

import pytest
import report
from editions import ROOT, make_starter, plain_environment, with_answers
from file_names import leading_nowhere

import cs_basics.fast
from cs_basics.run.presets import PRESETS

BOOK = {path.stem for path in (ROOT / "cs_basics").glob("*.py")}
NUM_MODULES = 14
MOST_GIVEN = 92
"""Files in given/: who adds one to a room copies it to every student."""


def test_the_book_stands_apart(edition):
    ours = {path.name for path in (edition / "cs_basics").iterdir()}
    assert ours == {f"{name}.py" for name in BOOK}
    assert len(ours - {"__init__.py"}) == NUM_MODULES
    rooms = {path.name for path in (edition / "given").iterdir()}
    assert rooms == {"fast", "interop", "run", "stories", "study", "variants"}
    given = [path for path in (edition / "given").rglob("*.*") if path.suffix != ".pyc"]
    assert len(given) <= MOST_GIVEN


def test_every_file_that_is_named_is_there(edition):
    read = ["cs_basics/*.py", "given/**/*.py", "scripts/*.py", "*.md", "docs/*.md", "data/*.md"]
    assert leading_nowhere(edition, read) == []


def test_every_folder_and_module_that_is_named_is_there(edition):
    rooms = [edition, *edition.glob("*/"), *edition.glob("given/*/")]
    for path in [*edition.glob("**/*.py"), *edition.glob("**/*.md"), edition / "pyproject.toml"]:
        text = path.read_text(encoding="utf-8")
        for folder in re.findall(r"(?m)^ *(\w+)/ ", text):  # A line of a map.
            assert any((room / folder).is_dir() for room in [path.parent, *rooms]), (path, folder)
        for name in re.findall(r"\bcs_basics\.(\w+(?:\.\w+)*)", text):
            assert is_module(edition, name.split(".")), (path, name)
    project = tomllib.loads(text)
    for pattern in project["tool"]["ruff"]["lint"]["per-file-ignores"]:
        assert list(edition.glob(pattern)), pattern


def is_module(edition, parts):
    """Tell whether a dotted name below cs_basics begins with the name of a file."""
    places = [edition / "cs_basics", edition / "given"]
    return any((place / f"{parts[0]}.py").exists() for place in places) or any(
        (place / parts[0] / f"{(parts[1:] or ['__init__'])[0]}.py").exists() for place in places
    )


def test_every_choice_of_the_scripts_can_be_made(edition, inside):
    ablations = (
        "from cs_basics.run.presets import PRESETS; from cs_basics.study.ablation import *; "
        "[variants_of(suite, config) for suite in SUITES for _, config in PRESETS.values()]"
    )
    assert run(edition, "-c", ablations).returncode == 0
    scripts = [["account", "--help"], ["ablate", "--help"]]
    scripts += [
        [*command, name] for command in (["account"], ["train", "--help"]) for name in PRESETS
    ]
    answers = inside(edition, *({"argv": argv} for argv in scripts))
    for argv, answer in zip(scripts, answers, strict=True):
        assert answer["code"] == 0, (argv, answer)
        flags_of_one_value = re.findall(r"--\S+ \{[^,}]*\}(?!\|)", answer["out"])
        assert flags_of_one_value == [], argv
    presets, suites = (re.search(r"\{([\w,-]+)\}", each["out"])[1] for each in answers[:2])
    assert presets == ",".join(["None", *PRESETS])
    assert suites == "lr,batch,all"


def test_what_it_installs_is_there(edition):
    project = tomllib.loads((edition / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {"find": {"include": ["cs_basics"], "namespaces": False}}
    assert project["tool"]["setuptools"] == {"packages": packages}
    wanted = " ".join(project["project"]["optional-dependencies"]["dev"])
    assert "pytest" in wanted
    assert "transformers" not in wanted


def test_every_problem_of_the_rubric_has_a_place_in_the_book():
    assert list(make_starter.SOLUTIONS) == list(report.RUBRIC)


def functions(folder, module):
    """Return signature, docstring and last statement of each function, by its name."""
    found = {}
    for top in ast.parse((folder / "cs_basics" / f"{module}.py").read_text("utf-8")).body:
        for node in [*getattr(top, "body", []), top]:
            if isinstance(node, ast.FunctionDef):
                head = ast.unparse([*node.decorator_list, node.args, *filter(None, [node.returns])])
                name = node.name if node is top else f"{top.name}.{node.name}"
                found[name] = head, ast.get_docstring(node), ast.unparse(node.body[-1])
    return found


@pytest.mark.parametrize("module", make_starter.BLANK)
def test_what_is_asked_is_blank_and_has_the_signature_of_the_book(edition, module):
    reference, blank = functions(ROOT, module), functions(edition, module)
    given = make_starter.GIVEN.get(module, ())
    for name, (head, docstring, last) in blank.items():
        assert (head, docstring) == reference[name][:2]
        is_given = {name, name.partition(".")[0]} & set(given)
        assert is_given or last == "raise NotImplementedError", name
    for name in make_starter.BLANK[module]:
        assert any(other.partition(".")[0] == name for other in blank), name


def test_whoever_writes_them_finds_torch_imported(edition):
    for module in make_starter.BLANK:
        source = (ROOT / "cs_basics" / f"{module}.py").read_text("utf-8")
        blank = (edition / "cs_basics" / f"{module}.py").read_text("utf-8")
        assert ("\nimport torch\n" in blank) == ("\nimport torch\n" in source), module
        assert "noqa: F401" not in blank


def test_the_doors_to_speed_are_those_of_the_repository(edition):
    place = edition / "given" / "fast" / "__init__.py"
    spec = importlib.util.spec_from_file_location("fast_of_the_edition", place)
    given = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(given)
    assert doors(given) == doors(cs_basics.fast)


def doors(module):
    """Return the parameters of each public function, by its name; the tables are no doors."""
    return {
        name: [(p.name, p.kind, p.default) for p in inspect.signature(value).parameters.values()]
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith(("_", "twins_of_"))
    }


def run(folder, *arguments):
    environment = {**plain_environment(), "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_module_can_be_imported_and_is_clean(edition):
    places = [path.relative_to(edition) for path in edition.glob("given/**/*.py")]
    names = [".".join(place.with_suffix("").parts[1:]) for place in places]
    lines = [
        f"import cs_basics.{name.removesuffix('.__init__')}"
        for name in [*names, *BOOK - {"__init__"}]
    ]
    finished = run(edition, "-c", "\n".join(lines))
    assert finished.returncode == 0, finished.stderr
    finished = run(edition, "-m", "ruff", "check", "--no-cache", ".")
    assert finished.returncode == 0, finished.stdout


@pytest.mark.slow
def test_nothing_is_started(edition, answers, sit):
    rows = sit(with_answers(edition, answers))
    assert {row["outcome"] for row in rows.values()} == {"not_started"}
    assert {row["problem"] for row in rows.values()} == set(make_starter.SOLUTIONS)


def test_a_script_names_in_one_line_what_is_still_to_be_written(edition, texts, tmp_path):
    given = ["--train-text", texts[0], "--valid-text", texts[1], "--run-dir", tmp_path / "run"]
    finished = run(edition, "scripts/train.py", "debug", *map(str, given))
    assert finished.returncode == 2
    last = finished.stderr.splitlines()[-1]
    assert last.startswith("error: train_bpe in ")
    assert last.endswith("bpe.py is not written yet.")
    assert "Traceback" not in finished.stderr


def test_another_seed_is_refused(edition):
    finished = run(edition, "-m", "pytest", "--exam-seed", "7", "tests/test_softmax.py")
    assert finished.returncode == 4
    assert "public seed only" in finished.stderr


def test_an_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    finished = run(ROOT, "scripts/instructor/make_starter.py", "--out", str(tmp_path))
    assert (finished.returncode, finished.stdout) == (2, "")
    assert len(finished.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_blanking_keeps_what_is_given_and_nothing_else():
    source = '''"""A module."""

import math

LIMIT = 3  # of something
"""What it limits."""
_SECRET = 4


# Above it.
@cache
def wanted(x: int) -> "str":  # a comment on the signature
    """Do it."""
    # how it is done
    return str(_helper(x))


def _helper(x):
    return math.sqrt(x)


class Both:
    """A class."""

    table: int

    def __init__(self, x):
        # how it is done
        self.x = x

    def given(self):
        return self.x + LIMIT

    def _helper(self):
        return _SECRET
'''
    made = make_starter.blank(source, ["wanted", "Both"], ["LIMIT", "Both.given"], "Yours.")
    assert (
        made.split()
        == '''"""Yours."""

import math

LIMIT = 3  # of something
"""What it limits."""


# Above it.
@cache
def wanted(x: int) -> "str":  # a comment on the signature
    """Do it."""
    raise NotImplementedError


class Both:
    """A class."""

    def __init__(self, x):
        raise NotImplementedError

    def given(self):
        return self.x + LIMIT
'''.split()  # noqa: SIM905
    )


def test_blanking_refuses_a_name_that_is_not_there():
    with pytest.raises(ValueError, match="no softmaks"):
        make_starter.blank("x = 1\n", ["softmaks"], (), "")
