"""What a question may cost on one's own machine, where no sandbox sets limits.

A list that doubles fills any memory and a loop may never end. So a question is stopped where it
needs more than is left here; the grader's sandbox has limits of its own. Time is CPU time: whoever
stands in a debugger or waits for another process uses none of it. Systems without such limits
(Windows), and memory where there is a GPU, whose driver maps far more than it uses, go unguarded.
"""

import importlib.util
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

MOST_GIB = 8
"""Memory that a question may need on top of what the process holds."""
MOST_SECONDS = 120.0
"""CPU time of one question."""
MOST_SECONDS_OF_PROBLEM = 600.0
"""CPU time of all questions of a problem; then the rest of it is not asked."""

OUT_OF_MEMORY = f"the examination stops a question that needs more than {MOST_GIB} GiB of memory"
OUT_OF_TIME = (
    f"the examination stops a question after {MOST_SECONDS:.0f} s of CPU time, and a problem after"
    f" {MOST_SECONDS_OF_PROBLEM:.0f} s"
)


class OutOfTimeError(BaseException):
    """A question took too long. Not an Exception: many catch those and go on."""


@contextmanager
def guarded(seconds: float) -> Iterator[None]:
    """Stop what runs inside when it needs too much memory, or more than so much CPU time.

    Raises:
        OutOfTimeError: In the code inside, wherever that is.
        MemoryError: Likewise; PyTorch has a RuntimeError instead.
    """
    with limited_memory(), limited_time(seconds):
        yield


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "setitimer") or not is_main:
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1.0)  # Again each second, if it is caught.
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def limited_memory() -> Iterator[None]:
    held = data_bytes()
    if held is None or importlib.util.find_spec("resource") is None or has_gpu():
        yield
        return
    import resource

    before = _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [held + int(MOST_GIB * 2**30), *(n for n in before if n != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def data_bytes() -> int | None:
    """Private memory of this process, written to or not; None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")]
    return found[0] if found else None


def has_gpu() -> bool:
    # Not imported for this: the trusted side of a grader has no torch, but a stand-in.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and cuda.is_available()


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)
