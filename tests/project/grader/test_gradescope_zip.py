"""The zip for Gradescope: what is in it, and that it runs in a folder laid out like theirs."""

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile

import pytest
from processes import ROOT, until

from cs_grader.trusted.examination import remove_remains

SECRET = "the secret words of this test"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@pytest.fixture
def make(succeeds, tmp_path):
    """Make the zip by the script."""

    def call(*options):
        out = tmp_path / "autograder.zip"
        finished = succeeds("instructor/make_gradescope", "--out", out, "--overwrite", *options)
        return out, finished.out

    return call


@pytest.fixture
def container(make, tmp_path):
    """Lay out a folder as Gradescope does for a problem, with the reference handed in."""

    def call(*options):
        base = tmp_path / "autograder"
        with zipfile.ZipFile(
            make("--require-isolation", "process", "--only", *options)[0]
        ) as archive:
            archive.extractall(base / "source")
        shutil.copyfile(base / "source" / "run_autograder", base / "run_autograder")
        (base / "submission_metadata.json").write_text("{}")
        submission = base / "submission"
        shutil.copytree(ROOT / "cs_basics", submission / "cs_basics")
        (submission / "tests").mkdir()
        shutil.copyfile(ROOT / "tests" / "adapters.py", submission / "tests" / "adapters.py")
        return base

    return call


def start(base, **environment):
    clean = {"PATH": os.environ["PATH"], "AUTOGRADER_PYTHON": sys.executable}
    return subprocess.Popen(
        ["bash", base / "run_autograder"],
        cwd=base,
        env=clean | {"AUTOGRADER": str(base)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(base, **environment):
    with start(base, **environment) as process:
        said, _ = process.communicate(timeout=300)
    return results_of(base), said


def results_of(base):
    return json.loads((base / "results" / "results.json").read_text())


# --- what is in it ---


def test_scripts_are_at_the_root_ready_to_run_and_no_solution_is_there(make):
    with zipfile.ZipFile(make()[0]) as archive:
        names = archive.namelist()
        for name in ("setup.sh", "run_autograder"):
            assert archive.read(name).startswith(b"#!/usr/bin/env bash\n")
            assert archive.getinfo(name).external_attr >> 16 == 0o100755
    assert {"tests/rubric.toml", "cs_grader/trusted/verdict.py"} < set(names)
    assert not re.findall("cs_basics|project|tests/adapters.py", " ".join(names))


def test_what_windows_gave_crlf_is_packed_with_lf(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "scripts/instructor")
    make_gradescope = importlib.import_module("make_gradescope")
    shutil.copytree(make_gradescope.CONTAINER, tmp_path / "windows")
    for file in (tmp_path / "windows").iterdir():
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    monkeypatch.setattr(make_gradescope, "CONTAINER", tmp_path / "windows")
    make_gradescope.main(tmp_path / "autograder.zip")
    with zipfile.ZipFile(tmp_path / "autograder.zip") as archive:
        assert archive.read("run_autograder").startswith(b"#!/usr/bin/env bash\n")
        assert not [name for name in archive.namelist() if b"\r\n" in archive.read(name)]


def test_a_zip_with_its_secret_is_not_replaced_unasked(make, refused, tmp_path):
    before = make()[0].read_bytes()
    line = refused("instructor/make_gradescope", "--out", tmp_path / "autograder.zip")
    assert "already exists: add --overwrite" in line
    assert (tmp_path / "autograder.zip").read_bytes() == before


def test_same_options_make_the_same_zip_and_a_fresh_seed_another(make):
    first = make("--exam-seed", SECRET)[0].read_bytes()
    assert make("--exam-seed", SECRET)[0].read_bytes() == first
    seeds = {make()[1].partition("inputs: ")[2].split()[0] for _ in range(2)}
    assert len(seeds) == 2


def test_requirements_are_the_librarys_and_the_courses(make, tmp_path):
    (tmp_path / "more.txt").write_text("tqdm>=4\n")
    out, _ = make("--packages", tmp_path / "more.txt", "--pip-options=--no-deps --quiet")
    with zipfile.ZipFile(out) as archive:
        requirements = archive.read("requirements.txt").decode().splitlines()
        assert archive.read("pip_options.txt") == b"--no-deps --quiet\n"
    names = {line.partition(">")[0] for line in requirements}
    assert {"torch", "einops", "pytest", "tqdm"} <= names


def test_the_script_that_no_test_runs_is_bash():
    subprocess.run(["bash", "-n", ROOT / "cs_grader" / "container" / "setup.sh"], check=True)


# --- that it runs ---


def test_reference_gets_full_marks_in_a_folder_laid_out_like_theirs(container):
    base = container("silu", "--only", "linear", "--exam-seed", SECRET)
    results, said = run(base)
    assert results["score"] == 4.0, said
    assert [test["name"] for test in results["tests"]] == ["Linear layer", "SiLU"]
    assert results["extra_data"]["isolation"] in {"bubblewrap", "uid", "process"}
    # Answers are closed to other users.
    for path in (base / "source", base / "source" / "tests" / "exam/compare.py", base / "results"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.needs
def test_a_wrong_submission_is_told_what_is_wrong(container):
    base = container("silu", "--hidden-items", "after_published")
    adapters = base / "submission" / "tests" / "adapters.py"
    text = adapters.read_text() + "\n\ndef run_silu(in_features):\n    return 2 * in_features\n"
    adapters.write_text(text)
    results, _ = run(base)
    assert results["score"] < 2.0
    assert results["output"].startswith("Repair SiLU first.")
    shown = {"visible": "", "after_published": ""}
    for test in results["tests"][1:]:
        shown[test["visibility"]] += test["output"]
    assert "asked for run_silu" in shown["visible"]
    assert re.fullmatch(r"\d+ of \d+ checks on hidden inputs failed\.", shown["after_published"])


def test_nothing_handed_in_is_a_score_of_zero_with_a_note(container):
    base = container("silu")
    shutil.rmtree(base / "submission")
    (base / "submission").mkdir()
    results, _ = run(base)
    assert results["score"] == 0
    assert "the folder is empty" in results["output"]


def test_an_image_without_python_still_reports(container):
    results, _ = run(container("silu"), AUTOGRADER_PYTHON="/nowhere/python")
    assert results["score"] == 0
    assert "tell your instructor" in results["output"]


def test_a_container_that_allows_less_isolation_marks_nothing(container, tmp_path):
    base = container("silu")
    options = base / "source" / "autograder.json"
    strict = json.loads(options.read_text()) | {"require_isolation": "bubblewrap"}
    options.write_text(json.dumps(strict))
    (tmp_path / "tools").mkdir()
    for tool in ("bash", "mkdir", "cat", "mv", "chmod"):
        (tmp_path / "tools" / tool).symlink_to(shutil.which(tool))
    results, said = run(base, PATH=str(tmp_path / "tools"))
    assert results["score"] == 0
    assert "tell your instructor" in results["output"]
    assert "bwrap is not installed" in said
    assert "bwrap" not in json.dumps(results)


def test_killed_in_the_middle_the_results_are_valid(container):
    base = container("train_bpe")
    file = base / "results" / "results.json"
    with start(base) as process:
        until(lambda: file.exists() and "checks" in file.read_text(), 120)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    remove_remains()
    results = results_of(base)
    assert 0 <= results["score"] <= 15
    assert "what was not checked counts as not passed" in results["output"]
