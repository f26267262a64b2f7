"""The examination as a whole: its rubric, its options, its report, its table."""

import importlib.metadata
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import page
import pytest
import report
import torch
from files import write_files
from probes.model import forward_if_supported
from processes import python
from submission import distribution_of

TESTS = Path(__file__).parents[2]
PROBLEMS = (
    *("linear", "embedding", "silu", "positionwise_feedforward", "softmax"),
    "learning_rate_schedule",
)
FOUR = ("linear", "embedding", "silu", "softmax")

# A repository of other names than this one, whose own files are called like the examination's.
SUBMISSION = {
    "pyproject.toml": '[project]\nname = "Tiny-LM"\nversion = "1.2.3"\n',
    "src/tiny_lm/__init__.py": (
        "import importlib.metadata\n__version__ = importlib.metadata.version('tiny-lm')\n"
    ),
    "src/tiny_lm/schedule.py": """
import math

def rate(it, top, floor, warm, cycle):
    if it < warm:
        return it / warm * top
    if it >= cycle:
        return floor
    return floor + (1 + math.cos((it - warm) / (cycle - warm) * math.pi)) / 2 * (top - floor)
""",
    "tests/__init__.py": "",
    "tests/common.py": "from compare import MINE\n",
    "compare.py": "MINE = 'compare of the submission'\n",
    "tests/adapters.py": """
import warnings

import tiny_lm
from tests.common import MINE
from tiny_lm.schedule import rate

from .common import MINE as SAME

warnings.warn("a warning at import is no mistake", DeprecationWarning)
assert tiny_lm.__version__ == "1.2.3"
assert MINE == SAME == "compare of the submission"
try:
    import cs_basics
except ImportError:
    cs_basics = None
assert cs_basics is None, "the reference is within reach"

def run_get_lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters,
                               cosine_cycle_iters):
    return rate(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters)

def run_silu(in_features):
    return in_features.sigmoid()

def run_softmax(in_features, dim):
    return broken(in_features)

def broken(x):
    raise ValueError(f"the inputs sum to {float(x.sum()):.6f}")

def run_linear(d_in, d_out, weights, in_features):
    raise NotImplementedError
""",
}


def run_pytest(*arguments, folder):
    """Run pytest in a process of its own, somewhere else than in this repository."""
    options = ["-c", TESTS.parent / "pyproject.toml", "--rootdir", TESTS.parent]
    environment = {**os.environ, "COLUMNS": "80"}
    return python("-m", "pytest", *options, *arguments, cwd=folder, env=environment)


def sit(folder, files, *arguments, problems=report.RUBRIC):
    """Let a repository of these files sit some problems; return how the run ended, and its rows."""
    root = write_files(folder / "their repository", files)
    file = folder / "report.json"
    items = [TESTS / f"test_{name}.py" for name in problems]
    options = [f"--submission={root}", "--exam-report", file]
    finished = run_pytest(*items, *options, *arguments, folder=folder)
    return finished, json.loads(file.read_text(encoding="utf-8"))


def by_problem(rows):
    found = {}
    for row in rows:
        found.setdefault(row["problem"], []).append(row)
    return found


def examine(folder, seed, *arguments):
    """Examine the submission; return the terminal's text and the report by item."""
    options = ["--exam-seed", seed, "-v"]
    finished, rows = sit(folder, SUBMISSION, *options, *arguments, problems=PROBLEMS)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert list(folder.glob(".*")) == []
    return finished.stdout, rows


@pytest.fixture(scope="module")
def examined(tmp_path_factory):
    return examine(tmp_path_factory.mktemp("one"), 0)


@pytest.fixture(scope="module")
def examined_otherwise(tmp_path_factory):
    """With another seed and two processes."""
    return examine(tmp_path_factory.mktemp("two"), 1, "--numprocesses", "2")


def test_rubric_has_a_hundred_points_each_adapter_once_and_a_problem_after_those_it_needs():
    problems = report.RUBRIC.values()
    assert sum(problem["points"] for problem in problems) == 100
    adapters = [adapter for problem in problems for adapter in problem["adapters"]]
    assert len(adapters) == len(set(adapters)) == 21
    written = (TESTS / "adapters.py").read_text(encoding="utf-8")
    assert all(f"def {adapter}(" in written for adapter in adapters)
    listed = set()
    for problem, entry in report.RUBRIC.items():
        assert set(entry["needs"]) <= listed, problem
        listed.add(problem)


