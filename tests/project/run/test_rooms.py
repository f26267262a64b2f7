"""A run stands on the book alone: what it lacks is missed only where a setting asks for it."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

ROOMS = ("variants", "fast", "study", "run/parallel", "interop/serve")
TRAIN = """
import json, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
# A whole tree that is installed would lend this one what it leaves out.
sys.meta_path[:] = [finder for finder in sys.meta_path if "Editable" not in str(finder)]
from cs_basics.run.config import TrainConfig
from cs_basics.run.training_run import train_run
print(train_run(TrainConfig.from_json(json.load(sys.stdin))).num_tokens > 100)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A copy of the tree without the rooms that a run may ask for."""
    folder = tmp_path_factory.mktemp("alone")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "cs_basics", folder / "cs_basics", ignore=skip)
    for room in ROOMS:
        shutil.rmtree(folder / "cs_basics" / room)
    return folder


def train(folder, config):
    return subprocess.run(
        [sys.executable, "-c", TRAIN],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        input=json.dumps(config),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("folder", ["whole", "alone"])
def test_a_run_needs_neither_another_room_nor_a_module_that_windows_lacks(
    folder, alone, tiny_config
):
    config = tiny_config.replace(max_steps=2, fast="off")
    finished = train(alone if folder == "alone" else ROOT, config.to_json())
    assert finished.stdout.splitlines()[-1:] == ["True"], finished.stderr
    assert (config.run.run_dir / "checkpoints" / "step-00000002.pt").exists()


@pytest.mark.parametrize(
    ("section", "name", "value", "room"),
    [
        ("model", "norm", "layernorm", "variants"),
        ("optim", "dropout", 0.1, "variants"),
        ("data", "order", "epochs", "variants"),
        ("run", "parallel", "tp", "run/parallel"),
    ],
)
def test_a_setting_without_its_room_is_refused_in_one_line(
    section, name, value, room, alone, tiny_config
):
    config = tiny_config.to_json()
    config[section][name] = value
    said = train(alone, config).stderr.splitlines()[-1]
    assert (
        said == f"ValueError: {name}={value} needs cs_basics/{room}, which this edition leaves out"
    )
