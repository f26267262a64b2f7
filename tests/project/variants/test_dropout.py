"""Dropout: what is dropped, how often, and that nothing else changes."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from token_files import write_token_file
from torch import nn
from twin import fast_twin

from cs_basics.functional import cross_entropy
from cs_basics.run.activation_checkpointing import checkpoint_blocks
from cs_basics.run.clock import Clock
from cs_basics.run.distributed import World
from cs_basics.run.folder import RunFolder
from cs_basics.run.model_config import ModelConfig
from cs_basics.run.trainer import Trainer
from cs_basics.run.training_run import train_run
from cs_basics.variants.dropout import Dropout, drops
from cs_basics.variants.model import Transformer

SIZES = {"vocab_size": 19, "context_length": 8, "d_model": 16, "num_layers": 2, "num_heads": 2}
IDS = torch.arange(24).reshape(3, 8) % 19
SHAPE = (3, 8, 16)


def model_of(**changes):
    torch.manual_seed(3)
    return Transformer(ModelConfig(d_ff=24, **SIZES | changes))


def test_a_part_is_dropped_as_torch_drops():
    """nn.Dropout is the oracle for how many values go, and how much the others grow."""
    model = model_of()
    dropout = Dropout(model, 0.25, SHAPE)
    kept = []
    for step in range(200):
        dropout.draw(0, step)
        kept += [mask.clone() for mask in dropout.masks]
    masks = torch.stack(kept)
    oracle = nn.Dropout(0.25).train()(torch.ones(100))
    assert set(masks.unique().tolist()) == set(oracle.unique().tolist())
    # Four standard deviations of the share of 307,200 values.
    assert (masks == 0).double().mean().item() == pytest.approx(
        0.25, abs=4 * math.sqrt(0.25 * 0.75 / masks.numel())
    )
    assert masks.mean(0).sub(1).abs().max() < 0.25  # No place is favoured.


def test_the_stream_gets_what_is_left_of_each_part():
    model = model_of()
    dropout = Dropout(model, 0.5, SHAPE)
    dropout.draw(7)
    found = model(IDS)
    x = model.token_embeddings(IDS)
    masks = iter(dropout.masks)
    for block in model.layers:
        x = x + next(masks) * block.attn.forward(block.ln1(x))
        x = x + next(masks) * block.ffn.forward(block.ln2(x))
    torch.testing.assert_close(found, model.lm_head(model.ln_final(x)))


def test_at_rest_and_for_other_shapes_nothing_is_dropped():
    plain, model = model_of(), model_of()
    dropout = Dropout(model, 0.5, SHAPE)
    assert torch.equal(model(IDS), plain(IDS))
    dropout.draw(1)
    assert not torch.equal(model(IDS), plain(IDS))
    assert torch.equal(model(IDS[:2]), plain(IDS[:2]))
    dropout.rest()
    assert torch.equal(model(IDS), plain(IDS))
    assert list(model.state_dict()) == list(plain.state_dict())
    assert drops(model)
    assert not drops(plain)


def test_masks_are_of_their_seed_alone():
    first, second = (Dropout(model_of(), 0.5, SHAPE) for _ in range(2))
    seen = []
    for dropout, seeds in ((first, [(0, 1), (0, 2), (1, 1), (0, 1)]), (second, [(0, 1)])):
        for seed in seeds:
            dropout.draw(*seed)
            seen.append(torch.stack(dropout.masks))
    assert torch.equal(seen[0], seen[3])
    assert torch.equal(seen[0], seen[4])
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0][0], seen[0][1])


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_twins_and_checkpointed_activations_drop_the_same(placement, is_checkpointed):
    results = []
    for model in (model_of(placement=placement), fast_twin(model_of(placement=placement))):
        if is_checkpointed:
            checkpoint_blocks(model)
        Dropout(model, 0.5, SHAPE).draw(5)
        loss = cross_entropy(model(IDS), IDS.flip(-1))
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters())])
    for found, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("share", "level"), [(0.0, 0), (1e-4, 1), (0.1, 26), (0.9999, 255)])
def test_a_share_is_rounded_but_never_to_nothing_or_all(share, level):
    assert Dropout(model_of(), share, SHAPE).level == level


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_too_much_is_refused(share):
    with pytest.raises(ValueError, match=f"dropout={share}"):
        Dropout(model_of(), share, SHAPE)


def test_a_run_drops_while_it_trains_and_not_while_it_is_judged(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "compile", lambda _: None)
    before, after = [], []
    validate = Trainer.validate

    def watch(trainer, *arguments, **more):
        before.append(all(mask.min() == 0 for mask in trainer.dropout.masks))
        result = validate(trainer, *arguments, **more)
        after.append(all(mask.min() == 1 for mask in trainer.dropout.masks))
        return result

    monkeypatch.setattr(Trainer, "validate", watch)
    for fast in ("off", "auto"):
        config = tiny_config.replace(run_dir=tmp_path / fast, dropout=0.3, fast=fast, num_samples=0)
        assert math.isfinite(train_run(config).loss)
    # The last evaluation follows another one, without an update between them.
    assert before == [True, True, False] * 2
    assert all(after)
    off, auto = (RunFolder(tmp_path / fast).load_model() for fast in ("off", "auto"))
    assert not drops(off)
    for name, weight in off.state_dict().items():
        torch.testing.assert_close(auto.state_dict()[name], weight, rtol=1e-3, atol=1e-4)


def test_dropout_begins_at_its_share_of_the_run_and_drops_other_values_in_each_update(
    tiny_config, monkeypatch
):
    monkeypatch.setattr(Trainer, "compile", lambda _: None)
    dropped, drawn = [], []
    next_batch = Trainer.next_batch

    def watch(trainer):
        batch = next_batch(trainer)
        dropped.append(all(mask.min() == 0 for mask in trainer.dropout.masks))
        drawn.append(torch.stack(trainer.dropout.masks))
        return batch

    monkeypatch.setattr(Trainer, "next_batch", watch)
    train_run(tiny_config.replace(dropout=0.3, dropout_from=0.25, max_steps=8, num_samples=0))
    assert dropped == [False] * 2 + [True] * 6
    for one, other in itertools.combinations(drawn[2:], 2):
        assert not torch.equal(one, other)


@pytest.mark.parametrize(("parallel", "is_shared"), [("ddp", False), ("fsdp", False), ("tp", True)])
def test_processes_that_compute_the_same_rows_drop_the_same_and_others_do_not(
    tiny_config, tmp_path, monkeypatch, parallel, is_shared
):
    # There is no process group here that a model could be laid out over.
    monkeypatch.setattr("cs_basics.run.trainer.lay_out", lambda *_: None)
    ids, sizes = np.arange(200), {"vocab_size": 300, "tokenizer_checksum": "none"}
    corpus = SimpleNamespace(train=write_token_file(tmp_path / "train.bin", [(600, ids)], **sizes))
    config = tiny_config.replace(dropout=0.3, parallel=parallel)
    masks = []
    for rank in range(2):
        folder = RunFolder(config.run.run_dir)
        trainer = Trainer(config, folder, corpus, Clock(1, None), World(rank, 2))
        trainer.next_batch()
        masks.append(torch.stack(trainer.dropout.masks))
        assert masks[rank].min() == 0
    assert torch.equal(*masks) == is_shared