@pytest.fixture
def conftest(pytestconfig):
    return pytestconfig.pluginmanager.get_plugin(str(TESTS / "conftest.py"))


def test_an_item_of_an_unknown_problem_is_an_error(conftest):
    item = SimpleNamespace(path=TESTS / "test_x.py", nodeid="test_x.py::test_y")
    with pytest.raises(pytest.UsageError, match=r"test_x.py::test_y: no problem 'x' in rubric"):
        conftest.problem_in(item)


def test_report_has_a_row_for_each_item_and_tells_its_outcomes_apart(examined):
    rows, outcomes = examined[1], {}
    assert len({row["item"] for row in rows}) == len(rows) > 50
    for row in rows:
        assert list(row) == ["problem", "item", "outcome", "diagnosis", "message"]
        assert (row["message"] == "") == (row["outcome"] == "passed")
        outcomes.setdefault(row["problem"], set()).add(row["outcome"])
    assert outcomes["learning_rate_schedule"] == {"passed"}
    assert "failed" in outcomes["silu"]
    assert outcomes["softmax"] == {"error"}
    assert outcomes["linear"] == {"not_started"}  # raises NotImplementedError
    assert outcomes["embedding"] == {"not_started"}  # is missing


def test_what_pytorch_has_not_implemented_is_no_blank(conftest):
    class Misspelt(torch.nn.Module):
        def foward(self, x):
            return x

    for raises in (lambda: Misspelt()(1), lambda: torch.empty(2, device="meta").tolist()):
        with pytest.raises(NotImplementedError) as raised:
            raises()
        assert not conftest.is_blank(raised.value), raised.value
    assert conftest.is_blank(NotImplementedError())
    assert conftest.is_blank(NotImplementedError("to be done"))
    assert not conftest.is_blank(NotImplementedError("closures are not supported"))
    assert not conftest.is_blank(ValueError())


def test_an_answer_counts_for_what_it_holds(conftest):
    class Pair(NamedTuple):
        left: bytes
        right: bytes

    class OneByOne(list):
        def __init__(self):
            super().__init__()

    merges = OneByOne()
    merges.append(Pair(b"a", b"b"))
    copy = conftest.copied(merges)
    assert (type(copy), copy) == (list, [(b"a", b"b")])


def test_a_message_says_what_was_asked_what_came_back_and_which_mistake_it_is(examined):
    row = next(
        row for row in examined[1] if "test_silu_is_x_times_sigmoid[(2, 2, 2)]" in row["item"]
    )
    assert row["diagnosis"] == "only-the-sigmoid-is-returned"
    asked, came, where, name = row["message"].splitlines()
    assert asked.startswith("asked for run_silu(in_features=[")
    assert asked.count(",") == 7
    assert came.endswith("values are wrong (float32 of shape (2, 2, 2))")
    assert where.startswith("  worst at [")
    assert name.startswith("  This is what comes out when only the sigmoid is returned")


def test_an_exception_shows_the_frames_of_the_submission_only(examined):
    text = examined[0]
    assert "def broken(x):" in text
    assert "def run_softmax(in_features, dim):" in text
    assert "def observe" not in text
    assert "probe(adapters" not in text
    assert "def forward" not in text
    message = next(row["message"] for row in examined[1] if row["problem"] == "softmax")
    assert message.startswith("ValueError: the inputs sum to ")
    assert "(adapters.py, line " in message
    assert "asked for run_softmax(in_features" in message


@pytest.mark.parametrize(
    "run", ["examined", pytest.param("examined_otherwise", marks=pytest.mark.slow)]
)
def test_table_of_problems_ends_the_run(run, request):
    lines = request.getfixturevalue(run)[0].splitlines()
    counts = next(line for line in lines if line.startswith("=") and " failed" in line)
    assert " not started" in counts
    start = next(i for i, line in enumerate(lines) if " examination " in line)
    shown = lines[start + 1 :]
    assert all(len(line) <= 80 for line in lines[start : start + 12])
    titles = [report.RUBRIC[problem]["title"] for problem in PROBLEMS]
    assert [line[:34].strip() for line in shown[1:7]] == titles
    assert shown[6].endswith("3.0 of 3")
    assert shown[7].startswith("Together")
    assert "Repair next: Softmax" in "\n".join(shown)


