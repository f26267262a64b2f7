"""kill -9 changes nothing: the short form of `make chaos`, and what chaos would notice."""

import json
from types import SimpleNamespace

import pytest
import torch

from cs_basics.run.checkpoint_file import write_checkpoint


@pytest.mark.slow
def test_a_run_killed_in_a_checkpoint_and_in_an_evaluation_ends_like_one_left_alone(script):
    result = script("maintain/chaos", "--kills", "2")
    assert result.code == 0, result.err
    assert "killed at checkpoint" in result.out
    assert "killed at evaluation" in result.out
    assert "2 kills of 1 run(s)" in result.out
    assert "bit for bit" in result.out


@pytest.fixture
def chaos(monkeypatch):
    from conftest import ROOT

    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "maintain"))
    import chaos

    return chaos


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [([1, 4, 8], None), ([1, 4, 4, 8], "row 3"), ([1, 8], "row 2"), ([1, 4, 8, 12], "row 4")],
)
def test_doubled_missing_and_surplus_rows_are_noticed(chaos, tmp_path, steps, complaint):
    folders = [chaos.RunFolder(tmp_path / name) for name in ("killed", "whole")]
    for folder, numbers in zip(folders, (steps, [1, 4, 8]), strict=True):
        folder.path.mkdir()
        rows = [json.dumps({"step": n, "elapsed_s": 0.1 * n + len(steps)}) for n in numbers]
        folder.metrics.write_text("\n".join(rows) + "\n")
    if complaint is None:
        chaos.check_prefix(*folders)
    else:
        with pytest.raises(ValueError, match=complaint):
            chaos.check_prefix(*folders)


@pytest.fixture
def finished(chaos, tiny_config, tmp_path):
    """Return a function that writes a run of one update and lets a change happen before saving."""

    def make(name, change=None):
        config = tiny_config.replace(run_dir=tmp_path / name)
        folder = chaos.RunFolder(config.run.run_dir)
        folder.write_config(config)
        folder.checkpoints.mkdir()
        torch.manual_seed(0)
        model = chaos.build_model(config.model)
        optimizer = chaos.make_optimizer(model, config)
        model(torch.arange(8)).square().mean().backward()
        optimizer.step()
        progress = {"elapsed_s": float(len(name)), "random": {"torch": torch.get_rng_state()}}
        if change is not None:
            change(SimpleNamespace(model=model, optimizer=optimizer, progress=progress))
        write_checkpoint(folder.checkpoint_of(1), model, optimizer, 1, progress)
        return folder

    return make


def one_bit_up(tensor):
    tensor.view(-1)[0] = torch.nextafter(tensor.view(-1)[0], torch.tensor(torch.inf))


CHANGES = {
    "model.ln_final.weight": lambda run: one_bit_up(run.model.ln_final.weight.data),
    "optimizer.state.0.v": lambda run: one_bit_up(run.optimizer.state_dict()["state"][0]["v"]),
    "optimizer.state.0.step": lambda run: run.optimizer.state_dict()["state"][0].update(step=2),
    "optimizer.param_groups.0.lr": lambda run: run.optimizer.param_groups[0].update(lr=0.5),
    "progress.random.torch": lambda run: run.progress["random"]["torch"].view(-1)[9].add_(1),
}


@pytest.mark.parametrize("part", CHANGES)
def test_one_bit_of_a_checkpoint_is_noticed(chaos, finished, part):
    whole, killed = chaos.state_of(finished("whole"), 1), chaos.state_of(finished("killed"), 1)
    assert whole["progress"]["elapsed_s"] != killed["progress"]["elapsed_s"]
    assert chaos.first_difference(killed, whole) is None
    changed = chaos.state_of(finished("changed", CHANGES[part]), 1)
    assert chaos.first_difference(changed, whole) == f"checkpoint.{part}"
