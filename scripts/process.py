"""Process settings that make training on a CPU faster. Import this module before torch."""

import ctypes
import os
import sys

# Rounds that a waiting OpenMP thread spins before it sleeps. The default is many times as long; it
# gains nothing and slows down other programs on a shared processor.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> None:
    """Make glibc keep large freed blocks instead of returning them to the kernel.

    Every training step allocates and frees the same hundreds of megabytes. By default glibc returns
    each large block to the kernel, and the next step takes a page fault for every 4 KiB of it. Does
    nothing with another C library.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _LARGEST_INT)
