"""The suites: one thing changed at a time, nothing trained twice."""

from typing import get_args

import pytest

from cs_basics.settings.model import FeedForwardKind
from cs_basics.settings.presets import PRESETS
from cs_basics.study.ablation import SUITES, variants_of
from cs_basics.variants.model import Transformer

BASE = PRESETS["stories"][1]
SINGLE = [suite for suite in SUITES if suite != "all"]


@pytest.mark.parametrize("suite", SINGLE)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_suite_holds_its_base_once_and_no_variant_twice(suite, preset):
    base = PRESETS[preset][1]
    configs = list(variants_of(suite, base).values())
    if suite in ("norms", "placement"):  # Only pre-norm blocks have value residual.
        base = base.replace(value_residual=False)
    assert configs.count(base) == 1
    assert len(set(configs)) == len(configs) > 1


def test_a_name_means_the_same_in_every_suite():
    # Names are folders: suites that share a folder must not share a name for different runs.
    meanings = {}
    for suite in SINGLE:
        for name, config in variants_of(suite, BASE).items():
            assert meanings.setdefault(name, config) == config, name
            assert name.replace("-", "").replace(".", "").isalnum(), name


def test_variants_of_all_suites_can_be_built():
    for config in variants_of("all", BASE).values():
        Transformer(config.replace(num_layers=1).model, "meta")


def test_feed_forward_variants_have_nearly_the_same_number_of_weights():
    sizes = {
        name: sum(p.numel() for p in Transformer(config.model, "meta").parameters())
        for name, config in variants_of("ffn", BASE).items()
    }
    assert set(get_args(FeedForwardKind)) == set(sizes)
    assert sizes == pytest.approx(dict.fromkeys(sizes, sizes["swiglu"]), rel=0.01)


def test_batch_sizes_read_as_many_sequences_and_warm_up_over_as_many():
    base = BASE.replace(max_steps=200)
    size = base.data.batch_size
    for name, config in variants_of("batch", base).items():
        optim, ratio = config.optim, config.data.batch_size / size
        read = config.run.max_steps * config.data.batch_size
        assert read == pytest.approx(200 * size, abs=config.data.batch_size), name
        assert optim.warmup_steps * ratio == pytest.approx(base.optim.warmup_steps, rel=0.05), name
        rate = base.optim.lr if name.endswith("same-lr") else base.optim.lr * ratio**0.5
        assert optim.lr == pytest.approx(rate), name
    assert all(config.run.max_steps is None for config in variants_of("batch", BASE).values())
