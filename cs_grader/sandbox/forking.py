"""How processes fork: a submission's however it asks to start them, and all with little work.

A fresh interpreter would be another program, which the sandbox does not start (confine.py): no
operator is blocked in it. A process that is forked can do all that one that is spawned can.
"""

import ctypes
import multiprocessing
import multiprocessing.context
import multiprocessing.resource_tracker
import sys
from pathlib import Path


def fork_only() -> None:
    """Make multiprocessing fork where it is asked to spawn, in this process and those below."""
    context = multiprocessing.context
    contexts = context._concrete_contexts  # pyright: ignore
    for name in ("spawn", "forkserver"):
        contexts[name] = contexts["fork"]
    # Not by set_start_method, which may be called only once.
    context._default_context._default_context = contexts["fork"]  # pyright: ignore
    # No resource tracker, which is another program: the sandbox clears away what is left behind.
    tracker = multiprocessing.resource_tracker
    tracker.register = tracker.unregister = _nothing
    tracker.ensure_running = _nothing


def _nothing(*_: object) -> None:
    pass


MAPS = Path("/proc/self/maps")
HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25  # Linux 6.1; an older kernel refuses it, and nothing changes.


def use_huge_pages() -> None:
    """Ask the kernel for huge pages where the heap is, if it has any to give."""
    if not sys.platform.startswith("linux") or not MAPS.exists():
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in MAPS.read_text(encoding="utf-8").splitlines():
        addresses, permissions, _, _, _, *name = line.split()
        if permissions.startswith("rw") and name in ([], ["[heap]"]):
            start, end = (int(address, 16) for address in addresses.split("-"))
            first, last = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
            if first < last:
                madvise(first, last - first, MADV_COLLAPSE)
