"""The training benchmark: what its rows claim, and a worker that takes turns."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def training(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "maintain"))
    return importlib.import_module("benchmarks.training")


def test_goals_compare_with_the_right_peer(training):
    speeds = dict.fromkeys(training.MAIN, 1000.0) | {
        "ours, bfloat16": 1700.0,
        "ours, float32": 1100.0,
        "transformers, bfloat16, same allocator": 1400.0,
    }
    memory = dict.fromkeys(speeds, 1000.0) | {"ours, bfloat16": 590.0}
    results = {name: training.Result(speeds[name], 40.0, memory[name]) for name in speeds}
    rows = {row.name: row for row in training.main_rows(results, 415e9)}
    met = {name: row.met for name, row in rows.items() if row.goal is not None}
    assert met == {
        "speed (peer: transformers, bfloat16)": True,
        "speed (peer: transformers, bfloat16, same allocator)": False,
        "speed (peer: transformers, float32)": False,
        "peak memory (peer: transformers, bfloat16)": True,
        "peak memory (peer: transformers, bfloat16, same allocator)": True,
        "peak memory (peer: transformers, bfloat16, not compiled)": True,
        "share of the bfloat16 peak": False,
        "first step": True,
    }
    # 37.5 MFLOP a token: the whole square of scores counts (accounting.py).
    share = rows["share of the bfloat16 peak"].ours
    assert share == pytest.approx(1700 * 37.5e6 / 415e9, rel=0.02)


def test_each_step_is_compared_with_the_one_before(training):
    results = {f"step {i}": training.Result(100.0 * i, 1.0, 50.0) for i in (1, 2, 3)}
    rows = [row for row in training.step_rows(results) if row.unit == "tokens/s"]
    assert [row.peer for row in rows] == [None, 100.0, 200.0]


@pytest.mark.parametrize(("ours", "met"), [(240.0, True), (199.0, False)])
def test_the_lead_may_not_shrink_with_length_and_vocabulary(training, ours, met):
    main = {
        "ours, bfloat16": training.Result(200.0, 1.0, 1.0),
        "transformers, bfloat16, same allocator": training.Result(100.0, 1.0, 1.0),
    }
    both = {"ours": training.Result(ours, 1, 1.0), "peer": training.Result(100.0, 1, 1.0)}
    growth = dict.fromkeys(("context 1,024, batch 4", "width 512"), both)
    rows = training.growth_rows(growth, main)
    assert [row.met for row in rows] == [met, None, None, None]


def test_the_picture_is_drawn(training, tmp_path):
    results = {name: training.Result(1.0, 1.0, 1.0) for name in ("ours", "peer")}
    training.draw(results, results, {"width": results}, tmp_path / "training.png")
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")


CONTENDER = {"batch_size": 1, "context_length": 8, "vocab_size": 300, "d_model": 32,
             "dtype": "float32"}  # fmt: skip


def test_a_worker_tells_its_first_update_every_turn_and_its_memory(training):
    contender = training.Contender(kind="book", is_compiled=False, **CONTENDER)
    with training._started("book", contender) as worker:
        assert worker.ask("begin") > 0
        assert 0 < worker.ask("step") < 10
        assert 100 < worker.ask("peak") < 5000


def losses_of_three_updates(monkeypatch, contender):
    """Return the loss before each of the first three updates of a contender, not compiled."""
    worker = importlib.import_module("benchmarks.training_worker")
    losses = []

    def training_step(model, optimizer, loss_of, batch):
        def noted_loss_of(*tensors):
            losses.append(loss_of(*tensors))
            return losses[-1]

        return models.training_step(model, optimizer, noted_loss_of, batch)

    models = importlib.import_module("benchmarks.models")
    monkeypatch.setattr(worker, "training_step", training_step)
    monkeypatch.setattr(worker, "compile_training", lambda model, _config, _optimizer, dtype, _: (
        worker.make_loss_function(model, dtype)
    ))  # fmt: skip
    step = worker.make_step(contender)
    for _ in range(3):
        step()
    return [loss.item() for loss in losses]


@pytest.mark.parametrize("fast_parts", [(), ("SwiGLU", "CausalSelfAttention")])
def test_ours_and_the_book_train_the_same_model_on_the_same_batch(
    training, monkeypatch, fast_parts
):
    sizes = CONTENDER | {"is_compiled": False}
    ours = losses_of_three_updates(monkeypatch, training.Contender(kind="ours", **sizes))
    book = training.Contender(kind="book", fast_parts=fast_parts, **sizes)
    assert losses_of_three_updates(monkeypatch, book) == pytest.approx(ours, rel=1e-5)
    assert ours[2] < ours[1] < ours[0]


def test_a_part_is_exchanged_for_its_twin_alone(training, monkeypatch):
    worker, kinds = importlib.import_module("benchmarks.training_worker"), set()
    monkeypatch.setattr(worker, "training_step", lambda model, *_: kinds.update(
        type(module).__name__ for module in model.modules()
    ))  # fmt: skip
    parts = {"is_compiled": False, "fast_parts": ("SwiGLU",)}
    worker.make_step(training.Contender(kind="book", **CONTENDER | parts))
    assert {"FusedSwiGLU", "CausalSelfAttention", "RMSNorm", "TransformerLM"} <= kinds
    assert "SwiGLU" not in kinds


def test_a_worker_that_dies_is_named(training, monkeypatch):
    monkeypatch.setattr(training, "command_of", lambda *_: [sys.executable, "-c", "input()"])
    with pytest.raises(ValueError, match="short-lived: the process ended early"):
        training.race({"short-lived": training.OURS})