REFUSES = """
import sys

def __getattr__(name):
    if name.startswith(("run_", "get_")):
        return refuse
    raise AttributeError(name, name=name, obj=sys.modules[__name__])

def refuse(*given, **named):
    raise ValueError("no")
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """Examine adapters that refuse everything; return the terminal's lines, rows and page."""
    folder = tmp_path_factory.mktemp("refused")
    page = folder / "page.html"
    page.write_text("the page of the run before")  # In one word, so that it is no folder of tests.
    done, rows = sit(folder, {"tests/adapters.py": REFUSES}, f"--exam-page={page}")
    return done.stdout.splitlines(), rows, page


def test_every_message_says_what_was_asked(refused):
    wrong = [row for row in refused[1] if row["outcome"] != "passed"]
    assert {row["problem"] for row in wrong} == set(report.RUBRIC)
    for row in wrong:
        asked = row["message"].partition("asked for ")[2]
        names = [*report.RUBRIC[row["problem"]]["adapters"], "AdamW("]
        assert any(asked.startswith(name) for name in names), row
        assert "given" not in asked, row


def test_a_run_with_many_failures_ends_with_the_table_and_what_to_do(refused):
    lines, rows, page = refused
    assert len(rows) > 700
    assert len(lines) <= 60
    start = next(place for place, line in enumerate(lines) if " examination " in line)
    assert not any(" failed, " in line for line in lines[start:])
    assert lines[-1] == f"All messages: {page}"
    said = "\n".join(lines[start:])
    assert "Repair next: " in said
    assert "asked for run_" in said
    shown = page.read_text(encoding="utf-8")
    assert "Rotary position embedding" in shown
    assert "test_linear_multiplies_the_last_axis" in shown
    assert "<script" not in shown


def test_what_a_message_says_stays_text_on_the_page(tmp_path):
    about = {"problem": "softmax", "outcome": "failed", "diagnosis": ""}
    page.write_page([{**about, "item": "a::<b>", "message": "<i>\ud800"}], tmp_path / "page.html")
    shown = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<code>&lt;b&gt;</code>" in shown
    assert "<pre>&lt;i&gt;\\ud800</pre>" in shown


@pytest.mark.slow
def test_another_seed_gives_other_inputs_and_none_depends_on_the_processes(
    examined, examined_otherwise
):
    def message(rows):
        return next(r["message"] for r in rows if "test_softmax_takes_any_number" in r["item"])

    assert message(examined[1]) != message(examined_otherwise[1])
    assert sorted(row["item"] for row in examined[1]) == sorted(
        row["item"] for row in examined_otherwise[1]
    )


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--submission", "nowhere", "there is no tests/adapters.py in it"),
        ("--exam-report", "no/such/folder/report.json", "does not exist"),
        ("--exam-page", "no/such/folder/page.html", "does not exist"),
    ],
)
def test_a_wrong_option_gets_one_clear_line(conftest, option, value, complaint):
    config = SimpleNamespace(getoption={option: Path(value)}.get)
    with pytest.raises(pytest.UsageError, match=f"^{option} {value}: .*{complaint}$"):
        conftest.pytest_configure(config)


