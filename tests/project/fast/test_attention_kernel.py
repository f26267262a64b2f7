"""The C++ kernel of attention rotates and attends as the definitions do, on any processor."""

from pathlib import Path

import pytest
import torch
from attention_checks import definition, results
from processes import python
from small_models import batch_of, fast_twin, loss_and_gradients, small_model

from cs_basics.fast.attention import rotate_half_split
from cs_basics.fast.loss import loss_function
from cs_basics.fast.native import attention_kernel
from cs_basics.fast.native.attention_kernel import rotated_causal_attention, use_kernel
from cs_basics.fast.rope import TabledRoPE
from cs_basics.variants.model import Transformer

pytestmark = [
    pytest.mark.compile,
    pytest.mark.needs("g++"),
    pytest.mark.filterwarnings("ignore"),  # torch's own, about its internals
]

# What the kernel is written for beside this processor; the narrower registers are another code.
OTHER_PROCESSORS = ["-mno-avx512bf16", "-mno-avx512f", "-mno-avx"]
SHAPES = [
    # batch, positions, heads, heads of keys, size of a head
    pytest.param(2, 64, 2, 2, 32, id="a-whole-tile"),
    pytest.param(1, 1, 2, 1, 64, id="one-position"),
    pytest.param(3, 63, 3, 1, 32, id="one-head-of-keys"),
    pytest.param(1, 257, 4, 2, 96, id="one-position-more-than-tiles"),
    pytest.param(1, 130, 1, 1, 256, id="large-head"),
]


@pytest.fixture(autouse=True)
def _loaded():
    assert attention_kernel.load_kernel()


def case(batch, seq, heads, kv_heads, d_head, dtype=torch.float32, scale=1.0):
    torch.manual_seed(0)
    qkv = scale * torch.randn(batch, seq, (heads + 2 * kv_heads) * d_head)
    grad = torch.randn(batch, seq, heads * d_head)
    return qkv.to(dtype), grad.to(dtype)


def kernel(heads, kv_heads, rope=None):
    angles = (None, None) if rope is None else (rope.cos, rope.sin)
    return lambda qkv: rotated_causal_attention(qkv, *angles, heads, kv_heads)


def plain(heads, kv_heads, d_head, rope=None):
    def attend(qkv):
        parts = qkv.split([heads * d_head, kv_heads * d_head, kv_heads * d_head], dim=-1)
        q, k, v = (part.unflatten(-1, (-1, d_head)).transpose(1, 2) for part in parts)
        q, k = rotate_half_split(q, k, rope, None)
        k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
        return definition(q, k, v).transpose(1, 2).flatten(2)

    return attend


def distance(one, other):
    return ((one.double() - other).norm() / other.norm()).item()


@pytest.mark.parametrize("has_rope", [False, True])
@pytest.mark.parametrize(("batch", "seq", "heads", "kv_heads", "d_head"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_output_and_gradients_are_as_near_to_the_truth_as_those_of_the_definition(
    batch, seq, heads, kv_heads, d_head, has_rope, dtype
):
    qkv, grad = case(batch, seq, heads, kv_heads, d_head, dtype)
    rope = TabledRoPE(10_000.0, d_head, 300) if has_rope else None
    clear = plain(heads, kv_heads, d_head, rope)
    truth, theirs = results(clear, [qkv, grad], dtype=torch.float64), results(clear, [qkv, grad])
    ours = results(kernel(heads, kv_heads, rope), [qkv, grad])
    for one, other, true in zip(ours, theirs, truth, strict=True):
        assert one.dtype == dtype
        allowed = 1e-6 if dtype == torch.float32 else 1.05 * distance(other, true) + 1e-3
        assert distance(one, true) < allowed


def test_scores_that_move_the_highest_from_tile_to_tile_are_corrected_for():
    qkv, grad = case(1, 300, 2, 2, 32, scale=8.0)
    # Far keys match best: what was summed first has to shrink to nothing.
    qkv *= torch.linspace(2, 0.5, 300).unsqueeze(-1)
    ours = results(kernel(2, 2), [qkv, grad])
    truth = results(plain(2, 2, 32), [qkv, grad], dtype=torch.float64)
    for one, true in zip(ours, truth, strict=True):
        assert distance(one, true) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("without", OTHER_PROCESSORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_processors_without_such_instructions_get_the_same(monkeypatch, without, dtype):
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip(f"{torch.backends.cpu.get_cpu_capability()}: this processor is another one")
    rope = TabledRoPE(10_000.0, 32, 300)
    qkv, grad = case(2, 100, 4, 2, 32, dtype)
    here = results(kernel(4, 2, rope), [qkv, grad])
    monkeypatch.setattr(attention_kernel, "_kernel", attention_kernel.compiled_kernel(without))
    there = results(kernel(4, 2, rope), [qkv, grad])
    tolerance = 1e-6 if dtype == torch.float32 else 5e-3
    for one, another in zip(here, there, strict=True):
        assert distance(one, another.double()) < tolerance


def test_what_is_not_a_number_reaches_those_that_see_it_and_nobody_else():
    qkv, grad = case(1, 150, 2, 2, 32)
    qkv[:, 70, 64:96] = float("nan")  # a key of the first head
    output, _ = results(kernel(2, 2), [qkv, grad])
    is_number = output.isfinite()
    assert is_number[:, :70].all()
    assert not is_number[:, 70:, :32].any()
    assert is_number[:, :, 32:].all()


def test_any_number_of_threads_gives_the_same_bits():
    qkv, grad = case(3, 200, 3, 3, 64)
    rope = TabledRoPE(10_000.0, 64, 300)
    num_threads = torch.get_num_threads()
    found = []
    for number in (1, 2, 5):
        torch.set_num_threads(number)
        found.append(results(kernel(3, 3, rope), [qkv, grad]))
    torch.set_num_threads(num_threads)
    for other in found[1:]:
        assert all(torch.equal(*pair) for pair in zip(found[0], other, strict=True))


@pytest.mark.parametrize("strided", ["qkv", "grad"])
def test_tensors_with_other_strides_are_read_as_they_are(strided):
    qkv, grad = case(2, 70, 2, 2, 32)
    straight = results(kernel(2, 2), [qkv, grad])
    if strided == "qkv":
        qkv = qkv.transpose(0, 1).contiguous().transpose(0, 1)
    else:
        grad = grad.transpose(1, 2).contiguous().transpose(1, 2)
    for one, other in zip(straight, results(kernel(2, 2), [qkv, grad]), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"num_kv_heads": 1}, True),
        ({"positions": "none"}, True),
        ({"d_model": 512}, True),  # heads of 256
        ({"qk_norm": True}, False),
        ({"num_heads": 4}, False),  # heads of 16
        ({"d_model": 96}, False),  # heads of 48
        ({"d_model": 576}, False),  # heads of 288
    ],
)
def test_it_is_used_where_it_can_be(change, expected):
    model = fast_model(**change)
    assert use_kernel(model) is expected
    assert (model.layers[0].attn.kernel is rotated_causal_attention) is expected
    assert not use_kernel(fast_model(**change).double())
    assert not use_kernel(Transformer(model.config))


