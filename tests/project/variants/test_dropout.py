"""Dropout: what is dropped, how often, and that nothing else changes."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from run_files import folder_of, write_token_file
from small_models import assert_same, batch_of, fast_twin, loss_and_gradients, small_model
from torch import nn

from cs_basics.run.clock import Clock
from cs_basics.run.distributed import World
from cs_basics.run.run import train_run
from cs_basics.run.trainer import Trainer
from cs_basics.variants.dropout import Dropout, drops

BATCH = batch_of(3, 8)
IDS, _ = BATCH
SHAPE = (3, 8, 32)


def test_a_part_is_dropped_as_torch_drops():
    """nn.Dropout is the oracle for how many values go, and how much the others grow."""
    dropout = Dropout(small_model(), 0.25, SHAPE)
    kept = []
    for step in range(100):
        dropout.draw(0, step)
        kept += [mask.clone() for mask in dropout.masks]
        assert not torch.equal(*kept[-2:])
    dropout.draw(1, 99)
    assert not torch.equal(kept[-1], dropout.masks[-1])
    masks = torch.stack(kept)
    oracle = nn.Dropout(0.25).train()(torch.ones(100))
    assert set(masks.unique().tolist()) == set(oracle.unique().tolist())
    # Four standard deviations of the share of 307,200 values.
    assert (masks == 0).double().mean().item() == pytest.approx(
        0.25, abs=4 * math.sqrt(0.25 * 0.75 / masks.numel())
    )
    assert masks.mean(0).sub(1).abs().max() < 0.25  # No place is favoured.


def test_the_stream_gets_what_is_left_of_each_part():
    model = small_model()
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
    plain, model = small_model(), small_model()
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


@pytest.mark.parametrize(
    "form",
    [{}, {"placement": "post"}, {"placement": "sandwich"},
     {"value_residual": True, "num_layers": 3}],
    ids=str,
)  # fmt: skip
def test_twins_drop_the_same(form):
    clear, twin = small_model(**form), fast_twin(small_model(**form))
    for model in (clear, twin):
        Dropout(model, 0.5, SHAPE).draw(5)
    assert_same(loss_and_gradients(twin, BATCH), loss_and_gradients(clear, BATCH))


@pytest.mark.parametrize(("share", "level"), [(0.0, 0), (1e-4, 1), (0.1, 26), (0.9999, 255)])
def test_a_share_is_rounded_but_never_to_nothing_or_all(share, level):
    assert Dropout(small_model(), share, SHAPE).level == level


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_too_much_is_refused(share):
    with pytest.raises(ValueError, match=f"dropout={share}"):
        Dropout(small_model(), share, SHAPE)


def test_a_run_drops_other_values_in_each_part_from_its_share_on_and_none_in_what_it_shows(
    tiny_config, monkeypatch
):
    monkeypatch.setattr(Trainer, "compile", lambda _: None)
    drawn, judged, sampled = [], [], []
    draw, validate = Dropout.draw, Trainer.validate

    def watch(dropout, *seed, **more):
        draw(dropout, *seed, **more)
        drawn.append(torch.stack(dropout.masks))

    def watch_validation(trainer, *arguments, **more):
        result = validate(trainer, *arguments, **more)
        judged.append(all(mask.min() == 1 for mask in trainer.batches.dropout.masks))
        return result

    def write(model, *_, **__):
        masks = [buffer for name, buffer in model.named_buffers() if "mask" in name]
        sampled.append(min(mask.min() for mask in masks))
        return "a story"

    monkeypatch.setattr(Dropout, "draw", watch)
    monkeypatch.setattr(Trainer, "validate", watch_validation)
    monkeypatch.setattr("cs_basics.run.samples.write_story", write)
    config = tiny_config.replace(dropout=0.3, max_steps=8, eval_every=4, num_samples=1)
    assert math.isfinite(train_run(config.replace(grad_accum_steps=2)).loss)
    assert judged == [True] * 3
    assert min(sampled) == 1
    assert [bool(masks.min() == 0) for masks in drawn] == [False] * 6 + [True] * 10
    for one, other in itertools.combinations(drawn[6:], 2):
        assert not torch.equal(one, other)
    assert not drops(folder_of(config).load_model())


@pytest.mark.parametrize(("parallel", "is_shared"), [("ddp", False), ("fsdp", False), ("tp", True)])
def test_processes_that_compute_the_same_rows_drop_the_same_and_others_do_not(
    tiny_config, tmp_path, monkeypatch, parallel, is_shared
):
    monkeypatch.setattr("cs_basics.variants.dropout.BEGINS_AT", 0.0)
    # There is no process group here that a model could be laid out over.
    monkeypatch.setattr("cs_basics.run.trainer.lay_out", lambda *_: None)
    tokens = write_token_file(tmp_path / "train.bin", [(600, np.arange(200))])
    corpus = SimpleNamespace(train=tokens)
    config = tiny_config.replace(dropout=0.3, parallel=parallel)
    masks = []
    for rank in range(2):
        folder = folder_of(config)
        trainer = Trainer(config, folder, corpus, Clock(1, None), World(rank, 2))
        trainer.next_batch()
        masks.append(torch.stack(trainer.batches.dropout.masks))
        assert masks[rank].min() == 0
    assert torch.equal(*masks) == is_shared
