"""kill -9 changes nothing: the short form of `make chaos`, and what chaos would notice."""

import json

import pytest


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


def test_one_bit_of_a_weight_is_noticed(chaos):
    import torch

    left = {"model": {"w": torch.ones(3)}, "optimizer": [{"step": 1}], "progress": {"elapsed_s": 1}}
    right = {
        "model": {"w": torch.ones(3)},
        "optimizer": [{"step": 1}],
        "progress": {"elapsed_s": 2},
    }
    assert chaos.first_difference(left, right) is None
    right["model"]["w"][1] = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    assert chaos.first_difference(left, right) == "checkpoint.model.w"
    right["model"]["w"][1] = 1
    right["optimizer"][0]["step"] = 2
    assert chaos.first_difference(left, right) == "checkpoint.optimizer.0.step"
