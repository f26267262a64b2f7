"""Training with the fast twins is training with the book, to rounding; and it repeats itself."""

import copy
import logging

import pytest
import torch
from twin import fast_twin

from cs_basics.fast import loss
from cs_basics.fast.adamw import FusedAdamW
from cs_basics.fast.loss import is_chunked, loss_function
from cs_basics.fast.transformer import FastTransformer
from cs_basics.functional import cross_entropy
from cs_basics.run.activation_checkpointing import checkpoint_blocks
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics
from cs_basics.run.model_config import ModelConfig
from cs_basics.run.trainer import Trainer
from cs_basics.run.training_run import train_run
from cs_basics.transformer import TransformerBlock
from cs_basics.variants.model import Transformer

STEPS = 50


@pytest.fixture
def config(tiny_config):
    """Fifty updates, all logged, of a model that the C++ kernel can take."""
    return tiny_config.replace(
        num_layers=1, d_model=64, num_heads=2, max_steps=STEPS, log_every=1, checkpoint_every=25,
        eval_every=25, num_samples=0, sample_tokens=0,
    )  # fmt: skip


def losses_of(config):
    rows = read_metrics(RunFolder(config.run.run_dir).metrics)
    return [row["train/loss"] for row in rows if "train/loss" in row]


def weights_of(config):
    return RunFolder(config.run.run_dir).load_model().state_dict()


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
        assert "so in this one" not in caplog.text
        RunFolder(runs["again"].run.run_dir).checkpoint_of(STEPS).unlink()
        train_run(runs["again"], resume=True)
    finally:
        torch.set_num_threads(num_threads)
    assert_same_curve(losses_of(runs["auto"]), losses_of(runs["off"]))
    assert losses_of(runs["again"]) == losses_of(runs["auto"])
    one, again = (weights_of(runs[name]) for name in ("auto", "again"))
    for name, weight in one.items():
        assert torch.equal(weight, again[name]), name


def small_pair(**choices):
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "context_length": 150, "d_model": 32, "num_layers": 2,
             "num_heads": 4, "d_ff": 48}  # fmt: skip
    clear = Transformer(ModelConfig(**{**sizes, **choices}))
    return clear, fast_twin(clear)


def batch_of(rows=3, seq=150):
    ids = torch.randint(50, (rows, seq + 1), generator=torch.Generator().manual_seed(1))
    return ids[:, :-1], ids[:, 1:]


def loss_and_gradients(loss_of, model, batch):
    model.zero_grad()
    value = loss_of(*batch)
    value.backward()
    return [value.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("tie_embeddings", [False, True])
def test_the_loss_in_chunks_has_the_value_and_gradients_of_the_definition(
    monkeypatch, tie_embeddings
):
    clear, fast = small_pair(tie_embeddings=tie_embeddings)
    batch = batch_of()
    expected = loss_and_gradients(lambda x, y: cross_entropy(clear(x), y), clear, batch)
    monkeypatch.setattr(loss, "MANY_LOGITS", 1)
    chunked = loss_function(fast, torch.float32, batch[0].numel())
    assert chunked.__name__ == "chunked_loss_of"
    for ours, theirs in zip(loss_and_gradients(chunked, fast, batch), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_chunks_are_for_many_logits_and_for_the_twin_of_the_model_only():
    clear, fast = small_pair()
    assert is_chunked(fast, loss.MANY_LOGITS)
    assert not is_chunked(fast, 100)
    assert not is_chunked(clear, loss.MANY_LOGITS)


def test_in_bfloat16_the_loss_stays_float32_in_chunks_too(monkeypatch):
    clear, fast = small_pair()
    batch = batch_of()
    exact = cross_entropy(clear(batch[0]), batch[1])
    for least in (loss.MANY_LOGITS, 1):
        monkeypatch.setattr(loss, "MANY_LOGITS", least)
        found = loss_function(fast, torch.bfloat16, batch[0].numel())(*batch)
        assert found.dtype == torch.float32
        assert found.item() == pytest.approx(exact.item(), abs=0.03)
        assert found.item() != exact.item()


@pytest.mark.parametrize("placement", ["pre", "sandwich"])
@pytest.mark.parametrize("is_fast", [False, True])
def test_checkpointed_activations_keep_less_and_give_the_same_loss_and_gradients(
    is_fast, placement
):
    model = small_pair(placement=placement)[is_fast]
    names = list(model.state_dict())
    results, kept = [], []
    for is_checkpointed in (False, True):
        if is_checkpointed:
            checkpoint_blocks(model)
        loss_of, numbers = loss_function(model, torch.bfloat16, 450), {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, numbers=numbers: numbers.update({x.data_ptr(): x.numel()}) or x, lambda x: x
        ):
            loss_of(*batch_of())
        results.append(loss_and_gradients(loss_of, model, batch_of()))
        kept.append(sum(numbers.values()))
    assert all(map(torch.equal, *results))
    assert kept[1] < 0.6 * kept[0]
    assert list(model.state_dict()) == names
    with torch.no_grad():
        before, copied = model(batch_of()[0]), copy.deepcopy(model)
        assert before.isfinite().all()
        for parameter in copied.layers.parameters():
            parameter.zero_()
        assert not torch.equal(copied(batch_of()[0]), before)


def test_a_run_checkpoints_activations_where_that_is_asked(config, monkeypatch):
    monkeypatch.setattr(Trainer, "compile", lambda _: None)
    plain = config.replace(fast="off", max_steps=3)
    checkpointed = plain.replace(activation_checkpointing=True, run_dir=plain.run.run_dir / "2")
    calls = []
    forward = TransformerBlock.forward
    monkeypatch.setattr(
        TransformerBlock, "forward",
        lambda self, x: calls.append(torch.is_grad_enabled()) or forward(self, x),
    )  # fmt: skip
    num_calls = []
    for run in (plain, checkpointed):
        train_run(run)
        num_calls.append(sum(calls))
        calls.clear()
    assert num_calls[1] == 2 * num_calls[0] > 0
    assert losses_of(plain) == losses_of(checkpointed)
