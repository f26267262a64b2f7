"""What is said of normalisation layers, measured: kernels, passes over memory, training, eps."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.optim import AdamW
from cs_basics.run.config import TrainConfig
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.hardware import resolve_dtype
from cs_basics.run.presets import PRESETS
from cs_basics.transformer import TransformerLM
from cs_basics.variants.config import NormKind
from cs_basics.variants.model import build_model

from .measuring import Row, alternating_times, compare
from .models import ours, random_batch, training_step
from .norm_contenders import EPS

NUM_ROWS, D_MODEL = 256, 512
"""Kernels and passes do not depend on the size."""


def measure_claims(device: torch.device, can_compile: bool) -> list[Row]:
    """Count kernels and passes, time training steps, and compare both places of eps."""
    print("measuring kernels and passes over memory", file=sys.stderr)
    rows = measure_kernels(device, can_compile)
    print("measuring training steps with RMSNorm and LayerNorm", file=sys.stderr)
    preset = PRESETS["stories"][1]
    return rows + measure_training(preset, device, can_compile) + measure_eps(preset)


class Traffic(TorchDispatchMode):
    """Count the operations that run below autograd and the bytes that they read and write.

    Views cost nothing and are left out; an axis that is only repeated counts once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_kernels = 0
        self.num_bytes = 0

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (as in the base class)
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.num_kernels += 1
            tensors = [leaf for leaf in tree_leaves((args, result)) if isinstance(leaf, Tensor)]
            self.num_bytes += sum(map(distinct_bytes, tensors))
        return result


def distinct_bytes(tensor: Tensor) -> int:
    """Return the size of a tensor, axes that only repeat its numbers left out."""
    num_bytes = tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        num_bytes *= size if stride else 1
    return num_bytes


def traffic(function: Callable[[], object]) -> Traffic:
    """Run an eager function and return what it did."""
    with Traffic() as counted:
        function()
    return counted


def num_kernels_run(function: Callable[[], object], device: torch.device) -> int:
    """Run a compiled function under the profiler and return how many fused kernels it called."""
    function()
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    with profile(activities=activities) as profiled:
        function()
    events = profiled.events() or []
    if on_gpu:
        return sum(event.device_type.name == "CUDA" for event in events)
    return sum("cpp_fused" in event.name for event in events)


def measure_kernels(device: torch.device, can_compile: bool) -> list[Row]:
    """Kernels and bytes of a norm, one operation at a time and compiled."""
    x = torch.randn(NUM_ROWS, D_MODEL, device=device, requires_grad=True)
    gradient = torch.randn_like(x)
    modules: dict[str, nn.Module] = {
        "RMSNorm": RMSNorm(D_MODEL, EPS, device),
        "LayerNorm": LayerNorm(D_MODEL, EPS, device),
        "torch.nn.RMSNorm": nn.RMSNorm(D_MODEL, EPS, device=device),  # noqa: TID251 (a peer)
        "torch.nn.LayerNorm": nn.LayerNorm(D_MODEL, EPS, device=device),  # noqa: TID251 (a peer)
    }
    rows: list[Row] = []
    for name, module in modules.items():
        parameters = list(module.parameters())

        def both(norm: Callable[..., Tensor], parameters: list[nn.Parameter] = parameters) -> None:
            torch.autograd.grad(norm(x), [x, *parameters], gradient)

        def forward(norm: Callable[..., Tensor]) -> None:
            norm(x)

        is_ours = name in {"RMSNorm", "LayerNorm"}
        compiled = compile_with_names(module, device) if can_compile and is_ours else None
        for direction, run in (("forward", forward), ("forward + backward", both)):
            counted = traffic(lambda run=run, module=module: run(module))
            num_fused = None
            if compiled is not None:
                num_fused = num_kernels_run(lambda run=run, f=compiled: run(f), device)
            rows += [
                Row(f"{name}, {direction}: operations, eager (peer: kernels, compiled)",
                    counted.num_kernels, "", num_fused),
                Row(f"{name}, {direction}: reads and writes of x's size, eager",
                    counted.num_bytes / x.nbytes, "passes"),
            ]  # fmt: skip
    return rows


def compile_with_names(module: nn.Module, device: torch.device) -> Callable[..., Tensor]:
    """Compile a module such that the profiler sees its kernels on a CPU too."""
    options: dict[str, str | int | bool | Callable[..., Any]] = {}
    if device.type == "cpu":
        options["cpp.enable_kernel_profile"] = True
    return torch.compile(module, fullgraph=True, options=options)


def measure_training(preset: TrainConfig, device: torch.device, can_compile: bool) -> list[Row]:
    """Steps of the stories preset with RMSNorm and with LayerNorm, in turn."""
    torch.compiler.reset()
    dtype = resolve_dtype("auto", device)
    batch = random_batch(preset, device)
    steps: list[Callable[[], object]] = []
    kinds: tuple[NormKind, ...] = ("rmsnorm", "layernorm")
    for kind in kinds:
        torch.manual_seed(0)
        model = build_model(preset.replace(norm=kind).model, device)
        loss_of = make_loss_function(model, dtype)
        if can_compile:
            loss_of = torch.compile(loss_of, dynamic=False)
        steps.append(training_step(model, AdamW(model.parameters()), loss_of, batch))
    rmsnorm_s, layernorm_s = alternating_times(steps, rounds=11, device=device)
    how = "compiled" if can_compile else "eager"
    name = f"training step, stories preset, {how}: RMSNorm (peer: LayerNorm)"
    return [compare(name, rmsnorm_s * 1000, layernorm_s * 1000, "ms")]


def measure_eps(config: TrainConfig) -> list[Row]:
    """What eps does inside the root and outside, on rows of a given size and in a model."""
    rows: list[Row] = []
    for rms in (1.0, 0.1, 0.01, 0.001):
        x = torch.full((1, D_MODEL), rms)
        inside = RMSNorm(D_MODEL, EPS)(x).square().mean().sqrt().item()
        name = f"RMS of the output where that of x is {rms}: eps inside (peer: outside)"
        rows.append(compare(name, inside, eps_outside(x, EPS).square().mean().sqrt().item(), ""))
    model = ours(config.model)
    inputs, targets = random_batch(config)
    seen: list[float] = []
    with torch.no_grad():
        loss_of = make_loss_function(model, torch.float32)
        inside_loss = loss_of(inputs, targets).item()
        move_eps_outside(model, seen)
        outside_loss = loss_of(inputs, targets).item()
    return [
        *rows,
        Row("smallest RMS that a norm of a fresh stories model meets", min(seen), ""),
        compare("  its loss: eps inside (peer: outside)", inside_loss, outside_loss, "nats"),
    ]


def eps_outside(x: Tensor, eps: float) -> Tensor:
    """Return x / (RMS(x) + eps), the other form that circulates."""
    return x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)


def move_eps_outside(model: TransformerLM, seen: list[float]) -> None:
    """Replace what every RMSNorm returns, and note the smallest RMS that each meets."""

    def replace(norm: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:  # noqa: ARG001
        (x,) = inputs
        seen.append(x.square().mean(dim=-1).sqrt().min().item())
        assert isinstance(norm, RMSNorm)
        return eps_outside(x, norm.eps) * norm.weight

    for module in model.modules():
        if isinstance(module, RMSNorm):
            module.register_forward_hook(replace)
