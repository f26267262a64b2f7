"""Reports code that runs but that a submission's source does not show; refuses some code entirely.

    listen(folders, tell)   # in a host, before the submission is imported

Python itself reports what happens in it to a hook (PEP 578). A hook cannot be removed, and every
way to find the hook object is itself reported to the hook. It

- refuses other programs and interpreters, in which no operator is blocked, compiled code from the
  folders that a submission can write to, and the memory of processes as a file;
- reports Python code that is not in a file of the submission as it was handed in (made while it
  runs, or kept in a file of another kind), reaching into other code, and packages that do the work
  of a problem, however they are imported.

Programs that are started past Python's own functions are refused by the kernel (confine.py).
What remains unseen: a library in C that loads a compiled file by itself, once somebody has written
one, and the objects that frames and closures lead to.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from cs_grader.sandbox import refused
from cs_grader.sandbox.forbidden import PACKAGES
from cs_grader.sandbox.places import calling_place, is_made, is_own
from cs_grader.sandbox.refused import REFUSED, Folders, Judge, Tell

# Functions that change or find code and objects that somebody else has made. Only calls from the
# submission's own lines are reported: libraries have reasons for theirs. sys._getframe is not
# listed, since the hook itself calls it.
REACHING = (
    *("gc.get_objects", "gc.get_referrers", "gc.get_referents"),
    *("ctypes.dlopen", "ctypes.dlsym", "ctypes.string_at", "ctypes.cdata", "ctypes.call_function"),
    *("sys._current_frames", "sys.settrace", "sys.setprofile"),
    *("code.__new__", "function.__new__", "object.__setattr__"),
    *("marshal.load", "marshal.loads"),
)
MADE_HERE, PICKLED, ATTRIBUTE = "exec", "pickle", "object.__getattr__"
IMPORTS = {name: f"import {name}" for name in PACKAGES}
KNOWN = REFUSED | {*REACHING, MADE_HERE, PICKLED, ATTRIBUTE, *IMPORTS.values()}
# Attributes that lead from an object to the frames and the code of others, however they are read.
ATTRIBUTES = frozenset({"__code__", "tb_frame", "gi_frame", "cr_frame", "ag_frame"})
# Library files that only do what a line or a pickle tells them to: what counts is their caller.
PASSING = (
    *("/ctypes/__init__.py", "/ctypes/util.py", "/pickle.py", "/torch/serialization.py"),
    *("/numpy/ctypeslib.py", "/numpy/ctypeslib/_ctypeslib.py", "/numpy/lib/format.py"),
    *("/numpy/lib/_format_impl.py", "/numpy/lib/_npyio_impl.py"),
)
NOT_THERE = "{} does the work of this problem and is not there"
# Libraries whose functions do nothing but run the code that they are given.
TRAMPOLINES = ("bdb.py", "code.py", "doctest.py", "profile.py", "cProfile.py", "timeit.py")


def listen(folders: Folders, tell: Tell, ready_made: Collection[str] = ()) -> None:
    """Watch all that Python reports of this process and of those forked from it, for good.

    Args:
        folders: The sandbox's folders, with those that a submission can write to.
        tell: Receives what is reported.
        ready_made: Packages of which nothing may be loaded: they do the work of the problem.
    """
    judges: dict[str, Judge] = {
        **dict.fromkeys(refused.PROGRAMS, refused.program),
        "exec": _judge_code(folders, tell, frozenset(ready_made)),
        "import": _judge_import(folders, tell, frozenset(ready_made)),
        "ctypes.dlopen": refused.compiled(folders, tell, place=0),
        "marshal.loads": refused.bytecode(folders, tell),
        "pickle.find_class": _judge_pickle(tell),
        "open": refused.memory(tell),
        "os.symlink": refused.memory(tell),
        "cpython.PyInterpreterState_New": refused.interpreter(tell),
        ATTRIBUTE: _judge_attribute(tell),
    }
    sys.addaudithook(_hook(judges, frozenset(REACHING), tell))


def _hook(
    judges: Mapping[str, Judge], reaching: frozenset[str], tell: Tell
) -> Callable[[str, tuple[Any, ...]], None]:
    """Make the hook; it holds all that it needs, so that no module can be changed under it."""
    find = judges.get

    def hook(event: str, args: tuple[Any, ...]) -> None:
        judge = find(event)
        if judge is None and event not in reaching:
            return
        # Most events of this kind come from what this hook itself reads of frames.
        if event == ATTRIBUTE and args[1] not in ATTRIBUTES:
            return
        frame = sys._getframe().f_back  # pyright: ignore[reportPrivateUsage]
        if frame is None:
            return
        if judge is not None:
            judge(args, frame)
        if event in reaching and _is_asked_for(frame):
            tell(event, *calling_place(frame))

    return hook


def _is_asked_for(frame: FrameType) -> bool:
    """Whether the submission asked for this, and not a library for reasons of its own."""
    while frame.f_back is not None and frame.f_code.co_filename.endswith(PASSING):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return is_own(file) or is_made(file)


def _judge_attribute(tell: Tell) -> Judge:
    def judge(_: tuple[Any, ...], frame: FrameType) -> None:
        if _is_asked_for(frame):
            tell(ATTRIBUTE, *calling_place(frame))

    return judge


def _judge_pickle(tell: Tell) -> Judge:
    """Make the judge that reports a pickle which asks for more than data."""

    def judge(args: tuple[Any, ...], frame: FrameType) -> None:
        module, name = args
        if not refused.is_data(str(module), str(name)) and _is_asked_for(frame):
            tell(PICKLED, *calling_place(frame))

    return judge


def _judge_import(folders: Folders, tell: Tell, ready_made: frozenset[str]) -> Judge:
    """Make the judge that reports packages which hold solutions, and refuses compiled code."""
    refuse = refused.compiled(folders, tell, place=1)

    def judge(args: tuple[Any, ...], frame: FrameType) -> None:
        refuse(args, frame)
        package = str(args[0]).partition(".")[0]
        if package in IMPORTS:
            tell(IMPORTS[package], *calling_place(frame))
        # A loader may be asked for compiled code by any name: its folder tells whose it is.
        if args[1] and (found := ready_made & {package, Path(str(args[1])).parent.name}):
            raise ImportError(NOT_THERE.format(min(found)))

    return judge


def _judge_code(folders: Folders, tell: Tell, ready_made: frozenset[str]) -> Judge:
    """Make the judge that reports code which is not in a file as the submission handed it in.

    It refuses that of ready-made packages. The finder that stands in for them (absent.py) can be
    taken out of sys.meta_path; an audit hook stays. A stand-in has no code.
    """

    def judge(args: tuple[Any, ...], frame: FrameType) -> None:
        code: CodeType = args[0]
        caller, file = frame.f_code.co_filename, code.co_filename
        _, library, name = file.rpartition("-packages/")
        if library and (package := name.partition("/")[0].removesuffix(".py")) in ready_made:
            raise ImportError(NOT_THERE.format(package))
        is_made_here = _is_asked_for(frame) or Path(caller).name in TRAMPOLINES
        if is_made_here or (refused.may_change(file, folders) and not _is_handed_in(file, folders)):
            tell(MADE_HERE, *calling_place(frame))

    return judge


def _is_handed_in(file: str, folders: Folders) -> bool:
    """Whether a file is Python that was handed in and has not changed since."""
    _, found, name = str(Path(file).absolute()).partition(f"{folders.submission}/")
    if not found or not name.endswith(".py"):
        return False
    original = Path(folders.original, name)
    try:
        return original.read_bytes() == Path(file).read_bytes()
    except OSError:
        return False
