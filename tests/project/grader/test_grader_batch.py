"""scripts/instructor/grade.py: one submission or many, killed and resumed, and what it refuses."""

import csv
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import sample_results
from files import write_files
from processes import ROOT, python, until

from cs_grader.result import Result
from cs_grader.sandbox.processes import descendants
from cs_grader.trusted import batch, copying, examination
from cs_grader.trusted.connection import time_is_up
from cs_grader.trusted.examination import Examination, Terms, check_tests
from cs_grader.trusted.examiner import Examiner
from cs_grader.trusted.hidden import name_of_secret
from cs_grader.trusted.isolation import ISOLATIONS
from cs_grader.trusted.submissions import Submission, find_submissions

TESTS = ROOT / "tests"

RIGHT = "def silu(x):\n    return x * x.sigmoid()\n"
SUBMISSIONS = {
    "ann": f"__builtins__['ex' + 'ec']('')\n{RIGHT}",
    "bob": "def silu(x):\n    return x.sigmoid()\n",
    "cyd": "import os\nos._exit(0)\n",
    "dan": "def silu(x:\n",
    "eve": "import torch\ndef silu(x):\n    return torch.nn.functional.silu(x)\n",
}
ADAPTERS = (
    "from lm.functions import silu\n\ndef run_silu(in_features):\n    return silu(in_features)\n"
)


def submit(folder, source):
    return write_files(folder, {"tests/adapters.py": ADAPTERS, "lm/functions.py": source})


@pytest.fixture(scope="session")
def class_folder(once):
    def hand_in(folder):
        for name, source in SUBMISSIONS.items():
            submit(folder / name, source)

    return once("submissions", hand_in)


SCRIPT = ROOT / "scripts" / "instructor" / "grade.py"


def grade(*arguments):
    return python(SCRIPT, *arguments)


def started(*arguments, stderr=subprocess.DEVNULL, **more):
    words = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.Popen(words, stderr=stderr, **more)


def terms(secret="5", **changes):
    given = {"tests": TESTS, "isolation": "process", "problems": ("silu",)}
    return Terms(secret=secret, **given | changes)


ONLY = ["--require-isolation", "process", "--only", "silu"]
OPTIONS = [*ONLY, "--exam-seed", "the secret words of this test"]


@pytest.fixture(scope="session")
def graded(class_folder, once):
    """The results of the class graded in one go, and what was printed; copy them."""

    def make(folder):
        folder.mkdir()
        finished = grade(class_folder, "--out", folder / "results", "--jobs", 2, *OPTIONS)
        assert finished.returncode == 0, finished.stderr
        (folder / "printed.json").write_text(json.dumps([finished.stdout, finished.stderr]))

    folder = once("graded", make)
    return folder / "results", *json.loads((folder / "printed.json").read_text())


def result_of(out, name):
    return Result.from_json((out / name / "result.json").read_text(encoding="utf-8"))


def test_each_gets_the_score_the_note_and_the_reason_that_it_deserves(graded):
    results = {name: result_of(graded[0], name) for name in SUBMISSIONS}
    # What passes of the wrong ones is what a trivial answer passes, too.
    deserved = dict.fromkeys(SUBMISSIONS, 0) | {"ann": 2}
    assert {name: one.score for name, one in results.items()} == deserved
    assert results["ann"].note == ""
    assert results["cyd"].note == "left during import (exited with status 0)"
    assert results["dan"].note == "lm/functions.py: line 1: SyntaxError: '(' was never closed"
    assert "only-the-sigmoid-is-returned" in {item.diagnosis for item in results["bob"].items}
    assert {item.diagnosis for item in results["eve"].items} == {"forbidden-operator"}
    expected = {
        "ann": ("needs review", "exec", "lm/functions.py", 1),  # At import.
        "eve": ("forbidden", "torch.nn.functional.silu", "lm/functions.py", 3),
    }
    for name, words in expected.items():
        (finding,) = results[name].policy
        assert (finding.rule, finding.operator, finding.file, finding.line) == words


def test_hidden_items_are_those_that_draw_inputs(graded):
    result = result_of(graded[0], "ann")
    public, hidden = (
        {item.item for item in result.items if item.is_hidden == is_hidden}
        for is_hidden in (False, True)
    )
    assert set() < hidden < public
    assert len(result.secret) == 16


