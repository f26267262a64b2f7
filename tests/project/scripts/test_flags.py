"""A command line that cannot be read is refused in one line, with what to write instead."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

REFUSED = {
    "an unknown flag": (
        ["train", "stories", "--lrr", "3"],
        "Unrecognized options: --lrr, 3. Perhaps you meant: --lr. See {train} stories --help",
    ),
    "an unknown preset": (["train", "tales"], "Available subcommands: debug, stories, own-text"),
    "no number": (["train", "stories", "--max-steps", "ten"], "instantiated from ['ten']. See"),
    "a rule of a field": (["train", "stories", "--lr", "-1"], "error: lr=-1.0 must be greater"),
    "what is missing": (
        ["instructor/grade", "."],
        "/grade.py: --out PATH. See ",
    ),
    "one folder twice": (
        ["instructor/make_starter", "--out", "edition", "--solution", "edition"],
        "error: --solution edition is --out, too",
    ),
    "no value": (["generate", ".", "--num-samples"], "Missing value for argument '--num-samples'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_command_line_is_refused_in_one_line(script, what):
    (name, *arguments), words = REFUSED[what]
    finished = script(name, *arguments)
    assert finished.code == 2
    assert finished.err.startswith("error: ")
    assert finished.err.count("\n") == 1
    assert words.replace("{train}", str(ROOT / "scripts" / "train.py")) in finished.err
    assert not set(finished.err) & set("\u2502\u2500\u256d\u256f"), finished.err


def test_a_run_whose_reader_is_gone_goes_on_quietly():
    code = (
        "import logging, cli\n"
        "def main():\n"
        "    cli.log_to_stdout()\n"
        "    for number in range(3):\n"
        "        logging.info('step %s', number)\n"
        "    print('result')\n"
        "cli.run(main)\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_letter_that_stdout_does_not_have_is_escaped():
    code = "import cli\ndef main():\n    print('caf\\u00e9')\ncli.run(main)\n"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"caf\\xe9\n", b"")


def test_a_script_uses_the_package_beside_it_whatever_is_installed(tmp_path):
    run_folder = tmp_path / "cs_basics" / "run"
    for folder in (run_folder, tmp_path / "scripts"):
        folder.mkdir(parents=True)
    for empty in (run_folder.parent / "__init__.py", run_folder / "__init__.py"):
        empty.touch()
    (run_folder / "progress.py").write_text("OnProgress = object\n")
    shutil.copy(ROOT / "scripts" / "cli.py", tmp_path / "scripts")
    script = tmp_path / "scripts" / "where.py"
    script.write_text("import cli\nimport cs_basics\nprint(cs_basics.__file__)\n")
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(tmp_path / "cs_basics" / "__init__.py")


MISSPELT = """
import sys
sys.path.insert(0, {scripts!r})
import torch
from cli import run

class Linear(torch.nn.Module):
    def foward(self, x):
        return x

def main() -> None:
    Linear()(1)

run(main)
"""


def test_a_misspelt_forward_is_one_line_that_names_its_module():
    program = MISSPELT.format(scripts=str(ROOT / "scripts"))
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert finished.stderr == 'error: Module [Linear] is missing the required "forward" function\n'
