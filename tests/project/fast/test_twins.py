"""Each fast twin computes what it replaces, and nothing else is ever exchanged.

More of the single twins: the other files here.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from processes import ROOT, python
from small_models import FORMS, assert_same, batch_of, fast_twin, loss_and_gradients, small_model
from torch import nn

from cs_basics import attention, layers, optim, tokenizer
from cs_basics.fast import accelerate, twins_of_the_model, twins_of_the_tokenizer
from cs_basics.functional import cross_entropy
from cs_basics.rope import RotaryPositionalEmbedding
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.model import Transformer

ROPE = RotaryPositionalEmbedding(10_000.0, 8, 300)
SEQ = 150
"""More than a tile of flash attention."""


def numbers(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


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


LONG = (numbers(2, SEQ, 32),)
AT_POSITIONS = numbers(2, 9, 32), torch.tensor([5, 3, 1, 4, 9, 20, 6, 5, 3]).expand(2, 9)
CASES = {
    "Embedding": Case(layers.Embedding, (50, 8), batch_of(4, 33)[:1]),
    "SwiGLU": Case(layers.SwiGLU, (32, 48), (numbers(2, 9, 32),)),
    "RotaryPositionalEmbedding": Case(
        RotaryPositionalEmbedding, (100.0, 32, 300), (numbers(2, 4, 9, 32), torch.arange(290, 299))
    ),
    "CausalSelfAttention": Case(attention.CausalSelfAttention, (32, 4, ROPE), LONG),
    "CausalSelfAttention, at positions": Case(
        attention.CausalSelfAttention, (32, 4, ROPE), AT_POSITIONS
    ),
    "GroupedQueryAttention": Case(GroupedQueryAttention, (32, 4), LONG, {"num_kv_heads": 1}),
    "GroupedQueryAttention, QK-norm": Case(
        GroupedQueryAttention, (32, 4, ROPE), LONG, {"num_kv_heads": 2, "qk_norm": True}
    ),
    "GroupedQueryAttention, QK-norm, at positions": Case(
        GroupedQueryAttention, (32, 4, ROPE), AT_POSITIONS, {"num_kv_heads": 2, "qk_norm": True}
    ),
}
TWINS = {**twins_of_the_model(), **twins_of_the_tokenizer()}
# Compared in test_optimizers.py, test_decoding.py and text/.
IN_OTHER_FILES = {"AdamW", "Muon", "generate", "Tokenizer", "train_bpe"}


def pair(case):
    """Return a module with random gains and its twin, with the same weights."""
    torch.manual_seed(0)
    clear, fast = case.build(), case.build(accelerate)
    for parameter in clear.parameters():
        if parameter.ndim == 1:
            nn.init.trunc_normal_(parameter, mean=1.0, std=0.3)
    assert list(fast.state_dict()) == list(clear.state_dict())
    fast.load_state_dict(clear.state_dict())
    return clear, fast


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


@pytest.mark.parametrize(("clear", "fast"), TWINS.items(), ids=lambda thing: thing.__name__)
def test_a_twin_replaces_one_thing_is_a_kind_of_it_and_is_compared_with_it(clear, fast):
    assert accelerate(clear) is fast is not clear
    assert accelerate(fast) is fast
    if isinstance(clear, type):
        assert issubclass(fast, clear)
    compared = {name.partition(",")[0] for name in CASES} | IN_OTHER_FILES
    assert clear is Transformer or clear.__name__ in compared


@pytest.mark.parametrize("name", CASES)
def test_a_twin_has_the_values_and_the_gradients_of_what_it_replaces(name):
    clear, fast = pair(CASES[name])
    assert type(fast) is accelerate(type(clear)) is not type(clear)
    assert_same(results(fast, CASES[name].inputs), results(clear, CASES[name].inputs))


@pytest.mark.parametrize("name", CASES)
def test_in_mixed_precision_a_twin_is_as_near_to_the_truth_as_what_it_replaces(name):
    clear, fast = pair(CASES[name])
    truth = results(clear, CASES[name].inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        theirs, ours = (results(module, CASES[name].inputs) for module in (clear, fast))

    def error(found, name):
        return float((found[name] - truth[name]).norm() / (truth[name].norm() + 1e-9))

    for part in truth:
        assert ours[part].dtype == theirs[part].dtype
        # Each rounds elsewhere: of this gradient of QK-norm, 1.2 % and 0.6 % (PyTorch 2.6, 2.11).
        assert error(ours, part) < 2 * error(theirs, part) + 3e-3, part


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_model_has_the_loss_and_the_gradients_of_the_reference(form):
    clear, batch = small_model(**FORMS[form]), batch_of(2, SEQ)
    fast = fast_twin(clear)
    assert type(fast) is accelerate(Transformer)
    assert_same(loss_and_gradients(fast, batch), loss_and_gradients(clear, batch))


def test_a_model_says_as_ever_that_a_sequence_is_too_long():
    fast = fast_twin(small_model(context_length=8))
    for call in (fast, fast.hidden):
        with pytest.raises(ValueError, match="9 tokens is longer than context_length=8"):
            call(batch_of(1, 9)[0])


def impostor():
    class SwiGLU(nn.Module):
        pass

    SwiGLU.__module__, SwiGLU.__qualname__ = "cs_basics.layers", "SwiGLU"
    return SwiGLU


@pytest.mark.parametrize(
    "unknown",
    [optim.SGD, layers.Linear, cross_entropy, len, 3, None, "cs_basics.layers.SwiGLU",
     impostor(), type("Tokenizer", (), {"__module__": "cs_basics.tokenizer"}),
     type("Own", (layers.SwiGLU,), {}), type("Student", (tokenizer.Tokenizer,), {})],
    ids=lambda thing: getattr(thing, "__name__", repr(thing)),
)  # fmt: skip
def test_what_is_not_in_the_table_is_returned_as_it_is(unknown):
    assert accelerate(unknown) is unknown


def test_the_twins_of_text_need_no_torch():
    code = """
import sys
from cs_basics.fast import accelerate
assert "numpy" not in sys.modules
from cs_basics.bpe import train_bpe
from cs_basics.tokenizer import Tokenizer
accelerate(Tokenizer), accelerate(train_bpe)
import cs_basics.run.encoding, cs_basics.run.tokenizer_folder
assert "torch" not in sys.modules
"""
    environment = {"PYTHONPATH": str(ROOT)}
    python("-c", code, check=True, env=environment)
