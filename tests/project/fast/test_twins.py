"""Each fast twin computes what it replaces, and nothing else is ever exchanged.

More of the single twins: the other files here.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from conftest import ROOT
from torch import nn

from cs_basics import attention, bpe, generate, layers, norms, optim, tokenizer
from cs_basics.fast import accelerate, twins_of_the_model, twins_of_the_tokenizer
from cs_basics.functional import cross_entropy
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.run.model_config import ModelConfig
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.head_bias import BiasedLinear
from cs_basics.variants.model import BLOCKS, Transformer

ROPE = RotaryPositionalEmbedding(10_000.0, 8, 300)
FAST = ROOT / "cs_basics" / "fast"
SEQ = 150
"""More than a tile of flash attention."""
SIZES = {
    "vocab_size": 50, "context_length": 160, "d_model": 32, "num_layers": 2, "num_heads": 4,
    "d_ff": 48,
}  # fmt: skip


def numbers(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ids(*shape, vocab_size=50):
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(1))


@dataclass
class Case:
    """A class of the book or of variants/, its arguments, and what the module is called with."""

    kind: Any
    arguments: tuple[Any, ...]
    inputs: tuple[torch.Tensor, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, twin=lambda kind: kind):
        """Build the module, or its twin, with RoPE of the same sort."""
        rope = twin(type(ROPE))(10_000.0, 8, 300)
        arguments = [rope if value is ROPE else value for value in self.arguments]
        return twin(self.kind)(*arguments, **self.options)


def attention_case(kind, *arguments, **options):
    return Case(kind, arguments, (numbers(2, SEQ, 32),), options)


def at_positions(kind, *arguments, **options):
    inputs = numbers(2, 9, 32), torch.tensor([5, 3, 1, 4, 9, 20, 6, 5, 3]).expand(2, 9)
    return Case(kind, arguments, inputs, options)


CASES = {
    "Embedding": Case(layers.Embedding, (50, 8), (ids(4, 33),)),
    "SwiGLU": Case(layers.SwiGLU, (32, 48), (numbers(2, 9, 32),)),
    "RotaryPositionalEmbedding": Case(
        RotaryPositionalEmbedding, (100.0, 32, 300), (numbers(2, 4, 9, 32), torch.arange(290, 299))
    ),
    "CausalSelfAttention": attention_case(attention.CausalSelfAttention, 32, 4, ROPE),
    "CausalSelfAttention, no positions": attention_case(attention.CausalSelfAttention, 32, 4),
    "CausalSelfAttention, at positions": at_positions(attention.CausalSelfAttention, 32, 4, ROPE),
    **{
        f"GroupedQueryAttention, {heads=}, {qk_norm=}, {has_rope=}": attention_case(
            GroupedQueryAttention,
            *(32, 4, ROPE if has_rope else None),
            num_kv_heads=heads,
            qk_norm=qk_norm,
        )
        for heads, qk_norm, has_rope in itertools.product((1, 2, 4), (False, True), (False, True))
    },
    "GroupedQueryAttention, at positions": at_positions(
        GroupedQueryAttention, 32, 4, ROPE, num_kv_heads=2
    ),
    "GroupedQueryAttention, QK-norm, at positions": at_positions(
        GroupedQueryAttention, 32, 4, ROPE, num_kv_heads=2, qk_norm=True
    ),
    "Transformer": Case(Transformer, (ModelConfig(**SIZES),), (ids(2, SEQ),)),
}
TWINS = {**twins_of_the_model(), **twins_of_the_tokenizer()}
NOT_MODULES = {"AdamW", "Muon", "generate", "Tokenizer", "train_bpe"}


def with_gains(module):
    """Give norms gains other than 1, which would hide one that is left out."""
    for part in module.modules():
        if type(part).__name__.endswith(("Norm", "GainOnly")):
            for gain in part.parameters(recurse=False):
                nn.init.trunc_normal_(gain, mean=1.0, std=0.3)
        if isinstance(part, BiasedLinear):
            nn.init.trunc_normal_(part.bias, std=0.3)
    return module


def pair(build):
    """Return a module and its twin, with the same weights; `build` takes a function of classes."""
    torch.manual_seed(0)
    clear, fast = with_gains(build()), build(accelerate)
    assert list(fast.state_dict()) == list(clear.state_dict())
    fast.load_state_dict(clear.state_dict())
    return clear, fast


def pair_of_models(config):
    """Return a Transformer and its twin, with the same weights."""
    return pair(lambda twin=lambda kind: kind: twin(Transformer)(config))


def results(module, inputs):
    """Return the output, the gradients of parameters, and that of an input of numbers."""
    module.zero_grad()
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    output = module(*leaves)
    (output * numbers(*output.shape, seed=2)).sum().backward()
    return {
        "output": output.detach(),
        **{name: p.grad for name, p in module.named_parameters()},
        **({"input": leaves[0].grad} if leaves[0].grad is not None else {}),
    }


def assert_same(found, expected, tolerance):
    """Compare within a share of the largest value."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        limit = tolerance * float(value.abs().max())
        torch.testing.assert_close(found[name], value, rtol=0, atol=limit, msg=name)