def test_progress_tells_the_time_left_and_the_end_where_to_look(graded):
    _, out, err = graded
    *verdicts, points, page = [line.partition(":")[0] for line in out.splitlines()]
    assert sorted(verdicts) == list(SUBMISSIONS)
    assert Path(points).parts[-2:] == ("results", "gradebook.csv")
    assert Path(page).parts[-2:] == ("results", "index.html")
    assert re.fullmatch(
        r"grading: (\d+) of \1 checks \(100%\), \d+ checks/(s|min), 0 s left", err.splitlines()[-1]
    )


def test_results_are_reused_only_for_the_same_content(graded, class_folder, tmp_path, monkeypatch):
    out = shutil.copytree(graded[0], tmp_path / "results")
    folder = shutil.copytree(class_folder, tmp_path / "in")
    before = (out / "gradebook.csv").read_bytes()
    written = json.loads((out / batch.TERMS_FILE).read_text())
    resumed = terms(written["secret"], isolation=written["isolation"])
    monkeypatch.setattr(examination, "_pytest", lambda *_: [sys.executable, "-c", "1 / 0"])
    changed = folder / "bob" / "lm" / "functions.py"
    for text, anew in ((f"{RIGHT}# better\n", {"bob"}), (SUBMISSIONS["bob"], set())):
        changed.write_text(text)
        found, _ = find_submissions(folder)
        finished = batch.grade(found, lambda one: out / one.name, resumed)
        assert {one.submission.name for one in finished if one.fault} == anew
    batch.write_gradebook(finished, out)
    assert (out / "gradebook.csv").read_bytes() == before


@pytest.mark.slow
def test_two_machines_share_a_folder_are_killed_and_end_with_the_same_gradebook(
    graded, class_folder, tmp_path
):
    """Two processes here; neither knows the secret before, and one has to draw it for both."""
    out = tmp_path / "results"
    for is_killed in (True, False):
        running = [started(class_folder, *ONLY, "--out", out, "--shard", f"{k}/2") for k in (1, 2)]
        if is_killed:
            time.sleep(4)
            for process in running:
                process.kill()
        codes = [process.wait() for process in running]
    assert codes == [0, 0]
    assert not (out / "gradebook.csv").exists()
    finished = grade(class_folder, "--out", out, "--pages")
    assert finished.returncode == 0, finished.stderr
    assert len({result_of(out, name).secret for name in SUBMISSIONS}) == 1
    # Hidden inputs are others than those of `graded`; what they say of these submissions is not.
    assert (out / "gradebook.csv").read_bytes() == (graded[0] / "gradebook.csv").read_bytes()
    assert not list(out.rglob(".*"))  # No half-written file.


def test_of_many_that_start_at_once_one_sets_the_terms(tmp_path):
    asked = [terms(str(number)) for number in range(16)]
    with ThreadPoolExecutor(16) as pool:
        settled = list(pool.map(lambda one: batch.settle_terms(tmp_path, one, resume=True), asked))
    assert len({one.secret for one in settled}) == 1
    (file,) = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == (batch.TERMS_FILE, 0o600)


def test_pages_are_written_again_and_name_who_has_no_result(script, graded, class_folder, tmp_path):
    out = shutil.copytree(graded[0], tmp_path / "results")
    folder = shutil.copytree(class_folder, tmp_path / "in")
    submit(folder / "new", RIGHT)
    submit(folder / "ann", f"{RIGHT}# better\n")
    finished = script("instructor/grade", folder, "--out", out, "--pages")
    assert finished.code == 1
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "not graded yet" in page
    assert "handed in anew: grade it with --resume" in page


def test_nothing_runs_on_after_a_kill(class_folder, tmp_path):
    running = started(class_folder / "ann", "--out", tmp_path / "out", *OPTIONS)
    until(lambda: len(descendants(running.pid)) >= 3)
    below = descendants(running.pid)
    running.kill()
    running.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


# What is wrong with a command line, and what is said of it.
USAGE = """
nowhere --out o | nowhere does not exist
SUBMISSION | --out
SUBMISSION --out o --jobs 0 | --jobs 0: use at least 1
SUBMISSION --out o --only x | --only x: the problems are train_bpe
SUBMISSION --out o --tests x | there is no rubric.toml in it
SUBMISSION --out o --exam-seed 7 | --exam-seed 7: a secret of 1 char
SUBMISSION --out o --minutes 0 | --minutes 0: use more than 0
SUBMISSION --out o --shard 3/2 | --shard 3/2: use K/N with K from 1 to N
SUBMISSION --out o --shard x | --shard x: use K/N with K from 1 to N
SUBMISSION --out o --pages | --out o: there are no results
SUBMISSION --out o --pages --resume | nothing: leave out --resume
SUBMISSION --out o --require-isolation x | --require-isolation
CLASS --out CLASS/results | lies among the submissions: choose another folder
CLASS --out OF-OTHERS --resume --exam-seed another-secret-of-22-letters | begun with another
""".strip().splitlines()


