"""A run stands on the book alone: what it lacks is missed only where a setting asks for it."""

import json
import os
import shutil

import pytest
import torch
from processes import ROOT, python

from cs_basics.run import model

ROOMS = ("variants", "fast", "study", "run/parallel")
TRAIN = """
import json, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
# A whole tree that is installed would lend this one what it leaves out.
sys.meta_path[:] = [finder for finder in sys.meta_path if "Editable" not in str(finder)]
from cs_basics.settings.run import TrainConfig
from cs_basics.run.run import train_run
for config in json.load(sys.stdin):
    try:
        print(train_run(TrainConfig.from_json(config)).num_tokens > 100)
    except ValueError as error:
        print(error)
"""
NEEDED = {"norm": "layernorm", "dropout": 0.1, "parallel": "tp"}
NEEDED_OF = {"parallel": "run/parallel"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A copy of the tree without the rooms that a run may ask for."""
    folder = tmp_path_factory.mktemp("alone")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "cs_basics", folder / "cs_basics", ignore=skip)
    for room in ROOMS:
        shutil.rmtree(folder / "cs_basics" / room)
    return folder


def test_a_run_needs_neither_another_room_nor_a_module_that_windows_lacks(alone, tiny_config):
    config = tiny_config.replace(max_steps=2, fast="off", order="epochs")
    other = config.replace(run_dir=config.run.run_dir.with_name("other"))
    lacking = [other.replace(**{name: value}) for name, value in NEEDED.items()]
    given = json.dumps([each.to_json() for each in (config, *lacking)])
    environment = {**os.environ, "PYTHONPATH": str(alone)}
    done = python("-c", TRAIN, cwd=alone, env=environment, input=given)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1 - len(NEEDED) :] == ["True"] + [
        f"{name}={value} needs cs_basics/{NEEDED_OF.get(name, 'variants')}, "
        "which this edition leaves out: leave the option out, or take a preset without it, "
        "such as stories"
        for name, value in NEEDED.items()
    ]
    assert (config.run.run_dir / "checkpoints" / "step-00000002.pt").exists()


def test_without_fast_twins_and_a_compiler_the_loss_is_computed_and_it_is_said_once(
    monkeypatch, caplog
):
    def fail(*_):
        raise RuntimeError("no compiler here\nand ten more lines")

    monkeypatch.setattr(model, "has_room", lambda _: False)
    monkeypatch.setattr(torch, "compile", lambda _: fail)
    loss_of = model.compile_loss(lambda inputs, targets: inputs - targets, torch.device("cpu"))
    assert [loss_of(3, 1), loss_of(4, 1)] == [2, 3]
    (said,) = caplog.messages
    assert said == "torch.compile does not work here, so the run is slower: no compiler here"
