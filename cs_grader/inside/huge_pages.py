"""Puts a process's memory in huge pages before it forks.

A fork copies one entry for each page, and when the process ends each is removed again. With PyTorch
imported there are some 50,000 entries for pages of 4 kB, or a few hundred for pages of 2 MB.
"""

import ctypes
import sys
from pathlib import Path

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
