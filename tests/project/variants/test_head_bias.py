"""The bias of the output head: what it begins with, what it does, and how it is updated."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from cs_basics.fast import accelerate
from cs_basics.fast.loss import is_chunked
from cs_basics.run.folder import RunFolder
from cs_basics.run.model_config import ModelConfig
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.token_file import open_token_file
from cs_basics.run.trainer import Trainer
from cs_basics.run.training_run import train_run
from cs_basics.variants import head_bias
from cs_basics.variants.head_bias import log_shares, set_head_bias
from cs_basics.variants.model import Transformer

SIZES = ModelConfig(
    vocab_size=19, context_length=8, d_model=16, d_ff=24, num_layers=2, num_heads=2, head_bias=True
)
IDS = torch.arange(24).reshape(3, 8) % 19
TOKENS = np.array([3, 3, 5, 18, 3, 0, 5, 3], dtype=np.uint16)


@pytest.mark.parametrize("chunk", [1, 3, 8, 100])
def test_shares_are_counted_with_one_of_each_token_more(monkeypatch, chunk):
    """Python's Counter is the oracle."""
    monkeypatch.setattr(head_bias, "CHUNK", chunk)
    counted = Counter([*TOKENS.tolist(), *range(19)])
    expected = [math.log(counted[token] / (8 + 19)) for token in range(19)]
    shares = log_shares(TOKENS, 19)
    assert shares.tolist() == pytest.approx(expected, rel=1e-6)
    assert shares.exp().sum().item() == pytest.approx(1, rel=1e-6)


def test_a_head_that_says_nothing_predicts_the_shares():
    model = Transformer(SIZES)
    set_head_bias(model, TOKENS)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    probabilities = torch.softmax(model(IDS), dim=-1)
    counts = 1 + np.bincount(TOKENS, minlength=19)
    expected = torch.tensor(counts / 27, dtype=torch.float32).expand(3, 8, 19)
    torch.testing.assert_close(probabilities, expected)


@pytest.mark.parametrize("is_tied", [False, True])
def test_it_is_added_to_the_logits_and_nothing_else_changes(is_tied):
    models = []
    for has_bias in (False, True):
        torch.manual_seed(3)
        sizes = SIZES.__dict__ | {"head_bias": has_bias, "tie_embeddings": is_tied}
        models.append(Transformer(ModelConfig(**sizes)))
    plain, biased = models
    assert biased.state_dict().keys() - plain.state_dict().keys() == {"lm_head.bias"}
    assert torch.equal(biased(IDS), plain(IDS))  # It begins at 0.
    bias = torch.randn(19)
    biased.lm_head.bias.data.copy_(bias)
    torch.testing.assert_close(biased(IDS), plain(IDS) + bias)


def test_it_is_set_to_the_shares_and_other_models_stay_as_they_are():
    biased = Transformer(SIZES)
    set_head_bias(biased, TOKENS)
    assert torch.equal(biased.lm_head.bias, log_shares(TOKENS, 19))
    plain = Transformer(ModelConfig(**SIZES.__dict__ | {"head_bias": False}))
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    set_head_bias(plain, TOKENS)
    assert all(torch.equal(before[name], value) for name, value in plain.state_dict().items())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_only_the_bias_is_not_decayed(tiny_config, optimizer):
    config = tiny_config.replace(head_bias=True, optimizer=optimizer, weight_decay=0.3)
    model = Transformer(config.model)
    groups = make_optimizer(model, config).param_groups
    held = [id(p) for group in groups for p in group["params"]]
    assert sorted(held) == sorted(map(id, model.parameters()))
    names = {id(p): name for name, p in model.named_parameters()}
    undecayed = [names[id(p)] for g in groups if not g["weight_decay"] for p in g["params"]]
    assert undecayed == ["lm_head.bias"]


def test_its_loss_is_not_computed_in_chunks_which_know_no_bias():
    positions = 1 << 24
    assert not is_chunked(accelerate(Transformer)(SIZES), positions)
    plain = ModelConfig(**SIZES.__dict__ | {"head_bias": False})
    assert is_chunked(accelerate(Transformer)(plain), positions)


def test_a_run_begins_with_the_shares_of_its_text_and_goes_on_with_what_it_learned(
    tiny_config, tmp_path, monkeypatch
):
    begun = []
    run = Trainer.run

    def watch(trainer, *arguments):
        begun.append(trainer.model.lm_head.bias.detach().clone())
        run(trainer, *arguments)

    monkeypatch.setattr(Trainer, "run", watch)
    choices = {"head_bias": True, "value_residual": True, "tie_embeddings": True, "max_steps": 6}
    config = tiny_config.replace(**choices, checkpoint_every=3, num_samples=0, sample_tokens=0)
    whole = config.replace(run_dir=tmp_path / "whole")
    train_run(whole)
    folder = RunFolder(whole.run.run_dir)
    tokens = open_token_file(folder.tokens / "train.bin").tokens
    counts = 1 + np.bincount(np.array(tokens), minlength=whole.model.vocab_size)
    expected = np.log(counts / counts.sum())
    np.testing.assert_allclose(begun[0].numpy(), expected, rtol=1e-5)
    trained = folder.load_model()
    assert not torch.equal(trained.lm_head.bias, begun[0])
    folder.checkpoint_of(6).unlink()
    train_run(whole, resume=True)
    assert not torch.equal(begun[1], begun[0])
    again = folder.load_model().state_dict()
    assert all(torch.equal(again[name], value) for name, value in trained.state_dict().items())
