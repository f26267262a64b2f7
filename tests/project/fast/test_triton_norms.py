"""The Triton kernels, on a GPU or else in Triton's interpreter, against the reference.

The interpreter has to be chosen before the kernels are defined. So it runs in a process of its
own, which this file, run as a script, is the program of.
"""

import importlib
import os
import subprocess
import sys
from unittest import mock

import pytest
import torch

from cs_basics.fast import rms_norm
from cs_basics.norms import RMSNorm
from cs_basics.variants.norms import LlamaRMSNorm
from lab.norms.add_rms_norm import add_rms_norm, add_rms_norm_unrounded
from lab.norms.rms_norm import FusedLlamaRMSNorm, FusedRMSNorm

needs_triton = pytest.mark.skipif(not rms_norm.HAS_TRITON, reason="Triton is not installed")
KINDS = {RMSNorm: FusedRMSNorm, LlamaRMSNorm: FusedLlamaRMSNorm}
LOW = ["float16", "bfloat16", "float32"]


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check_agreement(device, dtype, leading, d_model, *, adds, clear=RMSNorm):
    """Compare results and gradients of the kernels with those of RMSNorm in float64."""
    inputs = [random(*leading, d_model, seed=i).to(dtype) for i in range(1 + adds)]
    gain = (0.5 + random(d_model, seed=7).abs()).to(dtype)
    cotangents = [random(*leading, d_model, seed=8 + i).to(dtype) for i in range(1 + adds)]
    answers = []
    for kind, to in ((KINDS[clear], dtype), (clear, torch.float64)):
        norm = kind(d_model, device=device, dtype=to)
        norm.weight.data.copy_(gain)
        leaves = [x.to(device, to).requires_grad_() for x in inputs]
        results = add_rms_norm(norm, *leaves) if adds else (norm(*leaves),)
        backward = [g.to(device, to) for g in cotangents]
        gradients = torch.autograd.grad(results, [*leaves, norm.weight], backward)
        answers.append([*results, *gradients])
    # Two roundings in the order of Llama, one more in a sum that is rounded before its norm.
    tolerance = max(3 * torch.finfo(dtype).eps / 2, 2e-6)
    for ours, exact in zip(*answers, strict=True):
        assert ours.dtype == dtype
        limit = tolerance * exact.detach().abs().max() if exact.numel() else 0.0
        torch.testing.assert_close(ours.double(), exact, rtol=0, atol=float(limit))


def check_everything(device):
    """Run the kernels through types, shapes and extremes."""
    for name in LOW:
        for adds in (False, True):
            for clear in KINDS:
                check_agreement(device, getattr(torch, name), (2, 3), 20, adds=adds, clear=clear)
    shapes = [((), 8), ((1,), 1), ((7,), 64), ((0, 2), 8), ((2, 1, 2), 33), ((2,), 8200)]
    for leading, d_model in shapes:
        check_agreement(device, torch.float32, leading, d_model, adds=True)
    check_extremes(device)
    check_roundings(device)


def check_extremes(device):
    """Demand that squares up to 1e36 do not overflow and that zero stays zero."""
    norm = FusedRMSNorm(8, device=device)
    large = torch.full((2, 8), 1e18, dtype=torch.bfloat16)
    assert torch.equal(norm(large.to(device)).cpu(), torch.ones_like(large))
    zero = torch.zeros(2, 8, device=device, requires_grad=True)
    y = norm(zero)
    (grad,) = torch.autograd.grad(y.sum(), zero)
    assert not y.any()
    torch.testing.assert_close(grad.cpu(), torch.full((2, 8), 1e5**0.5))
    not_contiguous = random(8, 3).to(device).T
    torch.testing.assert_close(norm(not_contiguous), RMSNorm(8, device=device)(not_contiguous))


def check_roundings(device):
    """Demand the order of casts, which tolerances cannot see: most bits are those of RMSNorm.

    In float16, since the interpreter cuts the digits off that bfloat16 does not hold.
    """
    x, residual = (random(4, 200, seed=i).half().to(device) for i in range(2))
    for kinds in KINDS.items():
        clear, kernel = (kind(200, device=device, dtype=torch.float16) for kind in kinds)
        for norm in (clear, kernel):
            norm.weight.data.copy_(0.5 + random(200, seed=7).abs())
        normalised, new_residual = add_rms_norm(kernel, x, residual)
        assert torch.equal(new_residual, x + residual)
        assert (normalised == clear(new_residual)).float().mean() > 0.99
        unrounded, same_residual = add_rms_norm_unrounded(kernel, x, residual)
        assert torch.equal(same_residual, new_residual)
        exact = clear(x.float() + residual.float()).half()
        assert 0.6 < (normalised == exact).float().mean() < 0.95
        if not isinstance(clear, LlamaRMSNorm):  # which casts to the type of the sum, float32
            assert (unrounded == exact).float().mean() > 0.99


@needs_triton
def test_the_kernels_agree_with_the_reference_in_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "kernels launched: forward 25, backward 19\n"


@needs_triton
@pytest.mark.filterwarnings("ignore")  # Triton's own.
def test_the_kernels_compile_for_a_gpu_that_is_not_there(monkeypatch, tmp_path):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from lab.norms import triton_norms

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    hopper = GPUTarget("cuda", 90, 32)
    for kernel in (triton_norms.forward_kernel, triton_norms.backward_kernel):
        types, constants = {}, {}
        for parameter in kernel.params:
            name = parameter.name
            if parameter.is_constexpr:
                types[name], constants[name] = "constexpr", 1024 if name == "block" else True
            elif name.endswith("pointer"):
                types[name] = "*fp32" if name.startswith(("root", "partial")) else "*bf16"
            else:
                types[name] = "i32" if name in ("d_model", "num_rows") else "fp32"
        compiled = triton_norms.triton.compile(ASTSource(kernel, types, constants), target=hopper)
        assert compiled.asm["cubin"]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@needs_triton
def test_the_kernels_agree_with_the_reference_on_a_gpu():
    check_everything("cuda")


def test_without_a_gpu_and_for_float64_no_kernel_is_asked():
    assert not rms_norm.runs_on_triton(torch.ones(2, 8))
    if torch.cuda.is_available():
        assert rms_norm.runs_on_triton(torch.ones(2, 8, device="cuda"))
        assert not rms_norm.runs_on_triton(torch.ones(2, 8, device="cuda").double())


if __name__ == "__main__":
    from lab.norms import triton_norms

    for module in (rms_norm, importlib.import_module("lab.norms.add_rms_norm")):
        module.runs_on_triton = lambda x: x.dtype != torch.float64
    with (
        mock.patch.object(triton_norms, "forward", wraps=triton_norms.forward) as forward,
        mock.patch.object(triton_norms, "backward", wraps=triton_norms.backward) as backward,
    ):
        check_everything("cpu")
    print(f"kernels launched: forward {forward.call_count}, backward {backward.call_count}")
