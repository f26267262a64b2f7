"""Where there is no POSIX: the book trains on Windows, too."""

import json
import subprocess
import sys

from conftest import ROOT

PROGRAM = """
import json, os, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
import cs_basics.fast
from cs_basics.run.config import TrainConfig
from cs_basics.run.training_run import train_run
result = train_run(TrainConfig.from_json(json.load(sys.stdin)))
print(result.num_tokens > 100)
"""


def test_a_run_needs_no_module_that_windows_lacks(tiny_config):
    config = tiny_config.replace(max_steps=2, fast="off")
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=json.dumps(config.to_json()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "True"
    assert (config.run.run_dir / "checkpoints" / "step-00000002.pt").exists()
