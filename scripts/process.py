"""Settings of this process that make training on a CPU faster. Import it before torch."""

import ctypes
import os
import sys

# A thread that has to wait spins this many rounds before it sleeps. The default, many times as
# long, gains nothing, and takes the processor from other programs just when it is shared.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> None:
    """Tell glibc to keep the large blocks that are freed, instead of giving them back.

    A training step allocates and frees the same hundreds of megabytes over and over. By default
    glibc gives each large block back to the kernel, and the next step then takes a page fault for
    every 4 KiB of it. Does nothing where the C library is another one.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _LARGEST_INT)


def pack_weights() -> None:
    """Let what is compiled from now on keep weights in the layout in which products read them.

    A product of few rows takes as long as reading the weight, and a library first puts it into
    another order, at every call. As constants they are put into it once, when a step is compiled:
    so only for weights that no longer change. They are held twice.
    """
    from torch._inductor import config

    config.freezing = True
