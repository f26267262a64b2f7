"""--pdb stops where a student can look: at the call of the function that was wrong."""

import subprocess
import sys

from conftest import ROOT

WRONG = "def run_silu(in_features):\n    return in_features\n"


def test_the_debugger_stops_at_the_call_and_steps_into_it(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "adapters.py").write_text(WRONG)
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:xdist", "-x", "--pdb"),
            *("tests/test_silu.py", f"--submission={tmp_path}"),
        ],
        cwd=ROOT,
        input="step\nstep\nquit\n",
        capture_output=True,
        text=True,
        check=False,
    )
    before, *stops = finished.stdout.split("(Pdb) ")
    assert "asked for run_silu(" in before
    assert before.endswith("-> return function(*given, **named)\n")
    assert stops[1].endswith("adapters.py(2)run_silu()\n-> return in_features\n")
