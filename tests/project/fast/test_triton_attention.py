"""The attention kernels, on a GPU or else in Triton's interpreter, against the definition.

The interpreter has to be chosen before the kernels are defined. So it runs in a process of its
own, which this file, run as a script, is the program of.
"""

import os
import subprocess
import sys
from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from cs_basics.fast import flash_attention
from cs_basics.fast.flash_attention import flash_causal_attention, runs_on_triton
from cs_basics.functional import scaled_dot_product_attention

needs_triton = pytest.mark.skipif(not flash_attention.HAS_TRITON, reason="Triton is not installed")
SHARED_MEMORY = 99 * 1024  # What the GPUs of a laptop have for a program.
ROUNDINGS = 4  # Of operands, weights, gradients of scores and the result, each by half an eps.


def random(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def case(shape, dtype, scale=1.0):
    """Return queries, keys, values and a gradient of the output."""
    return [(scale * random(*shape, seed=seed)).to(dtype) for seed in range(4)]


def definition(q, k, v):
    is_visible = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
    return scaled_dot_product_attention(q, k, v, is_visible)


def results(function, tensors, device="cpu", dtype=None):
    """Return the output and the gradients of queries, keys and values."""
    *inputs, grad = (x.to(device, dtype or x.dtype) for x in tensors)
    leaves = [x.requires_grad_() for x in inputs]
    output = function(*leaves)
    return [x.detach().cpu() for x in (output, *torch.autograd.grad(output, leaves, grad))]


def check_agreement(device, shape, dtype=torch.float32, scale=1.0):
    tensors = case(shape, dtype, scale)
    tolerance = max(ROUNDINGS * torch.finfo(dtype).eps / 2, 3e-6 * scale**2)
    names = ("output", "grad_q", "grad_k", "grad_v")
    ours = results(flash_causal_attention, tensors, device)
    exact = results(definition, tensors, dtype=torch.float64)
    for name, one, other in zip(names, ours, exact, strict=True):
        assert one.dtype == dtype
        assert one.shape == other.shape
        if other.numel():
            # NaN is not within the limit either. A gradient of one position is zero.
            error, limit = (one - other).abs().max(), tolerance * max(other.abs().max(), 1.0)
            assert error <= limit, f"{name} {shape} {dtype} {scale}: {error} is over {limit}"


def check_everything(device):
    """Run the kernels through sizes, types and extremes: a block has 64 or 128 rows."""
    for shape in ((1, 1, 16), (1, 64, 16), (2, 129, 16), (5, 16), (2, 1, 2, 5, 16), (0, 5, 16)):
        check_agreement(device, shape)
    for d_head in (1, 24, 64):
        check_agreement(device, (1, 70, d_head))
    check_agreement(device, (1, 130, 24), torch.bfloat16)
    check_agreement(device, (1, 130, 64), torch.float16)
    # The highest score moves from step to step by more than exp can follow.
    check_agreement(device, (1, 100, 32), scale=8.0)
    check_extremes(device)
    check_that_heads_are_apart(device)
    check_views(device)


def check_extremes(device):
    """Demand that scores of +-10,000 do not overflow: their softmax is a choice of one key."""
    signs = random(64, 16, seed=0).sign()
    q, v = 50.0 * signs, random(64, 16, seed=1)  # No other row is the same: each sees itself.
    scores = q.double() @ q.double().T / 4
    assert scores.max() == 10_000
    assert scores.min() < -6_000
    ours = results(flash_causal_attention, [q, q, v, torch.ones_like(v)], device)
    torch.testing.assert_close(ours[0], v)
    for grad in ours[1:3]:
        torch.testing.assert_close(grad, torch.zeros_like(grad), rtol=0, atol=1e-3)
    torch.testing.assert_close(ours[3], torch.ones_like(v))


def check_that_heads_are_apart(device):
    """Demand that a head does not read the next one, where its last block goes beyond its end."""
    tensors = case((3, 70, 16), torch.float32)
    alone = results(flash_causal_attention, [x[1:2] for x in tensors], device)
    for x in tensors:
        x[::2] = torch.nan
    among = results(flash_causal_attention, tensors, device)
    assert all(torch.equal(x[1:2], y) for x, y in zip(among, alone, strict=True))


def check_views(device):
    """Demand the same bits of heads that lie side by side in memory, as a projection makes them."""
    tensors = case((1, 70, 2, 16), torch.float32)
    views = [x.transpose(1, 2) for x in tensors]
    copies = [x.contiguous() for x in views]
    ours = [results(flash_causal_attention, inputs, device) for inputs in (views, copies)]
    assert all(map(torch.equal, *ours))


@needs_triton
def test_the_kernels_agree_with_the_definition_in_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "kernels launched: 51\n"


@needs_triton
@pytest.mark.filterwarnings("ignore")  # Triton's own.
@pytest.mark.parametrize(
    ("dtype", "d_head"), [("bf16", 128), pytest.param("fp32", 24, marks=pytest.mark.slow)]
)
def test_the_kernels_compile_for_a_gpu_that_is_not_there(monkeypatch, tmp_path, dtype, d_head):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from cs_basics.fast import triton_attention

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = {
        triton_attention.forward_kernel: 1,
        triton_attention.query_gradient_kernel: 1,
        triton_attention.key_value_gradient_kernel: 2,
    }
    for kernel, num_sums in kernels.items():
        options = triton_attention.launch_options(d_head, 2 if dtype == "bf16" else 4, num_sums)
        values = {**options, "d_head": d_head, "scale": d_head**-0.5}
        types, constants, attributes = {}, {}, {}
        for parameter in kernel.params:
            name = parameter.name
            if parameter.is_constexpr:
                types[name], constants[name] = "constexpr", values[name]
            elif name.endswith("pointer"):
                types[name] = "*fp32" if name.startswith(("log2", "delta")) else f"*{dtype}"
                # As PyTorch allocates: it decides whether rows are fetched ahead, and where to.
                attributes[parameter.num,] = [["tt.divisibility", 16]]
            else:
                # The only number of a call, and no float: PyTorch 2.11's compiler passes those as
                # float64, in which a product with float32 then is, and the kernel does not compile.
                assert name == "seq_len"
                types[name] = "i32"
        compiled = triton_attention.triton.compile(
            ASTSource(kernel, types, constants, attributes),
            target=GPUTarget("cuda", 90, 32),
            options={name: options[name] for name in ("num_warps", "num_stages")},
        )
        assert compiled.asm["cubin"]
        assert "tf32" not in compiled.asm["ptx"]
        assert compiled.metadata.shared <= SHARED_MEMORY


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@needs_triton
def test_the_kernels_agree_with_the_definition_on_a_gpu():
    check_everything("cuda")
    for d_head in (128, 200, 256):
        for name in ("float32", "bfloat16", "float16"):
            check_agreement("cuda", (2, 300, d_head), getattr(torch, name))


def test_the_kernels_get_what_they_can_compute():
    def on_gpu(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype, device="cuda")

    # Tensors without numbers may lie on a device that is not there.
    with FakeTensorMode():
        q = on_gpu(2, 8, 64)
        assert runs_on_triton(q, q, q) == flash_attention.HAS_TRITON
        assert not runs_on_triton(q, q, on_gpu(2, 8, 32))
        assert not runs_on_triton(q, q, on_gpu(1, 8, 64))
        for other in (
            on_gpu(2, 8, 64, dtype=torch.float64),
            on_gpu(2, 8, 257),
            torch.empty(2, 8, 64),
        ):
            assert not runs_on_triton(other, other, other)
        assert not runs_on_triton(q, q, on_gpu(2, 8, 64, dtype=torch.float32))


def multiply_bfloat16(create_dot):
    """Return the interpreter's product, with bfloat16 widened: it would multiply their bits."""

    def product(self, a, b, *others):
        return create_dot(self, widen(a), widen(b), *others)

    def widen(factor):
        if factor.data.dtype != "uint16":
            return factor
        return type(factor)((factor.data.astype("uint32") << 16).view("float32"), tl.float32)

    return product


if __name__ == "__main__":
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder

    from cs_basics.fast import triton_attention

    InterpreterBuilder.create_dot = multiply_bfloat16(InterpreterBuilder.create_dot)
    flash_attention.runs_on_triton = lambda q, *_: q.dtype != torch.float64
    with mock.patch.object(triton_attention, "launch", wraps=triton_attention.launch) as launch:
        check_everything("cpu")
    print(f"kernels launched: {launch.call_count}")
