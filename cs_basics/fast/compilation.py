"""torch.compile with a fallback, and the folder in which our own compiled code is cached."""

import functools
import getpass
import logging
import os
import platform
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger(__name__)


@functools.cache
def reason_not_to_compile(device: torch.device) -> str | None:
    """Try torch.compile on a small function; return the error as one line, or None.

    torch.compile needs a C++ compiler (CPU) or Triton (GPU), and without this trial a missing one
    would be noticed only at the first batch.
    """
    if device.type == "cpu" and (reason := path_that_stops_the_compiler()):
        return reason
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about its internals
            torch.compile(_small_function)(torch.ones(8, device=device))
    except Exception as error:
        return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return None


def path_that_stops_the_compiler() -> str | None:
    """Say which path keeps torch's C++ compiler from working, and the way out; None: none does."""
    cache, way_out = compiled_code_folder(), "set TORCHINDUCTOR_CACHE_DIR to another folder"
    for path, mend in (
        (Path(torch.__file__).parent, "move .venv to another"),
        # Of the compiler's own files some lie there, whatever folder the cache has.
        (Path(tempfile.gettempdir()), "set TMPDIR to another folder"),
        (cache.parent, way_out),
    ):
        if re.search(r"\s", str(path)):
            return f"its compiler fails in a path with a blank, as {path}: {mend}"
    there = next(path for path in (cache, *cache.parents) if path.exists())
    if hasattr(os, "ST_NOEXEC") and os.statvfs(there).f_flag & os.ST_NOEXEC:
        return f"programs may not run in {there} (noexec): {way_out}"
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
    """Return the compiled function; if it cannot be compiled, warn and return the function.

    Args:
        function: The function to compile.
        device: Device of its tensors.
        options: Options of torch.compile.
        is_dynamic: Compile once for tensors of any size, instead of once for each size.
    """
    if (reason := reason_not_to_compile(device)) is None:
        return torch.compile(function, dynamic=is_dynamic, options=options)
    _warn_once(reason)
    return function


@functools.cache
def _warn_once(reason: str) -> None:
    """Warn of what keeps loss and optimizer, each by itself, from being compiled."""
    logger.warning("torch.compile does not work here, so the run is not compiled: %s", reason)


def compiled_code_folder() -> Path:
    """Return the folder of our own compiled code, inside the cache folder of torch.compile."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # In a container a user may have only a number.
        user = str(os.getuid())
    of_torch = Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    return Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or of_torch) / "cs_basics"


@functools.cache
def processor() -> str:
    """Return the instruction sets of the processor; compiled code is valid for equal ones only."""
    information = Path("/proc/cpuinfo")  # Linux
    lines = information.read_text().splitlines() if information.exists() else []
    # x86 has flags, ARM has Features.
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), "") or (
        f"{platform.machine()} {platform.processor()} {torch.backends.cpu.get_cpu_capability()}"
    )
