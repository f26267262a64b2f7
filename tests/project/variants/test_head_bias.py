"""The bias of the output head: what it begins with, and what it does (updates: test_muon.py)."""

from collections import Counter

import numpy as np
import pytest
import torch
from small_models import batch_of, small_model

from cs_basics.run.folder import RunFolder
from cs_basics.run.run import train_run
from cs_basics.run.token_file import open_token_file
from cs_basics.run.trainer import Trainer
from cs_basics.variants import head_bias
from cs_basics.variants.head_bias import set_head_bias
from cs_basics.variants.model import Transformer

TOKENS = np.array([3, 3, 5, 49, 3, 0, 5, 3], dtype=np.uint16)


@pytest.mark.parametrize("chunk", [1, 3, 8, 100])
def test_a_head_that_says_nothing_predicts_the_shares_with_one_of_each_token_more(
    monkeypatch, chunk
):
    """Python's Counter is the oracle."""
    monkeypatch.setattr(head_bias, "CHUNK", chunk)
    model, (ids, _) = small_model(head_bias=True), batch_of(2, 5)
    set_head_bias(model, TOKENS)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    counted = Counter([*TOKENS.tolist(), *range(50)])
    shares = torch.tensor([counted[token] / (8 + 50) for token in range(50)])
    torch.testing.assert_close(torch.softmax(model(ids), dim=-1), shares.expand(2, 5, 50))
    torch.testing.assert_close(model.lm_head.bias.detach(), shares.log())


def test_it_begins_at_0_and_a_head_without_it_stays_as_it_is():
    assert not Transformer(small_model(head_bias=True).config).lm_head.bias.any()
    plain = small_model()
    set_head_bias(plain, TOKENS)
    assert torch.equal(plain.lm_head.weight, small_model().lm_head.weight)


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
    config = tiny_config.replace(**choices, eval_every=3, num_samples=0)
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
