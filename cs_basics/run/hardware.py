"""Hardware: device, fastest dtype and peak memory."""

import functools
import sys
import time
from pathlib import Path

import torch


def resolve_device(choice: str) -> torch.device:
    """Return the device to train on.

    Args:
        choice: "auto", "cpu", "cuda" or "mps".

    Raises:
        ValueError: The device is not available.
    """
    is_present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if choice == "auto":
        return torch.device(next(name for name, present in is_present.items() if present))
    if not is_present[choice]:
        raise ValueError(
            f"device={choice}: this machine (or this build of torch) has none; use auto"
        )
    return torch.device(choice)


def resolve_dtype(choice: str, device: torch.device) -> torch.dtype:
    """Return the dtype of the matrix products; "auto" measures which one is faster here.

    It is measured because processors differ: some have bfloat16 units, others emulate bfloat16 at a
    hundredth of the speed of float32.
    """
    if choice != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[choice]
    if device.type == "mps":
        return torch.float32
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(False) else torch.float32
    # Small products first: large ones in an emulated bfloat16 take 17 seconds.
    for size, least_gain in ((256, 0.5), (1024, 1.2)):
        if bfloat16_gain(device, size) < least_gain:
            return torch.float32
    return torch.bfloat16


@functools.cache
def bfloat16_gain(device: torch.device, size: int) -> float:
    """Measure how many times as fast matrix products are in bfloat16 as in float32.

    The two types take turns, so that other work on the machine slows both: when one was measured
    after the other, a busy tenth of a second decided a whole run. A process measures each size
    once.
    """
    wide = torch.randn(size, size, device=device)
    narrow = wide.bfloat16()
    wide_s, narrow_s = zip(*((_product_s(wide), _product_s(narrow)) for _ in range(9)), strict=True)
    return min(wide_s) / min(narrow_s)


@functools.cache
def matmul_rate(dtype: torch.dtype, device: torch.device) -> float | None:
    """Measure 1024 x 1024 matrix products: floating-point operations per second, best of six.

    None on MPS, where the measurement would not wait for a product to end. A process measures each
    type once.
    """
    if device.type == "mps":
        return None
    a = torch.randn(1024, 1024, device=device).to(dtype)
    return 2 * 1024**3 / min(_product_s(a) for _ in range(6))


def _product_s(a: torch.Tensor) -> float:
    """Return how many seconds the product of a matrix with itself takes."""
    start = time.perf_counter()
    torch.mm(a, a)
    if a.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def forget_peak_memory(device: torch.device) -> None:
    """Reset the peak of the memory, since compiling takes more than training a small model."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        # Linux: sets the peak of this process (VmHWM) to its current memory; see proc(5).
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_mb(device: torch.device) -> float | None:
    """Return the peak memory in MB: of the GPU if the device is one, else of this process.

    None if the operating system does not report it.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage, whose peak includes that of the parent process.
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        peak = fields.get("VmHWM")  # Some kernels of containers leave it out.
        return None if peak is None else int(peak.split()[0]) * 1024 / 1e6
    try:
        import resource  # Not on Windows.
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
