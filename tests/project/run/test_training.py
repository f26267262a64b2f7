"""The loop: what it computes, what it leaves behind, and that stopping changes nothing."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from cs_basics.checkpoint import read_checkpoint
from cs_basics.functional import cross_entropy
from cs_basics.run.clock import Clock
from cs_basics.run.evaluation import evaluate, make_loss_function
from cs_basics.run.folder import RunFolder, build_model
from cs_basics.run.metrics import read_metrics
from cs_basics.run.token_file import open_token_file, write_token_file
from cs_basics.run.trainer import Trainer, TrainingDivergedError, train


class KilledError(Exception):
    """Stands for kill -9."""


def train_until_killed(config, at_step, monkeypatch):
    """Train, and stop without any clean-up when the update of `at_step` is due."""
    update = Trainer.update

    def update_or_die(self):
        if self.step + 1 == at_step:
            raise KilledError
        return update(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", update_or_die)
        with pytest.raises(KilledError):
            train(config)


def timeless_rows(config):
    """Return the metrics without what depends on the clock."""
    return [
        {k: v for k, v in row.items() if not k.startswith(("perf/", "elapsed"))}
        for row in read_metrics(RunFolder(config.run_dir).metrics)
    ]


def final_state(config):
    return read_checkpoint(RunFolder(config.run_dir).latest_checkpoint())


def assert_same_bits(left, right):
    """Compare nested states; tensors must agree in every bit."""
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            if key not in {"elapsed_s", "num_metrics_bytes"}:
                assert_same_bits(left[key], right[key])
    elif isinstance(left, list | tuple):
        for a, b in zip(left, right, strict=True):
            assert_same_bits(a, b)
    else:
        assert left == right


def test_a_run_leaves_everything_in_its_folder(tiny_config):
    result = train(tiny_config)
    folder = RunFolder(tiny_config.run_dir)
    for path in (folder.config, folder.tokenizer, folder.metrics, folder.plot, folder.samples):
        assert path.exists(), path
    assert folder.plot.read_bytes().startswith(b"\x89PNG")
    rows = read_metrics(folder.metrics)
    assert [row["step"] for row in rows if "train/loss" in row] == [1, 5, 10, 15, 20]
    assert rows[-1]["val/loss"] == result.loss
    assert final_state(tiny_config)["iteration"] == 20
    assert [path.name for path in folder.all_checkpoints()] == [
        "step-00000015.pt",
        "step-00000020.pt",
    ]


def test_training_learns(tiny_config):
    config = dataclasses.replace(tiny_config, max_steps=150, lr=1e-2)
    result = train(config)
    assert result.loss < 0.75 * math.log(config.vocab_size)


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(tiny_config, tmp_path):
    configs = [
        dataclasses.replace(tiny_config, run_dir=tmp_path / name, seed=seed)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    for config in configs:
        train(config)
    first, second, other = (final_state(config) for config in configs)
    assert_same_bits(first, second)
    name = "lm_head.weight"
    assert not torch.equal(first["model"][name], other["model"][name])


@pytest.mark.parametrize("at_step", [8, 11, 20])
def test_resuming_equals_not_stopping(tiny_config, tmp_path, monkeypatch, at_step):
    # Checkpoints fall between two lines of the log, whose losses are means.
    config = dataclasses.replace(tiny_config, checkpoint_every=7)
    whole = dataclasses.replace(config, run_dir=tmp_path / "whole")
    train(whole)
    train_until_killed(config, at_step, monkeypatch)
    train(config, resume=True)
    assert_same_bits(final_state(whole), final_state(config))
    assert timeless_rows(whole) == timeless_rows(config)


def test_a_finished_run_can_be_resumed_with_more_steps(tiny_config):
    train(tiny_config)
    train(dataclasses.replace(tiny_config, max_steps=30), resume=True)
    assert final_state(tiny_config)["iteration"] == 30


def test_a_loss_that_is_not_finite_stops_before_the_update(tiny_config):
    config = dataclasses.replace(tiny_config, lr=1e30, warmup_steps=0, checkpoint_every=1)
    with pytest.raises(TrainingDivergedError, match=r"step \d+: loss .*lower lr"):
        train(config)
    weights = final_state(config)["model"].values()
    assert all(weight.isfinite().all() for weight in weights)


def test_the_clock_ends_a_run_at_the_lowest_rate(tiny_config):
    config = dataclasses.replace(tiny_config, max_steps=None, max_minutes=5 / 60, log_every=1)
    train(config)
    rows = [r for r in read_metrics(RunFolder(config.run_dir).metrics) if "optim/lr" in r]
    rates = [row["optim/lr"] for row in rows]
    assert max(rates) > 0.5 * config.lr
    assert rates[-1] < 0.05 * config.lr
    assert 4.5 < rows[-1]["elapsed_s"] < 6.5


def test_steps_give_the_schedule_of_the_steps():
    clock = Clock(max_steps=100, max_seconds=None)
    assert clock.expected_steps(7) == 100
    assert clock.progress(50) == 0.5
    assert clock.seconds_left(50, 2.0) == 100


def test_a_run_folder_is_not_overwritten(tiny_config):
    train(tiny_config)
    before = RunFolder(tiny_config.run_dir).metrics.read_bytes()
    with pytest.raises(ValueError, match="already holds a run"):
        train(tiny_config)
    assert RunFolder(tiny_config.run_dir).metrics.read_bytes() == before


@pytest.mark.parametrize("num_tokens", [2, 33, 64, 65, 200, 32 * 4 + 1, 32 * 9 + 5])
def test_evaluation_predicts_every_token_but_the_first_once(tmp_path, tiny_config, num_tokens):
    torch.manual_seed(0)
    model = build_model(tiny_config)
    ids = np.random.default_rng(0).integers(0, 300, num_tokens)
    path = tmp_path / "tokens.bin"
    write_token_file(path, [(num_tokens * 3, ids)], vocab_size=300, tokenizer_checksum="none")
    text = open_token_file(path)
    loss_of = make_loss_function(model, torch.float32)
    result = evaluate(loss_of, text, 32, 4, torch.device("cpu"))
    total = 0.0
    for begin in range(0, num_tokens - 1, 32):
        window = torch.from_numpy(ids[begin : begin + 33]).long()
        total += cross_entropy(model(window[:-1]), window[1:]).item() * (len(window) - 1)
    assert result.num_tokens == num_tokens - 1
    assert result.loss == pytest.approx(total / (num_tokens - 1), rel=1e-5)
    assert result.bits_per_byte == pytest.approx(result.loss / math.log(2) / 3, rel=1e-6)


def test_evaluation_asks_for_no_gradient_that_nobody_wants(tmp_path, tiny_config):
    path = tmp_path / "tokens.bin"
    ids = np.arange(200) % 300
    write_token_file(path, [(600, ids)], vocab_size=300, tokenizer_checksum="none")
    text = open_token_file(path)
    chunked = make_loss_function(build_model(tiny_config), torch.float32, in_chunks=True)
    losses = []

    def loss_of(inputs, targets):
        losses.append(chunked(inputs, targets))
        return losses[-1]

    results = [
        evaluate(loss_of, text, 32, 4, torch.device("cpu"), as_in_training=as_in_training).loss
        for as_in_training in (False, True)
    ]
    assert results[0] == results[1]
    assert [loss.requires_grad for loss in losses] == [False] * 3 + [True] * 3


def test_the_log_holds_speed_memory_and_the_share_of_the_peak(tiny_config):
    train(dataclasses.replace(tiny_config, max_steps=5))
    rows = [r for r in read_metrics(RunFolder(tiny_config.run_dir).metrics) if "train/loss" in r]
    assert all(0 < row["perf/mfu"] < 1 for row in rows)
    assert all(50 < row["perf/peak_memory_mb"] < 50_000 for row in rows)


def test_bfloat16_products_give_nearly_the_same_loss_and_float32_weights(tiny_config):
    torch.manual_seed(0)
    model = build_model(tiny_config)
    ids = torch.randint(0, 300, (4, 33))
    plain = make_loss_function(model, torch.float32)(ids[:, :-1], ids[:, 1:])
    mixed = make_loss_function(model, torch.bfloat16)(ids[:, :-1], ids[:, 1:])
    assert mixed.dtype == torch.float32
    assert mixed.item() == pytest.approx(plain.item(), abs=0.03)
    assert mixed.item() != plain.item()


@pytest.mark.parametrize("tie_embeddings", [False, True])
def test_loss_in_chunks_and_attention_in_tiles_leave_loss_and_gradients(
    tiny_config, tie_embeddings
):
    config = dataclasses.replace(tiny_config, context_length=150, tie_embeddings=tie_embeddings)
    fast_config = dataclasses.replace(config, tile_attention=True, chunk_loss=True)
    torch.manual_seed(0)
    clear, fast = build_model(config), build_model(fast_config)
    fast.load_state_dict(clear.state_dict())
    ids = torch.randint(0, 300, (5, 151))
    losses = [
        make_loss_function(model, torch.float32, in_chunks)(ids[:, :-1], ids[:, 1:])
        for model, in_chunks in ((clear, False), (fast, True))
    ]
    torch.testing.assert_close(*losses, rtol=1e-6, atol=0)
    for loss in losses:
        loss.backward()
    for (name, one), other in zip(clear.named_parameters(), fast.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("fuse_add_norm", [False, True])
def test_recomputed_blocks_keep_less_and_give_the_same_loss_and_gradients(
    tiny_config, fuse_add_norm
):
    config = dataclasses.replace(tiny_config, fuse_add_norm=fuse_add_norm, tile_attention=True)
    torch.manual_seed(0)
    model = build_model(config)
    ids = torch.randint(0, 300, (5, 33))
    loss_of = make_loss_function(model, torch.bfloat16)
    results, kept = [], []
    for recomputes in (False, True):
        model.recomputes_blocks = recomputes
        model.zero_grad()
        numbers = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, numbers=numbers: numbers.update({x.data_ptr(): x.numel()}) or x, lambda x: x
        ):
            loss = loss_of(ids[:, :-1], ids[:, 1:])
        loss.backward()
        results.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
        kept.append(sum(numbers.values()))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
    assert kept[1] < 0.6 * kept[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{}, pytest.param({"compile": True}, marks=pytest.mark.compile, id="compiled")]
)
def test_two_equal_runs_of_several_threads_give_the_same_bits(tiny_config, tmp_path, change):
    # Large enough for the gradient of the embedding to be shared out among threads.
    config = dataclasses.replace(
        tiny_config, **change, d_model=64, num_heads=2, batch_size=16, context_length=64,
        max_steps=40, merge_projections=True, tile_attention=True, chunk_loss=True,
    )  # fmt: skip
    num_threads, found = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        for name in ("one", "other"):
            train(dataclasses.replace(config, run_dir=tmp_path / name))
            found.append(RunFolder(tmp_path / name).load_model(torch.device("cpu")).state_dict())
    finally:
        torch.set_num_threads(num_threads)
    for name, weight in found[0].items():
        assert torch.equal(weight, found[1][name]), name


def test_the_switches_reach_the_run(tiny_config):
    config = dataclasses.replace(
        tiny_config, tile_attention=True, chunk_loss=True, recompute_blocks=True, max_steps=5
    )
    assert build_model(config).layers[0].attn.is_tiled
    plain = dataclasses.replace(tiny_config, max_steps=5, run_dir=config.run_dir.parent / "plain")
    assert train(config).loss == pytest.approx(train(plain).loss, rel=1e-5)


@pytest.mark.compile
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_compiled_fast_forms_give_the_loss_and_gradients_of_the_plain_ones(tiny_config):
    from cs_basics.run.hardware import reason_not_to_compile

    if reason := reason_not_to_compile(torch.device("cpu")):
        pytest.skip(f"torch.compile does not work here: {reason}")
    # One layer: compiling takes as long as the model is deep.
    config = dataclasses.replace(tiny_config, num_layers=1)
    fast_config = dataclasses.replace(config, merge_projections=True, tile_attention=True)
    torch.manual_seed(0)
    plain, fast = build_model(config), build_model(fast_config)
    fast.load_state_dict(plain.state_dict())
    ids = torch.randint(0, 300, (4, 33))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    loss = make_loss_function(plain, torch.float32)(inputs, targets)
    fast_loss_of = make_loss_function(fast, torch.float32, in_chunks=True)
    compiled_loss = torch.compile(fast_loss_of, fullgraph=True, dynamic=False)(inputs, targets)
    torch.testing.assert_close(compiled_loss, loss, rtol=1e-5, atol=0)
    for model, its_loss in ((plain, loss), (fast, compiled_loss)):
        its_loss.backward()
        for parameter in model.parameters():
            parameter.data = parameter.grad
    # Read as state dicts, the merged gradients come back under the separate names.
    gradients, fast_gradients = plain.state_dict(), fast.state_dict()
    for name, gradient in gradients.items():
        torch.testing.assert_close(fast_gradients[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
