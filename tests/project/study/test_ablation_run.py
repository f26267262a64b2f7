"""One run: its budget is updates alone, and every number of its result is what it says."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics
from cs_basics.run.trainer import Trainer
from cs_basics.study import ablation_run
from cs_basics.study.ablation_run import (
    DIVERGED_BY_NATS,
    first_diverged_step,
    loss_windows,
    read_result,
    run_variant,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Tokenizer and token files of the module's runs: made by the first, used by all."""
    return RunFolder(tmp_path_factory.mktemp("shared"))


def test_the_result_is_what_the_metrics_and_the_model_say(tiny_config, shared):
    result = run_variant(tiny_config, shared)
    folder = RunFolder(tiny_config.run.run_dir)
    assert read_result(folder) == result
    assert {path.name for path in folder.path.iterdir()} == {"metrics.jsonl", "result.json"}
    assert {"tokenizer", "tokens"} <= {path.name for path in shared.path.iterdir()}
    rows = [row for row in read_metrics(folder.metrics) if "train/loss" in row]
    assert [row["step"] for row in rows] == list(range(1, 21))
    assert result.steps == 20
    assert result.largest_grad_norm == max(row["optim/grad_norm"] for row in rows)
    last = read_metrics(folder.metrics)[-1]
    assert (last["val/loss"], last["val/bits_per_byte"]) == (result.loss, result.bits_per_byte)
    times = np.diff([0.0, *(row["elapsed_s"] for row in rows)])
    assert result.tokens_per_s == pytest.approx(4 * 32 / np.median(times))
    assert result.minutes == pytest.approx(rows[-1]["elapsed_s"] / 60, rel=0.2)
    assert result.diverged_at is None
    # More than an interpreter with torch, less than the machine.
    assert 50 < result.peak_memory_mb < 4_000


def test_all_variants_of_a_seed_draw_the_same_batches(tiny_config, shared, tmp_path, monkeypatch):
    drawn = []
    next_batch = Trainer.next_batch

    def record(trainer):
        drawn.append(next_batch(trainer))
        return drawn[-1]

    monkeypatch.setattr(Trainer, "next_batch", record)
    seen = {}
    # The second model draws other numbers of random weights.
    for name, changed in {"base": {}, "silu": {"ffn": "silu"}, "other": {"seed": 1}}.items():
        drawn.clear()
        config = tiny_config.replace(run_dir=tmp_path / name, max_steps=2, **changed)
        run_variant(config, shared)
        seen[name] = torch.stack([torch.stack(batch) for batch in drawn[-2:]])
    assert torch.equal(seen["base"], seen["silu"])
    assert not torch.equal(seen["base"], seen["other"])


def test_only_updates_count_against_the_budget(tiny_config, shared, slow_down):
    slow_down(ablation_run, "_warm_up", 100.0)
    slow_down(Trainer, "validate", 100.0)
    slow_down(Trainer, "next_batch", 0.25)
    result = run_variant(tiny_config.replace(max_steps=None, max_minutes=2 / 60), shared)
    assert (result.steps, result.minutes) == (8, pytest.approx(2 / 60))


def test_a_run_that_leaves_the_numbers_diverged_at_its_step(tiny_config, shared):
    config = tiny_config.replace(lr=1e30, warmup_steps=0)
    result = run_variant(config, shared)
    assert result.diverged_at == result.steps + 1
    assert 1 < result.diverged_at < 20
    text = (tiny_config.run.run_dir / "result.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == dataclasses.asdict(result)


@pytest.mark.parametrize("value_residual", [False, True])
def test_the_largest_activation_is_that_of_the_residual_stream(
    tiny_config, shared, monkeypatch, value_residual
):
    trainers = []
    measure = ablation_run._largest_activation

    def keep_trainer(trainer):
        trainers.append(trainer)
        return measure(trainer)

    monkeypatch.setattr(ablation_run, "_largest_activation", keep_trainer)
    result = run_variant(tiny_config.replace(value_residual=value_residual), shared)
    model = trainers[0].model
    ids = torch.from_numpy(trainers[0].corpus.valid.tokens[: 8 * 32].astype(np.int64))
    x, largest = model.token_embeddings(ids.view(8, 32)), 0.0
    for block in model.layers:
        x = block(x)
        stream = x[0] if isinstance(x, tuple) else x
        largest = max(largest, stream.abs().max().item())
    assert result.largest_activation == pytest.approx(largest, rel=1e-5)
    assert all(block.forward.__name__ == "forward" for block in model.layers)


def test_windows_cover_every_update_once():
    for num in (1, 40, 41, 1_000):
        windows = loss_windows([float(i) for i in range(num)])
        ends = [end for end, _ in windows]
        assert len(windows) == min(num, 40)
        assert ends[-1] == num
        sizes = np.diff([0, *ends])
        means = [mean for _, mean in windows]
        assert float(np.dot(sizes, means)) == pytest.approx(num * (num - 1) / 2)


@pytest.mark.parametrize(
    ("end", "lost"),
    [(2.0 + 0.9 * DIVERGED_BY_NATS, False), (2.0 + 1.1 * DIVERGED_BY_NATS, True)],
)
def test_a_run_is_lost_if_it_ends_far_above_its_best(end, lost):
    losses = [*np.linspace(8, 2, 200), *[2.0] * 100, *[end] * 100]
    step = first_diverged_step(losses)
    assert (step is not None) == lost
    if lost:
        assert 200 <= step <= 301


def test_a_damaged_result_is_named(tmp_path):
    (tmp_path / "result.json").write_text('{"steps": 3}')
    with pytest.raises(ValueError, match=r"result\.json cannot be read .*delete it"):
        read_result(RunFolder(tmp_path))
    assert read_result(RunFolder(tmp_path / "none")) is None
