"""What a script does with its output, and which package it uses."""

import os
import subprocess

import pytest
from files import write_files
from processes import ROOT, python

PRINT = "import cli\ndef main():\n    print('caf\\u00e9')\ncli.run(main)\n"
LOG = PRINT.replace("    print", "    cli.log_to_stdout()\n    cli.logging.info('step')\n    print")


@pytest.mark.parametrize(("program", "code"), [(PRINT, 141), (LOG, 0)], ids=["print", "log"])
def test_where_the_reader_is_gone_printing_ends_and_logging_goes_on_quietly(program, code):
    reading, writing = os.pipe()
    os.close(reading)
    pipes = {"capture_output": False, "stdout": writing, "stderr": subprocess.PIPE}
    done = python("-c", program, cwd=ROOT / "scripts", **pipes)
    os.close(writing)
    assert (done.returncode, done.stderr) == (code, "")


def test_a_letter_that_stdout_does_not_have_is_escaped():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = python("-c", PRINT, cwd=ROOT / "scripts", env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "caf\\xe9\n", "")


def test_a_script_uses_the_package_beside_it_whatever_is_installed(tmp_path):
    files = {
        "cs_basics/__init__.py": "",
        "cs_basics/run/__init__.py": "",
        "cs_basics/run/progress.py": "OnProgress = object\n",
        "scripts/cli.py": (ROOT / "scripts" / "cli.py").read_bytes(),
        "scripts/where.py": "import cli\nimport cs_basics\nprint(cs_basics.__file__)\n",
    }
    found = python(write_files(tmp_path, files) / "scripts" / "where.py", check=True)
    assert found.stdout.strip() == str(tmp_path / "cs_basics" / "__init__.py")
