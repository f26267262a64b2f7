"""Configurations: rules with clear messages, and JSON that comes back the same."""

import json
import math
from pathlib import Path

import pytest

from cs_basics.settings.presets import PRESETS
from cs_basics.settings.run import SECTION_OF, TrainConfig

DEBUG = PRESETS["debug"][1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 60, "num_heads": 4}, "heads of odd size 15"),
        ({"vocab_size": 256}, "vocab_size=256 must be at least 257"),
        ({"max_steps": None}, "needs an end"),
        ({"lr": float("nan")}, "lr=nan must be greater"),
        ({"beta2": 1.0}, "beta2=1.0 must be at least 0 and below 1"),
        ({"seed": 2**63}, f"seed={2**63} must be at most {2**63 - 1}"),
        ({"lr": math.inf}, "lr=inf must be finite"),
        ({"corpus_megabytes": 1e303}, "must be at most 1000000"),
        ({"weight_decay": math.inf}, "weight_decay=inf must be finite"),
        ({"grad_accum_steps": 0}, "grad_accum_steps=0 must be greater than 0"),
        ({"num_samples": -1}, "num_samples=-1 must be 0 or greater"),
        ({"train_text": Path("a.txt")}, "go together"),
        ({"positions": "none", "rope_theta": 5e5}, "rope_theta=500000.0 has no effect with posi"),
    ],
)
def test_a_broken_rule_is_named_with_its_value(changes, message):
    with pytest.raises(ValueError, match=message):
        DEBUG.replace(**changes)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_survives_json_in_which_an_integer_serves_as_a_float(name):
    config = PRESETS[name][1].replace(run_dir=Path("x/y"), lr=1.0)
    assert config.settings().keys() == SECTION_OF.keys()
    values = json.loads(json.dumps(config.to_json()))
    values["optim"]["lr"] = 1
    assert TrainConfig.from_json(values) == config


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("model", {"d_modle": 64}, "unknown settings d_modle"),
        ("modle", {}, "unknown settings modle"),
        ("run", {"activation_checkpointing": True}, "unknown settings activation_checkpointing"),
        ("model", {"d_model": "64"}, 'd_model="64" is not'),
        ("model", {"qk_norm": 1}, "qk_norm=1 is not"),
        ("run", {"device": "tpu"}, 'device="tpu" is not'),
        ("optim", {"lr": None}, "lr=null is not"),
        ("run", {"run_dir": 3}, "run_dir=3 is not"),
    ],
)
def test_json_of_another_kind_is_refused(section, changes, message):
    values = DEBUG.to_json()
    values[section] = values.get(section, {}) | changes
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_json(values)


def test_a_choice_that_an_older_configuration_does_not_name_is_the_books():
    values = DEBUG.to_json()
    for name in ("head_dim", "qk_norm", "head_bias", "value_residual"):
        del values["model"][name]
    del values["optim"]["optimizer"]
    values["run"]["activation_checkpointing"] = False  # It has left.
    assert TrainConfig.from_json(values) == DEBUG