def test_every_row_of_the_table_has_a_case_here():
    assert {name.partition(",")[0] for name in CASES} | NOT_MODULES == {
        clear.__name__ for clear in TWINS
    }


@pytest.mark.parametrize(("clear", "fast"), TWINS.items(), ids=lambda thing: thing.__name__)
def test_a_twin_replaces_one_thing_and_is_a_kind_of_it(clear, fast):
    assert accelerate(clear) is fast is not clear
    assert accelerate(fast) is fast
    if isinstance(clear, type):
        assert issubclass(fast, clear)


@pytest.mark.parametrize("name", CASES)
def test_a_twin_has_the_values_and_the_gradients_of_what_it_replaces(name):
    clear, fast = pair(CASES[name].build)
    assert type(fast) is accelerate(type(clear)) is not type(clear)
    expected = results(clear, CASES[name].inputs)
    assert_same(results(fast, CASES[name].inputs), expected, 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_in_mixed_precision_a_twin_is_as_near_to_the_truth_as_what_it_replaces(name):
    clear, fast = pair(CASES[name].build)
    truth = results(clear, CASES[name].inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        theirs, ours = (results(module, CASES[name].inputs) for module in (clear, fast))

    def error(found, name):
        return float((found[name] - truth[name]).norm() / (truth[name].norm() + 1e-9))

    for part in truth:
        assert ours[part].dtype == theirs[part].dtype
        # Each rounds elsewhere: of this gradient of QK-norm, 1.2 % and 0.6 % (PyTorch 2.6, 2.11).
        assert error(ours, part) < 2 * error(theirs, part) + 3e-3, part


MODELS = {
    **{f"{placement=}": {"placement": placement} for placement in BLOCKS},
    "llama's order": {"norm": "rmsnorm-llama"},
    "group norm": {"norm": "group-rmsnorm"},
    "GQA, tied": {"num_kv_heads": 2, "tie_embeddings": True},
    "gemma, gelu": {"norm": "rmsnorm-gemma", "ffn": "gelu"},
    "relu": {"ffn": "relu"},
    "relu squared": {"ffn": "relu-squared"},
    "heads of 12": {"num_heads": 3, "head_dim": 12, "num_kv_heads": 1},
    "QK-norm in llama's order, heads of 6": {
        "qk_norm": True, "head_dim": 6, "norm_eps": 0.1, "norm": "rmsnorm-llama",
    },
    "QK-norm, silu, no positions": {"qk_norm": True, "ffn": "silu", "positions": "none"},
    "value residual": {"value_residual": True, "num_layers": 3},
    "value residual, GQA, QK-norm": {"value_residual": True, "num_kv_heads": 2, "qk_norm": True},
    "bias of the head, tied": {"head_bias": True, "tie_embeddings": True},
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_whole_model_has_the_loss_and_the_gradients_of_the_reference(name):
    clear, fast = pair_of_models(ModelConfig(**(SIZES | MODELS[name])))
    assert type(fast) is accelerate(Transformer)
    found = []
    for model in (clear, fast):
        loss = cross_entropy(model(ids(2, SEQ)), ids(2, SEQ).roll(-1, 1))
        loss.backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        found.append({"loss": loss.detach(), **gradients})
    assert_same(found[1], found[0], 1e-5)


def test_a_model_says_as_ever_that_a_sequence_is_too_long():
    fast = accelerate(Transformer)(ModelConfig(**SIZES | {"context_length": 8}))
    for call in (fast, fast.hidden):
        with pytest.raises(ValueError, match="9 tokens is longer than context_length=8"):
            call(ids(1, 9))


def test_the_twin_of_generate_writes_the_same_text():
    model, fast = pair_of_models(ModelConfig(**SIZES | {"context_length": 16}))
    sampling = generate.Sampling(temperature=1.3, top_p=0.9)
    write = accelerate(generate.generate)
    assert write is not generate.generate
    expected = list(generate.generate(model, [1, 2], 30, sampling, seed=1))
    assert list(write(model, [1, 2], 30, sampling, seed=1)) == expected
    assert list(write(fast, [1, 2], 30, sampling, seed=1)) == expected


def test_the_twins_of_the_tokenizer_give_the_same_merges_and_ids(texts):
    specials = ["<|endoftext|>"]
    vocab, merges = bpe.train_bpe(texts[1], 300, specials)
    assert accelerate(bpe.train_bpe)(texts[1], 300, specials) == (vocab, merges)
    text = texts[0].read_text()[:5000]
    clear, fast = (
        kind(vocab, merges, specials)
        for kind in (tokenizer.Tokenizer, accelerate(tokenizer.Tokenizer))
    )
    assert list(fast.encode(text)) == list(clear.encode(text))
    assert fast.decode(clear.encode(text)) == text


def test_a_class_of_the_same_name_that_somebody_else_wrote_is_left_alone():
    def write_class():
        class SwiGLU(nn.Module):
            def forward(self, x):
                return 2 * x

        return SwiGLU

    theirs = write_class()
    impostor = write_class()
    impostor.__module__, impostor.__qualname__ = "cs_basics.layers", "SwiGLU"
    for kind in (theirs, impostor):
        assert accelerate(kind) is kind


def test_a_subclass_of_a_class_of_the_book_is_left_alone():
    class Own(layers.SwiGLU):
        def forward(self, x):
            return x

    assert accelerate(Own) is Own


@pytest.mark.parametrize(
    "unknown",
    [optim.SGD, optim.cosine_schedule, layers.Linear, norms.LayerNorm, cross_entropy, len, int, 3,
     None, "cs_basics.layers.SwiGLU"],
    ids=lambda thing: getattr(thing, "__name__", repr(thing)),
)  # fmt: skip
def test_what_is_not_in_the_table_is_returned_as_it_is(unknown):
    assert accelerate(unknown) is unknown


# The files of each row of the table in docs/performance.md, in the order of its cell "lines".
FILES = {
    "FlashAttention": ("attention.py", "flash_attention.py"),
    "attention_kernel.cpp": ("native/attention_kernel.cpp", "native/attention_kernel.py"),
    "triton_attention.py": ("triton_attention.py",),
    "FusedSwiGLU": ("layers.py",),
    "OrderedEmbedding": ("native/lookup.py",),
    "TabledRoPE": ("rope.py",),
    "FastTransformer": ("transformer.py", "chunked_loss.py", "loss.py"),
    "FusedAdamW": ("adamw.py",),
    "StackedMuon": ("muon.py",),
    "compile_training": ("training.py", "compilation.py"),
    "ahead_of_time.py": ("native/ahead_of_time.py", "native/ahead_of_time_compiler.py"),
    "cached.py": ("cached.py",),
    "generate_batch": ("decoding.py", "sampling.py"),
    "FastTokenizer": ("text/tokenizer.py", "text/blocks.py", "text/segments.py", "text/merging.py",
                      "text/pretoken_table.py", "text/boundaries.py", "text/token_bytes.py"),
    "train_bpe.train_bpe": ("text/train_bpe.py", "text/counting.py", "text/parallel.py"),
}  # fmt: skip


def test_the_documentation_says_what_each_twin_costs_in_lines():
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.count(" | ") == 4]
    for twin, files in FILES.items():
        (row,) = (cells for cells in rows if twin in cells[1])
        lines = [len((FAST / file).read_text(encoding="utf-8").splitlines()) for file in files]
        assert row[3] == " + ".join(f"{number:,}" for number in lines), twin
