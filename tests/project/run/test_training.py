"""The loop: what it computes, what it leaves behind, and that stopping changes nothing."""

import io
import itertools
import logging
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from run_files import folder_of, rows_of, values_of, write_token_file

from cs_basics.data import get_batch
from cs_basics.functional import cross_entropy
from cs_basics.optim import cosine_schedule
from cs_basics.run import saving
from cs_basics.run.checkpoint_file import read_checkpoint
from cs_basics.run.evaluation import evaluate, make_loss_function
from cs_basics.run.metrics import read_metrics
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.random_state import seed_all
from cs_basics.run.run import train_run
from cs_basics.run.schedules import linear_schedule
from cs_basics.run.token_file import open_token_file
from cs_basics.run.trainer import Trainer
from cs_basics.training import TrainingDivergedError, train
from cs_basics.variants.model import Transformer


class KilledError(Exception):
    """Stands for kill -9."""


def die(*_):
    raise KilledError


def train_until_killed(config, at_step, before_update):
    """Train, and stop without any clean-up when the update of `at_step` is due."""
    before_update(at_step, die)
    with pytest.raises(KilledError):
        train_run(config)


def timeless_rows(config):
    """Return the metrics without what depends on the clock."""
    return [
        {k: v for k, v in row.items() if not k.startswith(("perf/", "elapsed"))}
        for row in rows_of(config)
    ]


def final_state(config):
    """Return everything that the latest checkpoint of a run holds."""
    checkpoint = read_checkpoint(folder_of(config).all_checkpoints()[-1])
    state = torch.load(io.BytesIO(checkpoint.state), weights_only=True)
    return {**state, "progress": checkpoint.progress}


def assert_same_bits(left, right):
    """Compare nested states; tensors must agree in every bit."""
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            if key not in {"elapsed_s", "waited_s", "stages", "num_metrics_bytes"}:
                assert_same_bits(left[key], right[key])
    elif isinstance(left, list | tuple):
        for a, b in zip(left, right, strict=True):
            assert_same_bits(a, b)
    else:
        assert left == right


def assert_same_run(one, other):
    assert_same_bits(final_state(one), final_state(other))
    assert timeless_rows(one) == timeless_rows(other)


@pytest.mark.usefixtures("uncompiled")
def test_a_run_shorter_than_its_warm_up_warms_up_over_a_tenth_of_it(tiny_config, caplog, slow_down):
    caplog.set_level(logging.INFO)
    slow_down(Trainer, "compile", 60.0)
    slow_down(Trainer, "next_batch", 2.0)
    # Sixty seconds are left for thirty updates, which are known after the fourth.
    config = tiny_config.replace(max_steps=None, max_minutes=2.0, warmup_steps=100, fast="auto")
    train_run(config)
    rates = values_of(config, "optim/lr")
    assert rates[3] == pytest.approx(0.04 * config.optim.lr)
    assert max(rates) > 0.9 * config.optim.lr, "compiling was counted as updates"
    said = "shorter than its warm-up of 100 updates: the learning rate is at its highest after 3"
    assert caplog.text.count(said) == 1
    short = tiny_config.replace(max_steps=16, warmup_steps=17, run_dir=config.run.run_dir / "16")
    train_run(short)
    assert values_of(short, "optim/lr")[:2] == [short.optim.lr / 2, short.optim.lr]


def test_a_run_learns_and_leaves_everything_in_its_folder(finished):
    folder = folder_of(finished)
    for path in (folder.config, folder.tokenizer, folder.metrics, folder.report, folder.samples):
        assert path.exists(), path
    rows = read_metrics(folder.metrics)
    updates = [row for row in rows if "train/loss" in row]
    assert [row["step"] for row in updates] == [*range(1, 21)]
    assert all(0 < row["perf/mfu"] < 1 for row in updates)
    assert all(50 < row["perf/peak_memory_mb"] < 50_000 for row in updates)
    assert [row["step"] for row in rows if "val/loss" in row] == [5, 10, 15, 20]
    assert rows[-1]["final/loss"] < 0.97 * math.log(finished.model.vocab_size)
    assert final_state(finished)["iteration"] == 20
    names = [path.name for path in folder.all_checkpoints()]
    assert names == ["step-00000015.pt", "step-00000020.pt"]


@pytest.fixture
def uncompiled(monkeypatch):
    """Fast twins without a compiler, which takes a minute (see test_fast_training.py)."""
    monkeypatch.setattr(Trainer, "compile", lambda _: None)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("settings", "at_step"),
    [
        ({"fast": "auto", "order": "epochs"}, 20),
        ({"fast": "auto", "optimizer": "muon"}, 15),
        ({"schedule": "linear", "dropout": 0.2}, 15),
    ],
    ids=lambda given: "-".join(map(str, given.values())) if isinstance(given, dict) else None,
)
def test_resuming_equals_not_stopping(tiny_config, tmp_path, before_update, settings, at_step):
    # The checkpoint falls between two lines of the log, whose losses are means of two updates.
    config = tiny_config.replace(eval_every=11, **settings)
    whole = config.replace(run_dir=tmp_path / "whole")
    train_run(whole)
    train_until_killed(config, at_step, before_update)
    train_run(config, resume=True)
    assert_same_run(whole, config)