@pytest.mark.parametrize("processes", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_adapters_that_cannot_be_imported_are_one_message_and_the_end(tmp_path, processes):
    broken = {
        "pyproject.toml": '[project]\nname = "lm"\nversion = "1"\nrequires-python = ">=9.1"\n'
        'dependencies = ["numpy", "torch~=1.2"]\n',
        "tests/adapters.py": "import torch\nimport a_package_that_nobody_has\n",
    }
    root = write_files(tmp_path / "theirs", broken)
    done = run_pytest(TESTS, f"--submission={root}", "-n", processes, folder=tmp_path)
    assert done.returncode in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert len(done.stdout.splitlines()) < 50, done.stdout
    told = done.stdout.partition("= examination =")[2]
    assert "No module named 'a_package_that_nobody_has'" in told
    assert "adapters.py, line 2)" in told
    assert "python -m pip install a_package_that_nobody_has" in told
    assert "asks for Python >=9.1" in told
    assert "torch~=1.2 (here: 2." in told
    assert "Repair next" not in told


def test_a_package_without_pyproject_can_ask_for_its_version(tmp_path):
    write_files(tmp_path, {"student_basics/__init__.py": "", "data/words.txt": ""})
    (found,) = importlib.metadata.distributions(path=[distribution_of(tmp_path)])
    assert (found.name, found.version) == ("student_basics", "0")


class EndlessError(Exception):
    """An error of a submission's own that says nothing of a type."""


class BeartypeCallHintViolation(Exception):  # noqa: N818
    """Called like that of beartype, which need not be installed."""


@pytest.mark.parametrize(
    ("error", "is_honest"),
    [
        (TypeError("the layer is of float32"), True),
        (NotImplementedError("\"softmax_lastdim_kernel_impl\" not implemented for 'Half'"), True),
        (EndlessError("Half"), True),
        (BeartypeCallHintViolation("violates type hint"), True),
        (EndlessError(), False),
        (MemoryError("Unable to allocate 50. GiB for data type float64"), False),
        (BlockingIOError("no more processes"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_type_is_refused_by_what_checks_raise_not_by_what_breaks(error, is_honest):
    def run_softmax(in_features, dim):
        if in_features.dtype == torch.float64:
            raise error
        return in_features.softmax(dim)

    adapters = SimpleNamespace(run_softmax=run_softmax)
    arguments = {"in_features": np.ones(3, np.float32), "dim": 0}
    asked = adapters, "run_softmax", arguments, {"in_features": "float64"}
    if is_honest:
        assert forward_if_supported(*asked) is None
    else:
        with pytest.raises(type(error)):
            forward_if_supported(*asked)


def test_what_fails_in_float32_too_refuses_no_type():
    adapters = SimpleNamespace(run_softmax=lambda **_: {}["not so"])
    arguments = {"in_features": np.ones(3, np.float32), "dim": 0}
    with pytest.raises(KeyError, match="not so"):
        forward_if_supported(adapters, "run_softmax", arguments, {"in_features": "float64"})


UNTIDY = """
import multiprocessing
import sys
import torch
import torch.cuda.nvtx as nvtx
from torch.cuda import Event, Stream

@nvtx.range("softmax")
def run_softmax(in_features, dim):  # What only a GPU has.
    start, end, stream = Event(enable_timing=True), Event(enable_timing=True), Stream()
    start.record()
    with torch.cuda.stream(stream), nvtx.range("all"):
        nvtx.range_push("softmax")
        result = torch.softmax(in_features.pin_memory(), dim)
        nvtx.range_pop()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    start.elapsed_time(end)
    return result

def run_silu(in_features):
    print("a print of the submission")
    print("another", file=sys.stderr)
    kept = [open(__file__), multiprocessing.Pool(1)]
    kept.append(kept)  # Only the garbage collector gets rid of these.
    return in_features * torch.sigmoid(in_features) + (in_features.ndim == 4)

def run_embedding(vocab_size, weights, token_ids, d_model):
    signalling = torch.full((*token_ids.shape, d_model), 0x7FA00000, dtype=torch.int32)
    return signalling.view(torch.float32)

def run_linear(inputs):
    return inputs
"""


@pytest.fixture(scope="module")
def untidy(tmp_path_factory):
    """Examine the untidy submission; return how the run ended, and its rows by problem."""
    files = {"tests/adapters.py": UNTIDY}
    done, rows = sit(tmp_path_factory.mktemp("untidy"), files, problems=FOUR)
    return done, by_problem(rows)


def test_what_only_a_gpu_has_costs_nothing(untidy):
    errors = [row for row in untidy[1]["softmax"] if row["outcome"] == "error"]
    assert errors == []
    assert sum(row["outcome"] == "passed" for row in untidy[1]["softmax"]) > 20


def test_what_a_submission_leaves_behind_and_prints_costs_no_other_item(untidy):
    done, rows = untidy
    assert "of the submission" not in done.stdout
    assert "another" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert {row["outcome"] for row in rows["silu"]} == {"passed", "failed"}
    for row in (row for some in rows.values() for row in some if row["outcome"] != "passed"):
        assert "RuntimeWarning" not in row["message"]
        assert ".py, line" not in row["message"].partition("asked for")[0]
