"""Single guards against damaged files; `make fuzz` found the need of each."""

import dataclasses
import io
import json
import os
import time

import pytest
import torch

from cs_basics.checkpoint import check_optimizer_state, load_weights, save_checkpoint
from cs_basics.optim import AdamW
from cs_basics.run.checksum import is_intact
from cs_basics.run.config import PRESETS
from cs_basics.run.folder import RunFolder, build_model
from cs_basics.run.json_file import MAX_DESCRIPTION_BYTES, read_json


def test_json_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(ValueError, match=r"deep\.json is nested too deeply"):
        read_json(path)


def test_a_description_of_gigabytes_is_refused_unread(tmp_path):
    path = tmp_path / "huge.json"
    path.touch()
    os.truncate(path, MAX_DESCRIPTION_BYTES + 1)
    with pytest.raises(ValueError, match=r"huge\.json has 100,000,001 bytes"):
        read_json(path)


def test_a_file_without_a_seal_is_not_read_to_its_end():
    class Counting(io.BytesIO):
        read_bytes = 0

        def read(self, size=-1):
            data = super().read(size)
            self.read_bytes += len(data)
            return data

    file = Counting(bytes(10_000_000))
    assert not is_intact(file)
    assert file.read_bytes < 1_000
    assert file.tell() == 0


@pytest.fixture
def run(tmp_path):
    """The folder of a small run."""
    config = dataclasses.replace(PRESETS["debug"][1], vocab_size=300, d_model=32, d_ff=64)
    folder = RunFolder(tmp_path / "run")
    folder.write_config(config)
    model = build_model(config)
    folder.checkpoints.mkdir()
    save_checkpoint(model, AdamW(model.parameters()), 1, folder.checkpoint_of(1))
    return folder


@pytest.mark.parametrize("name", ["d_model", "d_ff", "num_layers", "vocab_size"])
def test_sizes_that_no_checkpoint_holds_are_refused_before_memory_is_taken(run, name):
    content = json.loads(run.config.read_text())
    content["settings"][name] = 10**9
    run.config.write_text(json.dumps(content))
    started = time.process_time()
    with pytest.raises(ValueError, match=r"config\.json describes a model of .* bytes, but"):
        run.load_model()
    assert time.process_time() - started < 2


def test_a_context_beyond_all_bounds_is_refused(run):
    content = json.loads(run.config.read_text())
    content["settings"]["context_length"] = 10**9
    run.config.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="context_length=1000000000 must be at most 1048576"):
        run.read_config()


def test_a_weight_that_is_no_tensor_is_refused_by_name(run):
    model = run.load_model()
    state = model.state_dict() | {"ln_final.weight": 3}
    with pytest.raises(ValueError, match=r"here has no tensor under the name ln_final\.weight"):
        load_weights(model, state, "here")


def optimizer_after_a_step():
    weights = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(4))]
    optimizer = AdamW([{"params": weights, "lr_ratio": 1.0}], lr=1e-3)
    sum(weight.sum() for weight in weights).backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_healthy_state_of_the_optimizer_passes(is_fresh):
    optimizer = optimizer_after_a_step()
    state = AdamW(optimizer.param_groups).state_dict() if is_fresh else optimizer.state_dict()
    check_optimizer_state(optimizer, state, "here")


HARM = {
    "nothing": lambda _: None,
    "a list": lambda _: [],
    "no state": lambda s: s.pop("state") and s,
    "a number for the state": lambda s: s | {"state": 3},
    "no groups": lambda s: s | {"param_groups": []},
    "text for a rate": lambda s: s["param_groups"][0].update(lr="x") or s,
    "one beta": lambda s: s["param_groups"][0].update(betas=(0.9,)) or s,
    "no rate": lambda s: s["param_groups"][0].pop("lr") and s,
    "another weight": lambda s: s["state"].update({7: s["state"].pop(0)}) or s,
    "no moment": lambda s: s["state"][0].pop("m") is not None and s,
    "text for a moment": lambda s: s["state"][0].update(m="x") or s,
    "another shape": lambda s: s["state"][0].update(m=torch.ones(3, 2)) or s,
    "integers": lambda s: s["state"][0].update(m=torch.ones(2, 3, dtype=torch.int8)) or s,
}


@pytest.mark.parametrize("name", HARM)
def test_a_damaged_state_of_the_optimizer_is_refused(name):
    optimizer = optimizer_after_a_step()
    damaged = HARM[name](optimizer.state_dict())
    with pytest.raises(ValueError, match="here has a damaged state of the optimizer"):
        check_optimizer_state(optimizer, damaged, "here")


def test_no_memory_is_one_line(script, tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 EB")

    monkeypatch.setattr("cs_basics.run.folder.RunFolder.read_config", refuse)
    result = script("export", tmp_path, "--out", tmp_path / "out")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert "not enough memory" in result.err
