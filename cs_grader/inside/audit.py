"""Which code runs that the source of a submission does not show; and code that is not run at all.

    listen(folders, tell)   # in a host, before the submission is imported

Python itself reports what happens in it to a hook (PEP 578). A hook cannot be removed, and to find
the object one needs what the hook reports. It

- refuses other programs, in which no operator is blocked, and compiled code from the folders that
  a submission can write to;
- tells of Python code that is no file of the submission's as it was handed in (made while it runs,
  or kept in a file of another kind), and of reaching into other code.

Programs that are started past Python's own functions are refused by the kernel (confine.py).
What remains unseen: a library in C that loads a compiled file by itself, once somebody has written
one, and the objects that frames and closures lead to.
"""

import errno
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from cs_grader.inside.places import calling_place, is_own

Tell = Callable[[str, str, int], None]
"""Is given what was done, and file and line of who did it."""

PROGRAMS = (
    *("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"),
    "os.startfile",
)
# What changes or finds code and objects that somebody else has made. It tells of the submission's
# own lines only: libraries have reasons. Not sys._getframe, which the hook itself calls.
REACHING = (
    *("gc.get_objects", "gc.get_referrers", "gc.get_referents"),
    *("ctypes.dlopen", "ctypes.dlsym", "ctypes.string_at", "ctypes.cdata", "ctypes.call_function"),
    *("sys._current_frames", "sys.settrace", "sys.setprofile"),
    *("code.__new__", "function.__new__", "object.__setattr__"),
    *("marshal.load", "marshal.loads", "pickle.find_class"),
)
MADE_HERE, COMPILED = "exec", "compiled code"
KNOWN = frozenset({*REACHING, MADE_HERE, COMPILED})
# Libraries whose functions do nothing but run the code that they are given.
TRAMPOLINES = ("bdb.py", "code.py", "doctest.py", "profile.py", "cProfile.py", "timeit.py")


class Folders(NamedTuple):
    """The folders of a sandbox that code may come from."""

    submission: str
    original: str
    """What the submission is a copy of: read-only."""
    writable: tuple[str, ...]


def listen(folders: Folders, tell: Tell) -> None:
    """Look at all that Python reports of this process and those forked from it, for good."""
    judges: dict[str, Callable[[tuple[Any, ...], FrameType], None]] = {
        **dict.fromkeys(PROGRAMS, _refuse_program),
        "exec": _judge_code(folders, tell),
        "import": _refuse_compiled(folders, tell, place=1),
        "ctypes.dlopen": _refuse_compiled(folders, tell, place=0),
    }
    sys.addaudithook(_hook(judges, frozenset(REACHING), tell))


def _hook(
    judges: Mapping[str, Callable[[tuple[Any, ...], FrameType], None]],
    reaching: frozenset[str],
    tell: Tell,
) -> Callable[[str, tuple[Any, ...]], None]:
    """Make the hook; it holds all that it needs, so that no module can be changed under it."""
    find = judges.get

    def hook(event: str, args: tuple[Any, ...]) -> None:
        judge = find(event)
        if judge is None and event not in reaching:
            return
        frame = sys._getframe().f_back  # pyright: ignore[reportPrivateUsage]
        if frame is None:
            return
        if judge is not None:
            judge(args, frame)
        if event in reaching and is_own(_caller(frame).f_code.co_filename):
            tell(event, *calling_place(frame))

    return hook


def _caller(frame: FrameType) -> FrameType:
    """Who wants it: behind the functions of ctypes and pickle that do nothing else."""
    while frame.f_back is not None and frame.f_code.co_filename.endswith(
        ("/ctypes/__init__.py", "/pickle.py", "/ctypes/util.py")
    ):
        frame = frame.f_back
    return frame


def _refuse_program(args: tuple[Any, ...], _: FrameType) -> None:
    program = args[0].decode() if isinstance(args[0], bytes) else args[0]
    words = "a submission may start no other program here"
    raise PermissionError(errno.EPERM, words, str(program)[:100])


def _refuse_compiled(
    folders: Folders, tell: Tell, place: int
) -> Callable[[tuple[Any, ...], FrameType], None]:
    """Make what refuses compiled code from where a submission can write.

    Args:
        folders: Where that is.
        tell: Is told.
        place: Which argument of the event is the file.
    """

    def refuse(args: tuple[Any, ...], frame: FrameType) -> None:
        file = args[place]
        if not isinstance(file, str | bytes) or b"/" not in _bytes(file):
            return
        path = Path(_bytes(file).decode(errors="replace")).resolve()
        if _may_change(str(path), folders):
            tell(COMPILED, *calling_place(frame))
            raise ImportError(f"{path.name}: compiled code of a submission is not loaded")

    return refuse


def _bytes(file: str | bytes) -> bytes:
    return file.encode() if isinstance(file, str) else file


def _judge_code(folders: Folders, tell: Tell) -> Callable[[tuple[Any, ...], FrameType], None]:
    """Make what tells of code that is no file of the submission's as it was handed in."""

    def judge(args: tuple[Any, ...], frame: FrameType) -> None:
        code: CodeType = args[0]
        caller, file = frame.f_code.co_filename, code.co_filename
        is_made_here = is_own(caller) or Path(caller).name in TRAMPOLINES
        if is_made_here or (_may_change(file, folders) and not _is_handed_in(file, folders)):
            tell(MADE_HERE, *calling_place(frame))

    return judge


def _may_change(file: str, folders: Folders) -> bool:
    """Whether a submission can have written a file: what it cannot is shown below /tmp, too."""
    path = Path(file).absolute()
    is_below = str(path).startswith(tuple(f"{folder}/" for folder in folders.writable))
    return is_below and not file.startswith("<") and os.access(path.parent, os.W_OK)


def _is_handed_in(file: str, folders: Folders) -> bool:
    """Whether a file is Python that was handed in, and still as it was."""
    _, found, name = str(Path(file).absolute()).partition(f"{folders.submission}/")
    if not found or not name.endswith(".py"):
        return False
    original = Path(folders.original, name)
    try:
        return original.read_bytes() == Path(file).read_bytes()
    except OSError:
        return False
