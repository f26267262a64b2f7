"""Clocks for comparisons, and the machine that they were read on."""

import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence

import torch


def machine() -> str:
    """Describe what the figures were measured on."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        + (f"{torch.cuda.get_device_name()}, " if torch.cuda.is_available() else "")
        + f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def seconds_of(function: Callable[[], object], device: torch.device | None = None) -> float:
    """Call a function and return the seconds it took.

    Args:
        function: What to measure.
        device: Where it works. A CUDA device is timed by its own events, since the call returns
            before the work is done.
    """
    if device is not None and device.type == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        begin.record()
        function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternating_times(
    functions: Sequence[Callable[[], object]],
    rounds: int,
    *,
    device: torch.device | None = None,
) -> list[float]:
    """Return the median seconds of each function, called in turn so that all share the noise.

    Each turn has an order of its own: a function that always came after the same one would always
    find the caches as that one leaves them.

    Args:
        functions: What to measure; each is called once before, which does not count.
        rounds: Turns that count; an odd number makes the median one of them.
        device: Where they work.
    """
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    order = random.Random(0)
    for _ in range(rounds):
        for index in order.sample(range(len(functions)), len(functions)):
            times[index].append(seconds_of(functions[index], device))
    return [statistics.median(elapsed) for elapsed in times]