def test_a_run_makes_the_updates_of_the_loop_in_the_book(tiny_config):
    config = tiny_config
    train_run(config)
    folder = folder_of(config)
    seed_all(config.run.seed)
    model = Transformer(folder.read_config().model)
    optimizer = make_optimizer(model, config)
    tokens = open_token_file(folder.tokens / "train.bin").tokens
    updates = []

    def lr_at(step):
        return cosine_schedule(step, config.optim.lr, 0.0, config.optim.warmup_steps, 21)

    batches = (get_batch(tokens, 4, 32, "cpu") for _ in range(20))
    train(model, optimizer, batches, lr_at, on_update=updates.append)
    assert updates[-1].lr > 0, "the last update is made for nothing"
    assert_same_bits(model.state_dict(), folder.load_model().state_dict())
    assert values_of(config, "train/loss") == [update.loss for update in updates]
    assert values_of(config, "optim/lr") == [update.lr for update in updates]


@pytest.mark.parametrize(("is_tied", "ratio", "decay"), [(False, 10.0, 0.03), (True, 1.0, 0.3)])
def test_each_group_of_weights_has_the_rate_the_betas_and_the_decay_that_are_asked_for(
    tiny_config, is_tied, ratio, decay
):
    config = tiny_config.replace(
        beta2=0.7, weight_decay=0.3, embedding_lr_ratio=10.0, tie_embeddings=is_tied,
        head_bias=True,
    )  # fmt: skip
    model = Transformer(config.model)
    groups = make_optimizer(model, config).param_groups
    assert groups[1]["params"] == [model.token_embeddings.weight]
    assert groups[2]["params"] == [model.lm_head.bias]
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    assert [group["lr_ratio"] for group in groups] == [1.0, ratio, 1.0]
    assert [group["weight_decay"] for group in groups] == pytest.approx([0.3, decay, 0.0])
    assert [group["betas"] for group in groups] == [(0.9, 0.7)] * 3


def test_a_run_follows_a_linear_schedule_which_rises_and_falls_in_straight_lines(tiny_config):
    rates = [linear_schedule(step, 1.0, 0.2, 2, 6) for step in range(8)]
    assert rates == pytest.approx([0, 0.5, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2])
    config = tiny_config.replace(schedule="linear", lr=1.0, warmup_steps=2, max_steps=5)
    train_run(config)
    assert values_of(config, "optim/lr") == pytest.approx([0.5, 1.0, 0.75, 0.5, 0.25])


def test_the_rate_before_and_after_is_said_if_a_resumed_run_has_another_length(tiny_config, caplog):
    caplog.set_level(logging.INFO)
    # Without a warm-up the rate is 1 + cos(pi step / (length + 1)) halves of the highest one.
    config = tiny_config.replace(max_steps=3, lr=1e-3, warmup_steps=0)
    train_run(config)
    train_run(config, resume=True)
    assert "no update is left to make: 3 of --max-steps 3 are used up" in caplog.messages
    assert "stretched" not in caplog.text
    train_run(config.replace(max_steps=7), resume=True)
    assert "was 1.46e-04 at step 3 and is 5.00e-04 at the next" in caplog.text
    assert final_state(config)["iteration"] == 7


def test_a_checkpoint_that_takes_long_does_not_take_most_of_the_run(tiny_config, slow_down):
    slow_down(Trainer, "next_batch", 10.0)
    slow_down(saving, "write_checkpoint", 14.0)
    train_run(tiny_config.replace(eval_every=500))
    names = [path.name for path in folder_of(tiny_config).all_checkpoints()]
    # After a minute, and 140 seconds after the first was written; the last is that of the end.
    assert names == ["step-00000006.pt", "step-00000020.pt"]


def test_preparing_that_takes_half_of_the_time_is_named(tiny_config, monkeypatch, caplog):
    monkeypatch.setattr("cs_basics.run.trainer.MUCH", 0.0)
    train_run(tiny_config.replace(max_minutes=5.0))
    assert "of 300 s: --max-minutes counts them" in caplog.text


def test_a_start_that_fails_leaves_no_folder(tiny_config, before_update):
    train_until_killed(tiny_config, 1, before_update)
    assert not tiny_config.run.run_dir.exists()


def test_what_took_a_minute_to_prepare_is_kept_for_a_resume(
    tiny_config, monkeypatch, before_update
):
    monkeypatch.setattr("cs_basics.run.run.MAX_UNSAVED_S", 0.0)
    train_until_killed(tiny_config, 1, before_update)
    train_run(tiny_config, resume=True)


