"""Training with the fast twins is training with the book, to rounding; and it repeats itself."""

import logging

import pytest
import torch
from run_files import folder_of, values_of
from small_models import assert_same, batch_of, fast_twin, loss_and_gradients, small_model

from cs_basics.fast import chunked_loss, loss
from cs_basics.fast.adamw import FusedAdamW
from cs_basics.fast.loss import is_chunked, loss_function
from cs_basics.fast.transformer import FastTransformer
from cs_basics.run.run import train_run
from cs_basics.run.trainer import Trainer

STEPS = 30


@pytest.fixture
def config(tiny_config):
    """Thirty updates, all logged, of a model that the C++ kernel can take."""
    return tiny_config.replace(
        num_layers=1, d_model=64, num_heads=2, max_steps=STEPS, eval_every=5, num_samples=0
    )


def losses_of(config):
    return values_of(config, "train/loss")


def assert_same_curve(found, expected):
    assert len(found) == len(expected) == STEPS
    assert expected[-1] < expected[0] - 0.5
    # A rounding of one update is carried into the next ones.
    assert found == pytest.approx(expected, abs=2e-3)
    assert found[:5] == pytest.approx(expected[:5], abs=2e-5)


def test_the_twins_reach_the_losses_of_the_book(config, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Trainer, "compile", lambda trainer: seen.append(trainer))
    off = config.replace(fast="off", run_dir=tmp_path / "off")
    auto = config.replace(fast="auto", run_dir=tmp_path / "auto")
    results = [train_run(off), train_run(auto)]
    (trainer,) = seen
    assert type(trainer.model) is FastTransformer
    assert type(trainer.optimizer) is FusedAdamW
    assert_same_curve(losses_of(auto), losses_of(off))
    assert results[1].loss == pytest.approx(results[0].loss, abs=2e-3)


@pytest.mark.compile
@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of what it does to compile.
def test_compiled_too_with_two_threads_and_bit_for_bit_again_and_resumed(config, tmp_path, caplog):
    names = ("off", "auto", "again")
    runs = {
        # Large enough for the gradient of the embedding to be shared out among threads.
        name: config.replace(
            fast="off" if name.endswith("off") else "auto",
            run_dir=tmp_path / name,
            batch_size=16,
            context_length=64,
            dropout=0.1,
            # What own-text has beyond the book, in blocks that pass values on.
            num_layers=3,
            value_residual=True,
            head_bias=True,
        )
        for name in names
    }
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with caplog.at_level(logging.INFO):
            for run in runs.values():
                train_run(run)
        assert "compiling in this process" not in caplog.text
        folder_of(runs["again"]).checkpoint_of(STEPS).unlink()
        train_run(runs["again"], resume=True)
    finally:
        torch.set_num_threads(num_threads)
    assert_same_curve(losses_of(runs["auto"]), losses_of(runs["off"]))
    assert losses_of(runs["again"]) == losses_of(runs["auto"])
    one, again = (folder_of(runs[name]).load_model().state_dict() for name in ("auto", "again"))
    for name, weight in one.items():
        assert torch.equal(weight, again[name]), name


@pytest.mark.parametrize("tie_embeddings", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_in_chunks_has_the_value_and_gradients_of_the_definition(
    monkeypatch, tie_embeddings, dtype
):
    clear, batch = small_model(tie_embeddings=tie_embeddings), batch_of(3, 150)
    monkeypatch.setattr(loss, "MANY_LOGITS", 1)
    monkeypatch.setattr(chunked_loss, "CHUNK_TOKENS", 64)  # Seven chunks and a rest of two.
    fast = fast_twin(clear)
    chunked = loss_function(fast, dtype, batch[0].numel())
    assert chunked.__name__ == "chunked_loss_of"

    def thrice(loss_of):
        """What comes from above is not 1."""
        return lambda ids, targets: 3 * loss_of(ids, targets)

    plain = loss_function(clear, torch.float32, batch[0].numel())
    expected = loss_and_gradients(clear, batch, thrice(plain))
    found = loss_and_gradients(fast, batch, thrice(chunked))
    assert found["loss"].dtype == torch.float32
    is_near = abs(found["loss"] - expected["loss"]) < 1e-5
    assert is_near == (dtype == torch.float32)
    assert_same(found, expected, 1e-5 if dtype == torch.float32 else 0.03)


def test_chunks_are_for_many_logits_and_for_the_twin_of_a_model_without_a_bias_only():
    clear = small_model()
    assert not is_chunked(fast_twin(small_model(head_bias=True)), loss.MANY_LOGITS)
    assert is_chunked(fast_twin(clear), loss.MANY_LOGITS)
    assert not is_chunked(fast_twin(clear), loss.MANY_LOGITS // 50 - 1)
    assert not is_chunked(clear, loss.MANY_LOGITS)
