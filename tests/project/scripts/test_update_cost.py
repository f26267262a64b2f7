"""scripts/maintain/update_cost.py: what an update costs, in updates of another run."""

import json

import pytest
from cs_basics.run.averaging import WeightAverage

from cs_basics.run.folder import RunFolder


@pytest.fixture
def costs(script, make_tiny_config, tmp_path):
    """Measure a run with these settings against the tiny one; answer and both folders."""

    def call(**settings):
        folders = [RunFolder(tmp_path / name) for name in ("base", "other")]
        for folder, changes in zip(folders, ({}, settings), strict=True):
            folder.path.mkdir(exist_ok=True)
            config = make_tiny_config(folder.path).replace(batch_size=2, fast="off", **changes)
            folder.write_config(config)
        return script("maintain/update_cost", *(folder.path for folder in folders)), folders

    return call


def test_eight_times_the_blocks_cost_several_times_the_time(costs):
    result, folders = costs(num_layers=16)
    assert result.code == 0, result.err
    cost = json.loads(result.out.splitlines()[-1])["cost"]
    assert 3 < cost < 12
    # No update reached the runs: what there is was made of the texts.
    assert not any(folder.all_checkpoints() or folder.metrics.exists() for folder in folders)


def test_equal_runs_cost_the_same_and_what_begins_late_is_met(costs, monkeypatch):
    seen = []
    add = WeightAverage.add
    monkeypatch.setattr(WeightAverage, "add", lambda s, p: (seen.append((s.start, p)), add(s, p)))
    result, _ = costs(average_from=0.8)
    assert 0.5 < json.loads(result.out.splitlines()[-1])["cost"] < 2
    late = [progress for start, progress in seen if start == 0.8]
    assert len(late) == 248
    assert max(late) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [((), "holds no run: there is no config.json in it"), (("--turns", 0), "turns=0 must be at")],
)
def test_bad_input_is_one_line(script, tmp_path, more, message):
    result = script("maintain/update_cost", tmp_path, tmp_path, *more)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err