@pytest.mark.parametrize("line", USAGE)
def test_bad_usage_is_one_line(refused, class_folder, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    if "OF-OTHERS" in line:
        (tmp_path / "OF-OTHERS").mkdir()
        batch.settle_terms(tmp_path / "OF-OTHERS", terms("a" * 32), resume=False)
        line = line.replace(" --resume", f" --resume {' '.join(ONLY)}")
    before = list(tmp_path.rglob("*"))
    monkeypatch.setenv("PATH", "")  # A program that is missing is told after that.
    command_line, words = line.split(" | ")
    command_line = command_line.replace("SUBMISSION", f"{class_folder}/ann")
    command_line = command_line.replace("CLASS", str(class_folder))
    assert words in refused("instructor/grade", *command_line.split())
    assert list(tmp_path.rglob("*")) == before


def test_the_tests_of_a_student_edition_judge_nobody(tmp_path):
    (tmp_path / "rubric.toml").touch()
    check_tests(tmp_path)
    (tmp_path / "exam").mkdir()
    (tmp_path / "exam/stored.py").touch()
    with pytest.raises(ValueError, match="is of a student edition"):
        check_tests(tmp_path)


def no_links(*_arguments):
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("link", [os.link, no_links])
def test_results_on_other_terms_are_not_mixed(tmp_path, monkeypatch, link):
    """Nor are they where a file cannot have two names."""
    monkeypatch.setattr(os, "link", link)
    assert batch.settle_terms(tmp_path, terms(), resume=False) == terms()
    with pytest.raises(ValueError, match="add --resume"):
        batch.settle_terms(tmp_path, terms(), resume=False)
    assert batch.settle_terms(tmp_path, terms("9"), resume=True).secret == "5"
    with pytest.raises(ValueError, match="other terms"):
        batch.settle_terms(tmp_path, terms("9", problems=("linear",)), resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["batch.json"]


def test_what_had_no_time_is_examined_when_there_is_more(tmp_path):
    item = sample_results.item("silu", outcome="error", message=time_is_up(600), is_hidden=True)
    result = sample_results.result([item], "ann", key="k", secret=name_of_secret("5"))
    (tmp_path / batch.RESULT_FILE).write_text(result.to_json())
    known = partial(batch._known, tmp_path)
    assert known(Submission("ann", tmp_path), "k", terms(budget_s=600)) == result
    assert known(Submission("ann", tmp_path), "k", terms(budget_s=1200)) is None
    assert known(Submission("ann", tmp_path, "an;n"), "k", terms(budget_s=600)) is None


def graded_together(folder, *names, **options):
    submissions = [Submission(Path(name).stem, folder / name, name) for name in names]
    return batch.grade(submissions, lambda one: folder / "out" / one.name, terms(), **options)


def test_a_failure_of_the_grader_is_no_verdict(tmp_path, monkeypatch):
    monkeypatch.setattr(examination, "_pytest", lambda *_: [sys.executable, "-c", "1 / 0"])
    submit(tmp_path / "ann", RIGHT)
    (graded,) = graded_together(tmp_path, "ann")
    assert graded.result is None
    assert "ZeroDivisionError" in graded.fault
    assert not (tmp_path / "out" / "ann" / "result.json").exists()


def test_as_many_are_graded_at_the_same_time_as_there_are_jobs(tmp_path, monkeypatch):
    both = threading.Barrier(2, timeout=10)

    def meets_another(*_):
        both.wait()
        raise examination.GradingError("met another")

    monkeypatch.setattr(Examination, "run", meets_another)
    graded = graded_together(tmp_path, "ann", "bob", jobs=2)
    assert [one.fault for one in graded] == ["met another"] * 2


class OddError(Exception):
    """Of a type that nobody has thought of."""


def failing(function, name):
    """Fail if one submission's name is among the arguments."""

    def call(*arguments, **options):
        if any(name in str(argument) for argument in (*arguments, *options.values())):
            raise OddError(name)
        return function(*arguments, **options)

    return call


STAGES = {
    "fails-reading": (copying.zipfile, "ZipFile"),
    "fails-copying": (examination, "copy_submission"),
    "fails-source": (Examination, "_read_source"),
    "fails-examining": (Examination, "_examine"),
    "fails-listening": (Examination, "take"),
    "fails-points": (batch, "result_of"),
    "fails-output": (batch, "write_outputs"),
    "fails-beside-others": (batch, "check_class"),
    "fails-last": (batch, "write_atomically"),
}


@pytest.mark.slow
def test_an_exception_in_any_stage_costs_nobody_else_anything(tmp_path, monkeypatch):
    for name in (*STAGES, "fine"):
        shutil.make_archive(tmp_path / name, "zip", submit(tmp_path / "in" / name, RIGHT))
    for name, (place, attribute) in STAGES.items():
        monkeypatch.setattr(place, attribute, failing(getattr(place, attribute), name))
    zips = [f"{name}.zip" for name in (*STAGES, "fine")]
    graded = graded_together(tmp_path, *zips, jobs=2)
    batch.write_gradebook(graded, tmp_path / "out")
    faults = {one.submission.name: one.fault for one in graded}
    assert faults.pop("fine") == ""
    # What a zip does to its reader is the zip's fault, and a verdict.
    assert faults.pop("fails-reading") == ""
    assert (
        "this archive is damaged: OddError: " in result_of(tmp_path / "out", "fails-reading").note
    )
    assert result_of(tmp_path / "out", "fine").score == 2
    for name, fault in faults.items():
        assert "OddError" in fault, name
        assert name in fault
    with (tmp_path / "out" / "gradebook.csv").open(encoding="utf-8-sig") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    assert set(rows) == {*STAGES, "fine"}
    assert {name for name, row in rows.items() if not row["score"]} == set(faults)
    assert rows["fails-output"]["note"].startswith("NOT GRADED: ")
    assert "Not graded" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_the_examination_needs_torch_for_probes_only():
    folders = ("", "exam", "exam/oracles", "exam/mistakes")
    for path in (path for folder in folders for path in (TESTS / folder).glob("*.py")):
        if path.name not in ("adapters.py", "conftest.py"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"^\s*(import|from) torch\b", text, re.MULTILINE), path.name


def test_ctrl_c_ends_at_once_and_leaves_no_working_folder(class_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    pipe = {"stderr": subprocess.PIPE, "text": True}
    running = started(class_folder, "--out", tmp_path / "out", *OPTIONS, **pipe)
    until(lambda: list(tmp_path.glob("cs_grader-*/stage")))
    os.kill(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err.splitlines()[-1] == "interrupted"
    assert not list(tmp_path.glob("cs_grader-*"))


@pytest.mark.needs
def test_one_that_has_no_time_has_its_reports_and_what_killed_graders_have_left_is_gone(
    class_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left, used = tmp_path / "cs_grader-left", tmp_path / "cs_grader-used"
    for folder in (left, used):
        (folder / "stage").mkdir(parents=True)
        (folder / "lock").touch()
    out = tmp_path / "out"
    with (used / "lock").open("r+b") as lock:
        # Whoever holds it may be on another machine, or in a container of its own.
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = grade(class_folder / "ann", "--out", out, *OPTIONS, "--minutes", 0.01)
    assert ended.returncode == 0, ended.stderr
    # Its hidden checks too, whose messages only the instructor sees.
    assert re.search(r"the 0.01 minutes were used up before (\d+) of \1 checks", ended.stdout)
    assert (left.exists(), used.exists()) == (False, True)
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert results["score"] == 0
    assert results["extra_data"]["isolation"] in ISOLATIONS
    assert (out / "index.html").exists()
    assert not (out / "gradebook.csv").exists()


def test_a_working_folder_that_another_grader_takes_for_remains_is_made_anew(monkeypatch):
    flock = fcntl.flock

    def removes_first(*lock):
        monkeypatch.setattr(fcntl, "flock", flock)
        examination.remove_remains()
        flock(*lock)

    monkeypatch.setattr(fcntl, "flock", removes_first)
    with examination._scratch_folder() as folder:
        assert (folder / "stage").is_dir()
        examination.remove_remains()
        assert folder.exists()
    assert not folder.exists()


def test_a_full_disk_ends_the_batch_with_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(OSError, match=r"less than 256 MB are free in .*: free some"):
        graded_together(tmp_path, "ann")


def test_an_answer_that_no_item_can_read_says_so_and_names_no_file_of_ours():
    asked = SimpleNamespace(adapters=SimpleNamespace(has_answer=True))
    for error, words in (
        (IndexError("tuple index out of range"), r"^what came is nothing .* \(IndexError\)$"),
        (pytest.skip.Exception("not here"), r"^what came cannot be measured, .* \(not here\)$"),
    ):
        item = Examiner.pytest_pyfunc_call(asked)
        next(item)
        with pytest.raises(pytest.fail.Exception, match=words):
            item.throw(error)
