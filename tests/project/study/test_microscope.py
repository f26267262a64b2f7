"""The microscope: what norms read and attention scores, of a model and of a run."""

import math
import shutil

import pytest
import torch

import cs_basics.attention
from cs_basics.functional import scaled_dot_product_attention
from cs_basics.run.folder import RunFolder
from cs_basics.run.run import train_run
from cs_basics.settings.model import ModelConfig
from cs_basics.study.microscope.of_run import readings_of
from cs_basics.study.microscope.reading import observed, read
from cs_basics.variants.model import Transformer

SIZES = {"vocab_size": 19, "context_length": 8, "d_model": 32, "num_layers": 2, "num_heads": 4}
IDS = torch.arange(16).reshape(2, 8)


def model_of(**changes):
    torch.manual_seed(3)
    return Transformer(ModelConfig(d_ff=48, **SIZES | changes))


@pytest.fixture
def model():
    return model_of()


def test_statistics_are_those_of_the_stream(model):
    """The streams of a pre-norm model, computed here from its parts."""
    reading = read(model, IDS, 7)
    with torch.no_grad():
        streams = [model.token_embeddings(IDS)]
        for block in model.layers:
            streams.append(streams[-1] + block.attn(block.ln1(streams[-1])))
            streams.append(streams[-1] + block.ffn(block.ln2(streams[-1])))
    assert reading.norms == ["1.ln1", "1.ln2", "2.ln1", "2.ln2", "ln_final"]
    assert reading.step == 7
    assert reading.chance_share == pytest.approx(math.sqrt(2 / (32 * math.pi)))
    for place, stream in enumerate(streams):
        rows = stream.double().flatten(0, 1)
        lengths = rows.norm(dim=1)
        assert reading.rms[place] == pytest.approx(rows.square().mean().sqrt().item())
        assert reading.mean[place] == pytest.approx(rows.mean().item(), abs=1e-6)
        assert reading.largest[place] == pytest.approx(rows.abs().max().item())
        cosines = (rows @ torch.ones(32).double()).abs() / (lengths * math.sqrt(32))
        assert reading.mean_share[place] == pytest.approx(cosines.mean().item(), rel=1e-5)
        ratios = rows[:, :2].norm(dim=1) / math.sqrt(2) / (lengths / math.sqrt(32))
        assert reading.partial_ratio[place] == pytest.approx(ratios.mean().item(), rel=1e-5)
        assert reading.partial_spread[place] == pytest.approx(
            ratios.std(correction=0).item(), rel=1e-5
        )


def test_scores_are_of_pairs_that_see_each_other(model):
    with torch.no_grad():
        model.layers[0].attn.q_proj.weight.zero_()
    with observed(model) as seen:
        model(IDS)
    assert [scores.numel() for scores in seen.scores] == [2 * 4 * 36] * 2
    reading = read(model, IDS, 0)
    assert reading.score_largest[0] == reading.score_rms[0] == 0
    assert reading.score_largest[1] > reading.score_rms[1] > 0


@pytest.mark.parametrize("placement", ["post", "sandwich", "none"])
def test_other_placements_are_read_too(placement):
    reading = read(model_of(placement=placement), IDS, 0)
    assert len(reading.norms) == len(reading.rms) == (9 if placement == "sandwich" else 5)


def test_a_model_is_as_before_afterwards(model):
    expected = model(IDS)
    model.train()
    read(model, IDS, 0)
    assert model.training
    with pytest.raises(ValueError, match="longer than"):
        read(model, torch.zeros(1, 9, dtype=torch.long), 0)
    assert cs_basics.attention.scaled_dot_product_attention is scaled_dot_product_attention
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert torch.equal(model(IDS), expected)


# --- of a run ---


@pytest.fixture
def folder(trained):
    """A run with one checkpoint left of four."""
    folder = RunFolder(trained)
    for path in folder.all_checkpoints()[:-1]:
        path.unlink()
    return folder


def test_every_checkpoint_is_read(folder):
    shutil.copy(folder.checkpoint_of(20), folder.checkpoint_of(25))
    first, *others = readings_of(folder)
    assert [first.step, *(reading.step for reading in others)] == [0, 20, 25]
    assert others[1].rms == others[0].rms != first.rms


def test_step_0_is_what_the_run_began_with(folder, tiny_config):
    """Of a run without an update: its checkpoint holds the weights that it began with."""
    start = tiny_config.replace(run_dir=folder.path.parent / "start", lr=1e-30, weight_decay=0.0)
    train_run(start)
    of_start = readings_of(RunFolder(start.run.run_dir))[-1]
    assert of_start.rms == pytest.approx(readings_of(folder)[0].rms, rel=1e-6)


def test_imported_weights_whose_checkpoint_is_gone_have_no_step_0(folder):
    folder.write_config(folder.read_config(), imported_from="")  # The name is not known.
    assert [reading.step for reading in readings_of(folder)] == [20]


def test_the_script_draws(succeeds, folder):
    finished = succeeds("microscope", folder.path)
    picture = folder.path / "microscope.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"2 steps of {folder.path}, drawn in {picture}" in finished.out
    assert "2.ln1" in finished.out
