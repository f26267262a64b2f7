"""Accounting: against the real parameter count, PyTorch's FLOP counter, and what a step keeps."""

import dataclasses
import shlex
import weakref

import pytest
import torch
from small_models import FORMS
from torch.utils.flop_counter import FlopCounterMode

from cs_basics.fast.cached import DecodingLM, KVCache
from cs_basics.functional import cross_entropy
from cs_basics.run.speed import flops_per_token
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.presets import PRESETS
from cs_basics.study import accounting
from cs_basics.study.accounting import total
from cs_basics.variants.model import Transformer

PLAIN = ModelConfig(
    vocab_size=96, context_length=24, d_model=32, num_layers=3, num_heads=4, d_ff=80
)


@pytest.fixture(params=FORMS.values(), ids=FORMS.keys())
def config(request):
    """A small model of each variant."""
    return dataclasses.replace(PLAIN, **request.param)


def test_each_part_has_the_parameters_of_its_modules(config):
    words = {
        "token embeddings": ("token_embeddings",),
        "attention": ("proj", "value_scales"),
        "feed-forward": ("ffn",),
        "norms": ("ln", "norm"),
        "output head": ("lm_head",),
    }
    real = dict.fromkeys(words, 0)
    for name, parameter in Transformer(config, "meta").named_parameters():
        part = next(part for part, marks in words.items() if any(mark in name for mark in marks))
        real[part] += parameter.numel()
    assert accounting.parameters(config) == real


@pytest.mark.parametrize("seq_len", [None, 1, 7])
def test_forward_flops_are_those_that_pytorch_counts(config, seq_len):
    model = Transformer(config)
    ids = torch.zeros(1, seq_len or config.context_length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(ids)
    assert total(accounting.forward_flops(config, seq_len)) == counter.get_total_flops()


@pytest.mark.parametrize("batch_size", [1, 3])
def test_training_flops_are_those_that_pytorch_counts(batch_size):
    model = Transformer(PLAIN)
    ids = torch.zeros(batch_size, PLAIN.context_length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        cross_entropy(model(ids), ids).backward()
    assert total(accounting.training_flops(PLAIN, batch_size)) == counter.get_total_flops()
    assert flops_per_token(model, PLAIN) * ids.numel() == counter.get_total_flops()


@pytest.mark.parametrize("position", [0, 5, 23])
def test_generation_flops_are_those_that_pytorch_counts(position):
    model = DecodingLM(Transformer(PLAIN))
    # What an earlier position has left there does not matter for the count.
    tensors, place = model.empty_caches(1, position + 1), torch.tensor([[position]])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        caches = [KVCache(*each, place) for each in tensors]
        model.lm_head(model.hidden(torch.zeros(1, 1, dtype=torch.long), caches))
    assert total(accounting.generation_flops(PLAIN, position)) == counter.get_total_flops()


class Kept:
    """A tensor that autograd keeps, for as long as it does."""

    def __init__(self, tensor):
        self.tensor = tensor


def bytes_kept(config, batch_size):
    """Bytes of all storages that a forward pass keeps for the backward, parameters aside."""
    model = Transformer(config)
    ids = torch.zeros(batch_size, config.context_length, dtype=torch.long)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    alive = weakref.WeakSet()

    def keep(tensor):
        kept = Kept(tensor.detach())
        alive.add(kept)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept.tensor):
        loss = cross_entropy(model(ids), ids)
    storages = {
        kept.tensor.untyped_storage().data_ptr(): kept.tensor.untyped_storage().nbytes()
        for kept in alive
        if kept.tensor.is_floating_point()
    }
    assert loss.requires_grad  # Alive until here, and with it all that it keeps.
    return sum(size for start, size in storages.items() if start not in weights)


def test_activations_are_what_autograd_keeps(config):
    config = dataclasses.replace(config, vocab_size=512, context_length=48, d_model=64, d_ff=176)
    memory = accounting.training_memory(config, batch_size=3)
    counted = sum(size for part, size in memory.items() if part.startswith("activations"))
    held = memory["weights"] + memory["gradients"] + memory["optimizer state"]
    assert held == 16 * total(accounting.parameters(config)), "four numbers per parameter"
    # The gradients of the loss's arrays come later.
    counted -= memory["activations: logits and loss"] // 2
    # What is left out: one number per position and norm, or per position and head.
    kept = bytes_kept(config, 3)
    assert 0.98 * kept < counted < kept


def test_inference_memory_holds_the_cache_that_generation_makes(config):
    caches = DecodingLM(Transformer(config)).empty_caches(1, config.context_length)
    real = sum(keys.nbytes + values.nbytes for keys, values in caches)
    assert accounting.inference_memory(config)["KV cache"] == real


GPT2_XL_FLAGS = shlex.split("""
    stories --vocab-size 50257 --context-length 1024 --num-layers 48 --d-model 1600 --num-heads 25
    --d-ff 4288
""")


def test_script_says_the_published_cost_of_a_model_of_given_sizes(succeeds):
    finished = succeeds("account", *GPT2_XL_FLAGS, "--peak-tflops", "989", "--tokens", "1000000000")
    assert "1,640,452,800" in finished.out
    assert "3,516.8 GFLOP" in finished.out
    assert "1,000,000,000 tokens take 7h 14m" in finished.out


def test_script_starts_from_a_preset(succeeds):
    finished = succeeds("account", "stories", "--num-layers", "1", "--tie-embeddings")
    model = PRESETS["stories"][1].replace(num_layers=1, tie_embeddings=True).model
    assert f"{total(accounting.parameters(model)):,}" in finished.out
    model = PRESETS["own-text"][1].replace(tie_embeddings=False).model
    for flag in ("--no-tie-embeddings", "--no_tie_embeddings"):
        finished = succeeds("account", "own-text", flag)
        assert f"{total(accounting.parameters(model)):,}" in finished.out
