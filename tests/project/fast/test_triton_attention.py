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
from attention_checks import definition, results
from torch._subclasses.fake_tensor import FakeTensorMode

from cs_basics.fast.attention import HAS_TRITON, runs_on_triton

needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
SHARED_MEMORY = 99 * 1024  # What the GPUs of a laptop have for a program.
ROUNDINGS = 4  # Of operands, weights, gradients of scores and the result, each by half an eps.


def by_kernels(q, k, v):
    from cs_basics.fast.triton_attention import TritonCausalAttention

    return TritonCausalAttention.apply(q, k, v)


def case(shape, dtype=torch.float32, scale=1.0):
    """Return queries, keys, values and a gradient of the output, none of them contiguous."""
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(4, *shape, generator=generator).mT.contiguous().mT
    return (scale * parts).to(dtype).unbind()


def check_agreement(shape, dtype=torch.float32, scale=1.0, device="cpu"):
    tensors = case(shape, dtype, scale)
    wide = torch.promote_types(dtype, torch.float32)
    tolerance = max(ROUNDINGS * torch.finfo(dtype).eps / 2, 25 * torch.finfo(wide).eps * scale**2)
    names = ("output", "grad_q", "grad_k", "grad_v")
    ours = results(by_kernels, tensors, device)
    exact = results(definition, tensors, dtype=torch.float64)
    for name, one, other in zip(names, ours, exact, strict=True):
        assert one.dtype == dtype
        assert one.shape == other.shape
        if other.numel():
            # NaN is not within the limit either. A gradient of one position is zero.
            error, limit = (one - other).abs().max(), tolerance * max(other.abs().max(), 1.0)
            assert error <= limit, f"{name} {shape} {dtype} {scale}: {error} is over {limit}"


def check_that_heads_are_apart(device="cpu"):
    """Demand that a head does not read the next one, where its last block goes beyond its end."""
    tensors = case((3, 70, 16))
    alone = results(by_kernels, [x[1:2] for x in tensors], device)
    for x in tensors:
        x[::2] = torch.nan
    among = results(by_kernels, tensors, device)
    assert all(torch.equal(x[1:2], y) for x, y in zip(among, alone, strict=True))


def check_everything(device="cpu"):
    """Run the kernels through sizes, types and extremes: a block has 64 or 128 rows."""
    for shape in ((1, 1, 16), (1, 64, 16), (2, 129, 16), (5, 16), (2, 1, 2, 5, 16), (0, 5, 16)):
        check_agreement(shape, device=device)
    for d_head in (1, 24, 64):
        check_agreement((1, 70, d_head), device=device)
    check_agreement((1, 130, 24), torch.bfloat16, device=device)
    check_agreement((1, 130, 64), torch.float16, device=device)
    # The highest score moves from step to step by more than exp can follow.
    check_agreement((1, 100, 32), scale=8.0, device=device)
    check_that_heads_are_apart(device)


@needs_triton
def test_the_kernels_agree_with_the_definition_in_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "kernels launched: 42\n"


@needs_triton
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Triton's own.
@pytest.mark.parametrize(("dtype", "d_head"), [("bf16", 128), ("fp32", 24)])
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
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            check_agreement((2, 300, d_head), dtype, device="cuda")


def test_the_kernels_get_what_they_can_compute():
    def on_gpu(*shape, dtype=torch.bfloat16):
        return torch.empty(shape, dtype=dtype, device="cuda")

    # Tensors without numbers may lie on a device that is not there.
    with FakeTensorMode():
        q = on_gpu(2, 8, 64)
        assert runs_on_triton(q, q, q) == HAS_TRITON
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
    with mock.patch.object(triton_attention, "launch", wraps=triton_attention.launch) as launch:
        check_everything()
    print(f"kernels launched: {launch.call_count}")
