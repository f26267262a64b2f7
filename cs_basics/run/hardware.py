"""What this machine has, asked rather than assumed."""

import functools
import getpass
import logging
import os
import platform
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger(__name__)


def resolve_device(choice: str) -> torch.device:
    """Return the device to train on.

    Args:
        choice: "auto", "cpu", "cuda" or "mps".

    Raises:
        ValueError: It is not there.
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
    """Return the type of the matrix products: "auto" measures which one is faster here.

    Processors differ too much for a list: some have bfloat16 units, some only imitate them, at a
    tenth of the speed of float32.
    """
    if choice != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[choice]
    if device.type == "mps":
        return torch.float32
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(False) else torch.float32
    is_faster = matmul_rate(torch.bfloat16, device) > 1.2 * matmul_rate(torch.float32, device)
    return torch.bfloat16 if is_faster else torch.float32


def matmul_rate(dtype: torch.dtype, device: torch.device, size: int = 1024) -> float:
    """Measure size x size matrix products: floating-point operations per second, best of five."""
    a = torch.randn(size, size, device=device).to(dtype)
    elapsed_s: list[float] = []
    for _ in range(6):
        start = time.perf_counter()
        torch.mm(a, a)
        if device.type == "cuda":
            torch.cuda.synchronize()
        elapsed_s.append(time.perf_counter() - start)
    return 2 * size**3 / min(elapsed_s[1:])


@functools.cache
def reason_not_to_compile(device: torch.device) -> str | None:
    """Compile and run one small function; return what went wrong in one line, or None.

    torch.compile needs a C++ compiler (on a CPU) or Triton (on a GPU), and finds out only when the
    first batch arrives.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about its internals
            torch.compile(_small_function)(torch.ones(8, device=device))
    except Exception as error:
        return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return None


def _small_function(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def compile_if_possible(
    function: Callable[P, R],
    device: torch.device,
    options: dict[str, Any] | None = None,
    *,
    is_dynamic: bool = False,
) -> Callable[P, R]:
    """Return the compiled function, or the function itself and a warning that says why.

    Args:
        function: What to compile.
        device: Where its tensors live.
        options: Settings of the compiler that differ from its own choice.
        is_dynamic: Once for tensors of any size, instead of once for each.
    """
    if (reason := reason_not_to_compile(device)) is None:
        return torch.compile(function, dynamic=is_dynamic, options=options)
    logger.warning("torch.compile does not work here, so the run is not compiled: %s", reason)
    return function


def compiled_code_folder() -> Path:
    """Return where our own compiled code is kept: beside what torch compiles."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # In a container a user may have only a number.
        user = str(os.getuid())
    of_torch = Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    return Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or of_torch) / "cs_basics"


@functools.cache
def processor() -> str:
    """Return what tells processors apart that cannot run each other's code."""
    information = Path("/proc/cpuinfo")  # Linux
    lines = information.read_text().splitlines() if information.exists() else []
    # x86 has flags, ARM has Features.
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), "") or (
        f"{platform.machine()} {platform.processor()} {torch.backends.cpu.get_cpu_capability()}"
    )


def forget_peak_memory(device: torch.device) -> None:
    """Begin to measure the peak anew: compiling takes more memory than training a small model."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        # Linux: sets the peak of this process (VmHWM) to what it holds now; see proc(5).
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_mb(device: torch.device) -> float:
    """Return the most memory held, in MB: of this process, or on a GPU of the GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: its peak begins with that of the process that started this one.
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
