"""Single guards against damaged files; a thousand of them found the need of each."""

import json
import os
import time

import pytest
import torch

from cs_basics.run.checkpoint_file import read_checkpoint, write_checkpoint
from cs_basics.run.folder import RunFolder
from cs_basics.run.json_file import MAX_DESCRIPTION_BYTES, read_json
from cs_basics.run.optimizer import make_optimizer
from cs_basics.variants.model import Transformer


def test_a_description_of_gigabytes_is_refused_unread(tmp_path):
    path = tmp_path / "huge.json"
    path.touch()
    os.truncate(path, MAX_DESCRIPTION_BYTES + 1)
    with pytest.raises(ValueError, match=r"huge\.json has 100,000,001 bytes"):
        read_json(path)


@pytest.fixture
def run(tiny_config):
    """The folder of a small run."""
    folder = RunFolder(tiny_config.run.run_dir)
    folder.write_config(tiny_config)
    folder.checkpoints.mkdir()
    model = Transformer(tiny_config.model)
    optimizer = make_optimizer(model, tiny_config)
    model(torch.arange(8)).square().mean().backward()
    optimizer.step()
    write_checkpoint(folder.checkpoint_of(1), model, optimizer, 1, {"elapsed_s": 1.0})
    return folder


def change_setting(folder, section, name, value):
    content = json.loads(folder.config.read_text())
    content["settings"][section][name] = value
    folder.config.write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["num_layers", "vocab_size"])
def test_sizes_that_no_checkpoint_holds_are_refused_before_memory_is_taken(run, name):
    change_setting(run, "model", name, 10**9)
    started = time.process_time()
    with pytest.raises(
        ValueError, match=r"config\.json describes a model of at least .* bytes, but"
    ):
        run.load_model()
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("model", "d_model", {"d_model": 1}),
        ("data", "batch_size", -1),
        ("model", "context_length", 10**9),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(run, section, name, value):
    change_setting(run, section, name, value)
    with pytest.raises(ValueError, match=rf"config\.json cannot be read: {name}="):
        run.read_config()


def test_a_large_file_that_is_no_checkpoint_is_refused_unread(run):
    os.truncate(run.checkpoint_of(1), 1 << 40)
    with pytest.raises(ValueError, match="damaged or not a checkpoint"):
        read_checkpoint(run.checkpoint_of(1))


def test_no_memory_is_one_line(refused, tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 EB")

    monkeypatch.setattr("cs_basics.run.folder.RunFolder.read_config", refuse)
    assert "not enough memory" in refused("generate", tmp_path)
