"""--pdb stops where a student can look: at the call of the function that was wrong."""

from files import write_files
from processes import python

WRONG = "def run_silu(in_features):\n    return in_features\n"


def test_the_debugger_stops_at_the_call_and_steps_into_it(tmp_path):
    write_files(tmp_path, {"tests/adapters.py": WRONG})
    options = ("-p", "no:xdist", "-x", "--pdb", f"--submission={tmp_path}")
    commands = "step\nstep\nquit\n"
    finished = python("-m", "pytest", "tests/test_silu.py", *options, input=commands)
    before, *stops = finished.stdout.split("(Pdb) ")
    assert "asked for run_silu(" in before
    assert before.endswith("-> return function(*given, **named)\n")
    assert stops[1].endswith("adapters.py(2)run_silu()\n-> return in_features\n")
