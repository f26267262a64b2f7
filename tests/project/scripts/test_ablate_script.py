"""scripts/ablate.py from the command line: a small suite, stopped, resumed, refused."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from processes import ROOT, python, until


def command(of_texts, folder, *more):
    small = ["--preset", "debug", "--max-steps", "3", "--seeds", "0"]
    return ["positions", *of_texts, "--out", folder, *small, *more]


@pytest.fixture(scope="module")
def finished(of_texts, tmp_path_factory):
    """The folder of a finished suite, and what its making printed. Copy it, do not change it."""
    folder = tmp_path_factory.mktemp("ablation") / "suite"
    result = python("scripts/ablate.py", *command(of_texts, folder))
    assert result.returncode == 0, result.stderr + result.stdout
    return folder, result.stdout


@pytest.fixture
def suite(finished, tmp_path):
    """A copy of the finished suite."""
    return shutil.copytree(finished[0], tmp_path / "suite")


def results(folder):
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("runs/*/result.json")}


def test_a_suite_runs_every_variant_with_every_seed_and_reports(finished):
    folder, out = finished
    assert set(results(folder)) == {"rope-seed0", "no-positions-seed0"}
    assert "[ 1/2] rope, seed 0" in out
    assert "[ 2/2] no-positions, seed 0" in out
    page = (folder / "report.html").read_text()
    for path in folder.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        assert f"<td>{result['bits_per_byte']:.4f}</td>" in page
        assert result["steps"] == 3
    shared = {path.name for path in (folder / "shared").iterdir()}
    assert shared == {"config.json", "tokenizer", "tokens"}
    assert not list(folder.glob("**/*.pt"))


def test_a_finished_suite_only_writes_its_report_anew(suite, succeeds, of_texts):
    before = results(suite)
    (suite / "report.html").unlink()
    result = succeeds("ablate", *command(of_texts, suite))
    assert "every run is done" in result.out
    assert re.search(r"^rope +\d\.\d{4} bits per byte", result.out, re.MULTILINE)
    assert results(suite) == before
    assert (suite / "report.html").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--max-steps", "4"], "max_steps=3, not 4"),
        (["--train-text", "other.txt"], "not other.txt"),
        (["--seeds", "0", "0"], "seeds=(0, 0)"),
        (["--seeds", "-1"], "seeds=(-1,)"),
    ],
)
def test_other_settings_for_the_same_folder_are_refused(suite, refused, of_texts, more, words):
    before = results(suite)
    assert words in refused("ablate", *command(of_texts, suite, *more))
    assert results(suite) == before


def test_a_crash_is_a_row_and_the_other_runs_go_on_and_it_alone_is_made_again(
    suite, finished, succeeds, refused, of_texts, monkeypatch
):
    shutil.rmtree(suite / "runs")
    (suite / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if sys.orig_argv[1].endswith('ablation_run.py'):\n"
        "    print('out of luck', flush=True)\n"
        "    os._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(suite), prepend=os.pathsep)
    assert "log.txt" in refused("ablate", *command(of_texts, suite))
    page = (suite / "report.html").read_text()
    assert page.count("crashed (exit code 3): out of luck") == 2  # Of each variant.
    (suite / "sitecustomize.py").unlink()
    other = "runs/no-positions-seed0"
    shutil.copytree(finished[0] / other, suite / other, dirs_exist_ok=True)
    before = results(suite)
    result = succeeds("ablate", *command(of_texts, suite))
    assert "[ 1/2] rope, seed 0" in result.out
    assert result.out.count("seed") == 1
    assert before.items() < results(suite).items()


def test_a_run_ends_with_the_script_that_started_it(suite):
    folder = suite / "runs" / "rope-seed0"
    stored = json.loads((folder / "config.json").read_text())
    shutil.rmtree(folder)
    folder.mkdir()
    stored["settings"]["run"]["max_steps"] = 1_000_000
    (folder / "config.json").write_text(json.dumps(stored))
    call = [sys.executable, ROOT / "scripts" / "ablation_run.py", folder]
    call += ["--shared", suite / "shared"]
    with subprocess.Popen(
        list(map(str, call)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        until(lambda: (folder / "metrics.jsonl").exists() or process.poll() is not None)
        # What the kernel does with the pipe of a process that was killed.
        process.stdin.close()
        try:
            assert process.wait(timeout=10) == 1
        finally:
            process.kill()
    assert not (folder / "result.json").exists()
