"""Which line of a submission does something: the innermost one on the stack."""

import functools
import sys
from pathlib import Path
from types import FrameType

HERE = str(Path(__file__).parent)
PROBES = "/probes"


def calling_place(frame: FrameType | None = None) -> tuple[str, int]:
    """Find the innermost line that belongs to no library and not to the grader.

    Args:
        frame: Where to begin; None: at the caller.

    Returns:
        File and line; "" and 0 if there is no such line.
    """
    frame = frame or sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def is_own(file: str) -> bool:
    """Whether a file belongs to a submission, by its name."""
    if "site-packages" in file or file.startswith(("<", *_libraries())):
        return False
    folder = file.rpartition("/")[0]
    return folder != HERE and not folder.endswith(PROBES)


def is_made(file: str) -> bool:
    """Whether this is not a file but the name of code made from a text, which may be anybody's."""
    return file.startswith("<") and not file.startswith("<frozen")


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Where Python's own library is, and PyTorch, which may lie in a checkout of its own."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in ("os", "torch"))
    return tuple(f"{Path(file).parent}/" for file in files if file)
