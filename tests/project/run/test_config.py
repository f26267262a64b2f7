"""Configurations: rules with clear messages, and JSON that comes back the same."""

import dataclasses
import json
from pathlib import Path

import pytest

from cs_basics.run.config import PRESETS, TrainConfig

DEBUG = PRESETS["debug"][1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 100, "num_heads": 16}, "d_model=100 is not divisible by num_heads=16"),
        ({"d_model": 60, "num_heads": 4}, "heads of odd size 15"),
        ({"num_heads": 0}, "num_heads=0 must be greater than 0"),
        ({"vocab_size": 256}, "vocab_size=256 must be at least 257"),
        ({"max_steps": None}, "needs an end"),
        ({"max_minutes": -1.0}, "max_minutes=-1.0 must be greater than 0"),
        ({"lr": 0.0}, "lr=0.0 must be greater"),
        ({"lr": float("nan")}, "lr=nan must be greater"),
        ({"beta2": 1.0}, "beta2=1.0 must be at least 0 and below 1"),
        ({"train_text": Path("a.txt")}, "go together"),
    ],
)
def test_a_broken_rule_is_named_with_its_value(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(DEBUG, **changes)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_survives_json(name):
    config = dataclasses.replace(PRESETS[name][1], run_dir=Path("x/y"))
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_modle": 64}, "unknown settings in the configuration: d_modle"),
        ({"d_model": "64"}, 'd_model="64" is not'),
        ({"d_model": 64.5}, "d_model=64.5 is not"),
        ({"compile": 1}, "compile=1 is not"),
        ({"device": "tpu"}, 'device="tpu" is not'),
        ({"lr": None}, "lr=null is not"),
        ({"run_dir": 3}, "run_dir=3 is not"),
    ],
)
def test_json_of_another_kind_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_json(DEBUG.to_json() | changes)


def test_an_integer_serves_as_a_float():
    assert TrainConfig.from_json(DEBUG.to_json() | {"lr": 1}).lr == 1.0


def test_the_tinystories_presets_read_the_tokens_they_promise():
    tokens = {
        name: config.max_steps * config.batch_size * config.context_length
        for name, (_, config) in PRESETS.items()
        if name.startswith("tinystories")
    }
    assert tokens == {"tinystories-cpu": 40_960_000, "tinystories": 327_680_000}
