"""Ensembles: the mean of probabilities, members that learn by themselves, and whole runs."""

import dataclasses
import json

import pytest
import torch

from cs_basics.functional import cross_entropy
from cs_basics.run.distributed import World
from cs_basics.run.evaluation import evaluate, make_loss_function, make_training_loss
from cs_basics.run.folder import RunFolder
from cs_basics.run.layout import check_layout
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.token_file import open_token_file
from cs_basics.run.trainer import Trainer
from cs_basics.run.training_run import train_run
from cs_basics.transformer import TransformerLM
from cs_basics.variants.config import ModelConfig
from cs_basics.variants.dropout import Dropout
from cs_basics.variants.ensemble import Ensemble, build_models, members_of
from cs_basics.variants.model import build_model

SIZES = ModelConfig(
    vocab_size=19, context_length=8, d_model=16, d_ff=24, num_layers=2, num_heads=2, num_models=3
)
IDS = torch.arange(24).reshape(3, 8) % 19
TARGETS = (IDS + 1) % 19


@pytest.fixture
def ensemble():
    torch.manual_seed(3)
    return build_models(SIZES)


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


def test_it_predicts_with_the_mean_of_its_members_probabilities(ensemble):
    """torch.softmax is the oracle, in float64."""
    expected = torch.stack(
        [torch.softmax(member(IDS).double(), dim=-1) for member in ensemble.members]
    ).mean(dim=0)
    logits = ensemble(IDS)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits.double().exp(), expected, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(3, 8))


def test_members_that_are_sure_of_different_tokens_stay_finite(ensemble):
    with torch.no_grad():
        for member in ensemble.members:
            member.lm_head.weight.mul_(1e4)
    assert ensemble(IDS).isfinite().all()
    assert ensemble.bfloat16()(IDS).dtype == torch.float32


def test_members_begin_with_weights_of_their_own(ensemble):
    tables = [member.token_embeddings.weight for member in members_of(ensemble)]
    assert len(tables) == 3
    assert not torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[1], tables[2])


def test_one_model_is_no_ensemble():
    one = dataclasses.replace(SIZES, num_models=1)
    assert type(build_models(one)) is TransformerLM
    with pytest.raises(ValueError, match="num_models=3: this needs one model"):
        build_model(SIZES)
    with pytest.raises(ValueError, match="num_models=0 must be at least 1"):
        dataclasses.replace(SIZES, num_models=0)


def test_each_member_learns_from_its_own_loss(ensemble):
    losses = [cross_entropy(member(IDS), TARGETS) for member in ensemble.members]
    loss = make_training_loss(ensemble, torch.float32)(IDS, TARGETS)
    assert loss.item() == pytest.approx(sum(one.item() for one in losses) / 3)
    loss.backward()
    found = gradients(ensemble)
    ensemble.zero_grad()
    for one in losses:
        (one / 3).backward()
    for gradient, expected in zip(found, gradients(ensemble), strict=True):
        torch.testing.assert_close(gradient, expected)
    # The mean predicts better than members do on average (Jensen's inequality).
    assert make_loss_function(ensemble, torch.float32)(IDS, TARGETS) < loss


@pytest.mark.parametrize("tied", [False, True])
def test_the_weights_of_all_members_have_the_rates_of_one_model(tiny_config, tied):
    config = tiny_config.replace(
        optimizer="muon", muon_lr_ratio=2.0, embedding_lr_ratio=10.0, tie_embeddings=tied,
        num_models=2,
    )  # fmt: skip
    model = build_models(config.model)
    optimizer = make_optimizer(model, config)
    alone = make_optimizer(build_model(config.model.of_member()), config)
    for group, expected in zip(optimizer.param_groups, alone.param_groups, strict=True):
        assert len(group["params"]) == 2 * len(expected["params"])
        assert {k: v for k, v in group.items() if k != "params"} == {
            k: v for k, v in expected.items() if k != "params"
        }
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in model.parameters()}


def test_dropout_hides_other_values_from_each_member(ensemble):
    dropout = Dropout(ensemble, 0.5, (3, 8, 16))
    dropout.draw(0)
    assert len(dropout.masks) == 3 * 2 * 2
    assert not torch.equal(dropout.masks[0], dropout.masks[4])


@pytest.fixture
def run(tiny_config):
    """A finished run of two members."""
    config = tiny_config.replace(num_models=2, dropout=0.1, num_samples=1)
    train_run(config)
    return RunFolder(config.run.run_dir)


def test_a_run_resumed_is_the_run_not_stopped(run):
    whole = run.load_models().state_dict()
    run.checkpoint_of(20).unlink()
    train_run(run.read_config(), resume=True)
    resumed = run.load_models().state_dict()
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())


def test_a_run_is_judged_by_its_mean(run):
    model = run.load_models()
    assert isinstance(model, Ensemble)
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    judged = rows[-1]["final/loss"]
    tables = [member.token_embeddings.weight for member in model.members]
    assert not torch.equal(*tables)

    def judge(judged_model):
        return evaluate(
            make_loss_function(judged_model, torch.float32),
            open_token_file(run.tokens / "valid.bin"), 32, 4, torch.device("cpu"),
        ).loss  # fmt: skip

    assert judge(model) == pytest.approx(judged, rel=1e-5)
    assert judged < sum(judge(member) for member in model.members) / 2  # Jensen
    assert run.samples.read_text().count("## ") == 1


def test_what_needs_one_model_says_so(run):
    with pytest.raises(ValueError, match="holds 2 models whose mean predicts"):
        run.load_model()


@pytest.mark.parametrize("parallel", ["fsdp", "tp"])
def test_what_holds_parts_of_a_model_refuses_several(tiny_config, parallel):
    config = tiny_config.replace(num_models=2, parallel=parallel)
    with pytest.raises(ValueError, match="--num-models 2 needs whole models"):
        check_layout(config, World(0, 2))


def test_its_operations_are_those_of_its_members(tiny_config):
    def flops(num_models):
        config = tiny_config.replace(num_models=num_models)
        trainer = object.__new__(Trainer)
        trainer.config, trainer.model = config, build_models(config.model)
        trainer.world = trainer.data_world = World(0, 1)
        return trainer.flops_per_token()

    assert flops(3) == 3 * flops(1)
