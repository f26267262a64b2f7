"""One run: its budget is updates alone, and every number of its result is what it says."""

import dataclasses
import json
import math
import time

import numpy as np
import pytest
import torch

from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics
from cs_basics.run.token_file import open_token_file
from cs_basics.run.trainer import Trainer
from cs_basics.study import ablation_run
from cs_basics.study.ablation_run import (
    DIVERGED_BY_NATS,
    first_diverged_step,
    loss_windows,
    read_result,
    run_variant,
    unigram_loss,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Tokenizer and token files of the module's runs: made by the first, used by all."""
    return RunFolder(tmp_path_factory.mktemp("shared"))


def test_the_result_is_what_the_metrics_and_the_model_say(tiny_config, shared):
    result = run_variant(tiny_config, shared)
    folder = RunFolder(tiny_config.run.run_dir)
    assert read_result(folder) == result
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


def test_the_shared_folder_serves_runs_that_hold_no_text(tiny_config, shared):
    run_variant(tiny_config, shared)
    run = {path.name for path in tiny_config.run.run_dir.iterdir()}
    assert run == {"metrics.jsonl", "result.json"}
    assert {"tokenizer", "tokens"} <= {path.name for path in shared.path.iterdir()}


def test_seeds_decide_batches_and_weights_and_variants_share_them(tiny_config, shared, tmp_path):
    first_losses = {}
    for name, changed in {
        "base": {},
        "again": {},
        # Same weights and batch: before the first update both predict the same.
        "faster": {"lr": 1e-2},
        "other": {"seed": 1},
    }.items():
        config = tiny_config.replace(run_dir=tmp_path / name, max_steps=1, **changed)
        run_variant(config, shared)
        first_losses[name] = read_metrics(config.run.run_dir / "metrics.jsonl")[0]["train/loss"]
    assert first_losses["base"] == first_losses["again"] == first_losses["faster"]
    assert first_losses["base"] != first_losses["other"]


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


def test_a_budget_without_an_update_is_named(tiny_config, shared):
    config = tiny_config.replace(max_steps=None, max_minutes=1e-7)
    with pytest.raises(ValueError, match=r"max_minutes=1e-07 was over before the first update"):
        run_variant(config, shared)


def test_only_updates_count_against_the_budget(tiny_config, shared, monkeypatch):
    def slow_preparation(_trainer):
        time.sleep(0.7)

    validate = Trainer.validate

    def slow_validation(self, *arguments):
        time.sleep(0.7)
        return validate(self, *arguments)

    monkeypatch.setattr(ablation_run, "_warm_up", slow_preparation)
    monkeypatch.setattr(Trainer, "validate", slow_validation)
    config = tiny_config.replace(max_steps=None, max_minutes=1 / 60)
    start = time.monotonic()
    result = run_variant(config, shared)
    # A second of updates, and twice 0.7 that were not taken from it.
    assert time.monotonic() - start > 2.3
    assert 1.0 <= 60 * result.minutes < 1.6


def test_warming_up_the_kernels_changes_nothing(tiny_config, shared, monkeypatch, tmp_path):
    losses = []
    for name in ("with", "without"):
        config = tiny_config.replace(run_dir=tmp_path / name, max_steps=5)
        losses.append(run_variant(config, shared).loss)
        monkeypatch.setattr(ablation_run, "_warm_up", lambda _trainer: None)
    assert losses[0] == losses[1]


def test_a_run_that_leaves_the_numbers_diverged_at_its_step(tiny_config, shared):
    config = tiny_config.replace(lr=1e30, warmup_steps=0)
    result = run_variant(config, shared)
    assert result.diverged_at == result.steps + 1
    assert 1 < result.diverged_at < 20
    text = (tiny_config.run.run_dir / "result.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == dataclasses.asdict(result)


def test_a_rate_of_a_million_diverges_even_where_it_stays_finite(tiny_config, shared):
    result = run_variant(tiny_config.replace(lr=1e6, weight_decay=0.0), shared)
    assert result.diverged_at is not None


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


def test_a_model_that_goes_past_call_is_measured_too(tiny_config, shared, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "__call__", lambda self, *inputs: self.forward(*inputs))
    assert run_variant(tiny_config, shared).largest_activation > 0


def test_unigram_loss_is_the_entropy_of_the_frequencies(tiny_config, shared):
    run_variant(tiny_config, shared)
    text = open_token_file(shared.tokens / "valid.bin")
    ids = text.tokens[1:500].tolist()
    expected = -sum(math.log(ids.count(i) / len(ids)) for i in ids) / len(ids)
    assert unigram_loss(text, 500) == pytest.approx(expected)


def test_windows_cover_every_update_once():
    for num in (1, 3, 39, 40, 41, 1_000):
        windows = loss_windows([float(i) for i in range(num)])
        ends = [end for end, _ in windows]
        assert len(windows) == min(num, 40)
        assert ends[-1] == num
        sizes = np.diff([0, *ends])
        means = [mean for _, mean in windows]
        assert float(np.dot(sizes, means)) == pytest.approx(num * (num - 1) / 2)


@pytest.mark.parametrize(
    ("end", "lost"),
    [(2.0, False), (2.0 + 0.9 * DIVERGED_BY_NATS, False), (2.0 + 1.1 * DIVERGED_BY_NATS, True)],
)
def test_a_run_is_lost_if_it_ends_far_above_its_best(end, lost):
    losses = [*np.linspace(8, 2, 200), *[2.0] * 100, *[end] * 100]
    step = first_diverged_step(losses)
    assert (step is not None) == lost
    if lost:
        assert 200 <= step <= 301


def test_a_spike_that_heals_is_no_divergence():
    assert first_diverged_step([*[2.0] * 100, *[9.0] * 50, *[2.1] * 100]) is None


def test_a_damaged_result_is_named(tmp_path):
    (tmp_path / "result.json").write_text('{"steps": 3}')
    with pytest.raises(ValueError, match=r"result\.json cannot be read .*delete it"):
        read_result(RunFolder(tmp_path))
    assert read_result(RunFolder(tmp_path / "none")) is None


def test_a_run_without_a_folder_is_refused(tiny_config, shared):
    with pytest.raises(ValueError, match="run_dir is not set"):
        run_variant(tiny_config.replace(run_dir=None), shared)