@pytest.mark.parametrize(
    ("width", "dtype", "positions", "heads", "message"),
    [
        (96, torch.float64, 9, (1, 1), "float64: the kernel is for bfloat16 and float32"),
        (48, torch.float32, 9, (1, 1), "heads of 32, 64, ... 256"),
        (32 * 7, torch.float32, 9, (3, 2), "3 heads of queries and 2 of keys"),
        (96, torch.float32, 4, (1, 1), r"cos of shape \(4, 16\) has no angles for 5 positions"),
        (192, torch.float32, 9, (1, 1), r"no angles for 5 positions and heads of 64"),
    ],
)
def test_what_it_would_read_out_of_bounds_is_refused(width, dtype, positions, heads, message):
    angles = (torch.zeros(positions, 16), torch.zeros(positions, 16))
    with pytest.raises(ValueError, match=message):
        rotated_causal_attention(torch.zeros(1, 5, width, dtype=dtype), *angles, *heads)


def fast_model(**change):
    return fast_twin(small_model(**{"d_model": 64, "num_heads": 2, "num_layers": 1} | change))


@pytest.mark.parametrize(
    ("dtype", "change"),
    [
        (torch.float32, {"positions": "none"}),
        (torch.bfloat16, {"value_residual": True, "num_layers": 3, "num_kv_heads": 2}),
    ],
    ids=str,
)
def test_a_model_keeps_its_loss_and_gradients_also_compiled(dtype, change):
    torch._dynamo.reset()  # It gives up after a few models.
    model, batch = fast_model(**change), batch_of(3, 100)
    loss_of = loss_function(model, dtype, num_positions=300)
    expected = loss_and_gradients(model, batch, loss_of)
    assert use_kernel(model)
    compiled = torch.compile(loss_of, backend="aot_eager", fullgraph=True)
    for function in (loss_of, compiled):
        found = loss_and_gradients(model, batch, function)
        for name, value in expected.items():
            assert distance(found[name], value.double()) < (
                1e-5 if dtype == torch.float32 else 0.03
            )


def test_where_it_does_not_compile_a_warning_says_so_and_the_plain_form_remains(
    monkeypatch, caplog, tmp_path
):
    broken = tmp_path / "kernel.cpp"
    broken.write_text("this is no C++")
    monkeypatch.setattr(attention_kernel, "SOURCE", broken)
    monkeypatch.setattr(attention_kernel, "_kernel", None)
    model = fast_model()
    assert not use_kernel(model)
    assert "the C++ kernel of attention is not used" in caplog.text
    assert model.layers[0].attn.kernel is None


def test_a_damaged_library_is_not_kept(monkeypatch, caplog, tmp_path):
    # Of the same name in another folder: what is loaded already is never read again.
    library = tmp_path / "cs_basics" / Path(attention_kernel._kernel._name).name
    library.parent.mkdir()
    library.write_bytes(b"no library")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(attention_kernel, "_kernel", None)
    assert not attention_kernel.load_kernel()
    assert "the C++ kernel of attention is not used" in caplog.text
    assert not library.exists()


def test_what_was_compiled_before_is_loaded_without_a_compiler():
    program = (
        "import sys, torch\n"
        "from cs_basics.fast.native import attention_kernel\n"
        "assert attention_kernel.load_kernel()\n"
        "qkv = torch.randn(1, 5, 96, requires_grad=True)\n"
        "attention_kernel.rotated_causal_attention(qkv, None, None, 1, 1).sum().backward()\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    assert python("-c", program, check=True).stdout == "False\n"


def test_a_model_that_was_compiled_with_it_says_so_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(attention_kernel, "load_kernel", lambda: False)
    with pytest.raises(RuntimeError, match="which cannot be loaded now"):
        results(kernel(2, 2), case(1, 5, 2, 2, 32))