def test_a_loss_that_is_not_finite_stops_before_the_update(tiny_config):
    config = tiny_config.replace(lr=1e30, warmup_steps=0, eval_every=1)
    with pytest.raises(TrainingDivergedError, match=r"step \d+: loss .*lower lr"):
        train_run(config)
    weights = final_state(config)["model"].values()
    assert all(weight.isfinite().all() for weight in weights)
    report = folder_of(config).report.read_text()
    assert re.search(r"State: step \d+: .*lower lr", report)


def test_weights_that_are_not_finite_are_not_saved_and_the_advice_is_given_once(tiny_config):
    # The decay alone takes embeddings, which are of size 1, beyond the numbers of float32.
    config = tiny_config.replace(lr=6e37, weight_decay=10.0, warmup_steps=0, max_steps=1)
    with pytest.raises(TrainingDivergedError, match="step 1: the update made weights") as caught:
        train_run(config)
    assert str(caught.value).count("lower lr") == 1
    assert not folder_of(config).all_checkpoints()


def test_the_clock_ends_a_run_at_the_lowest_rate(tiny_config, monkeypatch):
    # Each look at the clock takes 10 ms of its time, whatever else the machine does.
    looks = itertools.count()
    ticking = SimpleNamespace(monotonic=lambda: next(looks) / 100)
    monkeypatch.setattr("cs_basics.run.clock.time", ticking)
    config = tiny_config.replace(max_steps=None, max_minutes=2 / 60)
    train_run(config)
    rates = values_of(config, "optim/lr")
    assert max(rates) > 0.5 * config.optim.lr
    assert rates[-1] < 0.05 * config.optim.lr
    (*_, end) = (row for row in rows_of(config) if "optim/lr" in row)
    assert 1.9 < end["elapsed_s"] < 2.2


@pytest.mark.parametrize(
    ("num_tokens", "full", "rest"),
    [(2, [], [(1, 1)]), (65, [], [(2, 32)]), (32 * 9 + 5, [(4, 32)] * 2, [(1, 32), (1, 4)])],
)
def test_evaluation_predicts_every_token_but_the_first_once_and_what_fills_no_batch_by_another_loss(
    tmp_path, tiny_config, num_tokens, full, rest
):
    torch.manual_seed(0)
    model = Transformer(tiny_config.model)
    ids = np.random.default_rng(0).integers(0, 300, num_tokens)
    text = write_token_file(tmp_path / "tokens.bin", [(num_tokens * 3, ids)])
    shapes, told = {"full": [], "rest": []}, []

    def loss_of(kind):
        def call(inputs, targets):
            assert not torch.is_grad_enabled()
            assert inputs.shape == targets.shape
            shapes[kind].append(tuple(inputs.shape))
            return make_loss_function(model, torch.float32)(inputs, targets)

        return call

    result = evaluate(
        *(loss_of("full"), text, 32, 4, torch.device("cpu"), None, loss_of("rest")),
        on_progress=lambda *now: told.append(now[2:]),
    )
    assert shapes == {"full": full, "rest": rest}
    assert (told[0], told[-1]) == ((0, num_tokens - 1), (num_tokens - 1, num_tokens - 1))
    assert told == sorted(set(told))
    total = 0.0
    for begin in range(0, num_tokens - 1, 32):
        window = torch.from_numpy(ids[begin : begin + 33]).long()
        total += cross_entropy(model(window[:-1]), window[1:]).item() * (len(window) - 1)
    assert result.num_tokens == num_tokens - 1
    assert result.loss == pytest.approx(total / (num_tokens - 1), rel=1e-5)
    assert result.bits_per_byte == pytest.approx(result.loss / math.log(2) / 3, rel=1e-6)


def test_the_speed_is_that_of_the_updates_alone(tiny_config, slow_down):
    slow_down(Trainer, "next_batch", 0.25)
    for name in ("run", "validate", "save"):
        slow_down(Trainer, name, 100.0)
    config = tiny_config.replace(max_steps=9, eval_every=4)
    train_run(config)
    assert values_of(config, "perf/tokens_per_s") == [4 * 32 / 0.25] * 9


def test_bfloat16_products_give_nearly_the_same_loss_and_float32_weights(tiny_config):
    torch.manual_seed(0)
    model = Transformer(tiny_config.model)
    ids = torch.randint(0, 300, (4, 33))
    plain = make_loss_function(model, torch.float32)(ids[:, :-1], ids[:, 1:])
    mixed = make_loss_function(model, torch.bfloat16)(ids[:, :-1], ids[:, 1:])
    assert mixed.dtype == torch.float32
    assert mixed.item() == pytest.approx(plain.item(), abs=0.03)
    assert mixed.item() != plain.item()
