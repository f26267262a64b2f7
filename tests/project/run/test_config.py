"""Configurations: rules with clear messages, and JSON that comes back the same."""

import json
import math
from pathlib import Path

import pytest

from cs_basics.run.config import SECTION_OF, SECTIONS, RunConfig, TrainConfig
from cs_basics.run.model_config import ModelConfig
from cs_basics.run.presets import PRESETS

DEBUG = PRESETS["debug"][1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 100, "num_heads": 16}, "d_model=100 is not divisible by num_heads=16"),
        ({"d_model": 60, "num_heads": 4}, "heads of odd size 15"),
        ({"num_heads": 0}, "num_heads=0 must be at least 1"),
        ({"vocab_size": 256}, "vocab_size=256 must be at least 257"),
        ({"max_steps": None}, "needs an end"),
        ({"max_minutes": -1.0}, "max_minutes=-1.0 must be greater than 0"),
        ({"lr": 0.0}, "lr=0.0 must be greater"),
        ({"lr": float("nan")}, "lr=nan must be greater"),
        ({"beta2": 1.0}, "beta2=1.0 must be at least 0 and below 1"),
        ({"dropout_from": -0.1}, "dropout_from=-0.1 must be between 0 and 1"),
        ({"eval_tokens": 1}, "eval_tokens=1 must be at least 2"),
        ({"seed": 2**63}, f"seed={2**63} must be at most {2**63 - 1}"),
        ({"lr": math.inf}, "lr=inf must be finite"),
        ({"corpus_megabytes": 1e303}, "must be at most 1000000"),
        ({"weight_decay": math.inf}, "weight_decay=inf must be finite"),
        ({"rope_theta": math.nan}, "rope_theta=nan must be greater than 0, and finite"),
        ({"min_lr_ratio": 1.5}, "min_lr_ratio=1.5 must be between 0 and 1"),
        ({"grad_accum_steps": 0}, "grad_accum_steps=0 must be greater than 0"),
        ({"num_samples": -1}, "num_samples=-1 must be 0 or greater"),
        ({"train_text": Path("a.txt")}, "go together"),
        ({"positions": "none", "rope_theta": 5e5}, "rope_theta=500000.0 has no effect with posi"),
    ],
)
def test_a_broken_rule_is_named_with_its_value(changes, message):
    with pytest.raises(ValueError, match=message):
        DEBUG.replace(**changes)


def test_a_preset_with_muon_takes_another_optimizer_as_it_is():
    config = PRESETS["own-text"][1].replace(optimizer="adamw")
    assert config.optim.muon_lr_ratio == 3.0


def test_settings_lie_by_subject_and_are_given_by_name():
    config = TrainConfig.of(d_model=64, num_heads=4, lr=0.5, batch_size=7, max_steps=3)
    assert (config.model.d_model, config.optim.lr, config.data.batch_size) == (64, 0.5, 7)
    assert config.run == RunConfig(max_steps=3)
    assert config.model == ModelConfig(d_model=64, num_heads=4)


def test_every_setting_has_a_section_and_comes_back_by_its_name():
    settings = DEBUG.settings()
    assert settings.keys() == SECTION_OF.keys()
    assert sum(len(kind.__dataclass_fields__) for kind in SECTIONS.values()) == len(SECTION_OF)
    assert TrainConfig.of(**settings) == DEBUG


def test_replacing_changes_what_is_named_and_nothing_else():
    other = DEBUG.replace(seed=5, norm="layernorm")
    assert (other.run.seed, other.model.norm) == (5, "layernorm")
    assert other.replace(seed=DEBUG.run.seed, norm=DEBUG.model.norm) == DEBUG


def test_an_unknown_name_is_refused():
    with pytest.raises(TypeError, match="there is no setting d_modle"):
        DEBUG.replace(d_modle=64)


def test_how_a_run_is_made_fast_is_one_choice():
    hows = {"compile", "merge_projections", "tile_attention", "chunk_loss", "fuse_add_norm"}
    assert not hows & SECTION_OF.keys()
    assert {config.run.fast for _, config in PRESETS.values()} <= {"auto", "off"}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_survives_json(name):
    config = PRESETS[name][1].replace(run_dir=Path("x/y"))
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def changed_json(section, **changes):
    values = DEBUG.to_json()
    values[section] |= changes
    return values


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("model", {"d_modle": 64}, "unknown settings in the configuration: d_modle"),
        ("model", {"lr": 1.0}, "unknown settings in the configuration: lr"),
        ("model", {"d_model": "64"}, 'd_model="64" is not'),
        ("model", {"d_model": 64.5}, "d_model=64.5 is not"),
        ("run", {"activation_checkpointing": 1}, "activation_checkpointing=1 is not"),
        ("run", {"device": "tpu"}, 'device="tpu" is not'),
        ("run", {"fast": True}, "fast=true is not"),
        ("optim", {"lr": None}, "lr=null is not"),
        ("run", {"run_dir": 3}, "run_dir=3 is not"),
    ],
)
def test_json_of_another_kind_is_refused(section, changes, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_json(changed_json(section, **changes))


def test_a_choice_that_an_older_configuration_does_not_name_is_the_books():
    values = DEBUG.to_json()
    for name in ("head_dim", "qk_norm", "head_bias", "value_residual"):
        del values["model"][name]
    del values["optim"]["optimizer"]
    assert TrainConfig.from_json(values) == DEBUG


def test_a_removed_setting_is_read_if_it_was_off_and_refused_if_not():
    values = DEBUG.to_json()
    values["model"] |= {"num_models": 1, "head_norm": "none", "norm_groups": 8, "ffn_bias": False}
    values["optim"]["muon_steps"] = 3
    assert TrainConfig.from_json(values) == DEBUG
    values["model"]["num_models"] = 2
    with pytest.raises(ValueError, match=r"num_models=2 needs version 0.2 of cs_basics"):
        TrainConfig.from_json(values)


def test_an_unknown_section_is_refused():
    with pytest.raises(ValueError, match="unknown settings in the configuration: modle"):
        TrainConfig.from_json(DEBUG.to_json() | {"modle": {}})


def test_an_integer_serves_as_a_float():
    assert TrainConfig.from_json(changed_json("optim", lr=1)).optim.lr == 1.0


def test_the_tinystories_presets_read_the_tokens_they_promise():
    tokens = {
        name: config.run.max_steps * config.data.batch_size * config.model.context_length
        for name, (_, config) in PRESETS.items()
        if name.startswith("tinystories")
    }
    assert tokens == {"tinystories-cpu": 40_960_000, "tinystories": 327_680_000}
