"""Reports code that runs but that a submission's source does not show; refuses some code entirely.

    listen(folders, tell)   # in a host, before the submission is imported

Python itself reports what happens in it to a hook (PEP 578). A hook cannot be removed, and every
way to find the hook object is itself reported to the hook. It

- refuses other programs and interpreters, in which no operator is blocked, compiled code from the
  folders that a submission can write to, and the memory of processes as a file;
- reports Python code that is not in a file of the submission as it was handed in (made while it
  runs, or kept in a file of another kind), reaching into other code, pickles that are not data, and
  packages that do the work of a problem, however they are imported.

Programs that are started past Python's own functions are refused by the kernel (confine.py).
What remains unseen: a library in C that loads a compiled file by itself, once somebody has written
one, and the objects that frames and closures lead to.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, NoReturn

from cs_grader.sandbox.forbidden import PACKAGES
from cs_grader.sandbox.ledger import calling_place, is_made, is_own

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
PROGRAMS = (
    *("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"),
    "os.startfile",
)
COMPILED, MEMORY, INTERPRETER = "compiled code", "the memory of a process", "another interpreter"
REFUSED = frozenset({COMPILED, MEMORY, INTERPRETER})
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
# Libraries whose functions do nothing but run the code that they are given.
TRAMPOLINES = ("bdb.py", "code.py", "doctest.py", "profile.py", "cProfile.py", "timeit.py")
# What a pickle may name that holds data and does nothing else.
DATA = re.compile(
    "|".join(
        (
            r"builtins\.(bool|bytearray|bytes|complex|dict|float|frozenset|int|list|object)",
            r"builtins\.(range|set|slice|str|tuple)",
            r"collections\.(Counter|OrderedDict|defaultdict|deque)",
            r"datetime\.\w+",
            r"pathlib\.\w+",
            r"argparse\.Namespace",
            r"_codecs\.encode",
            r"copyreg\._reconstructor",
            r"numpy\.(_?core\.)?((multiarray|numeric)\.)?(_frombuffer|_reconstruct|dtype|ndarray|scalar)",
            r"torch\._utils\._rebuild_\w+",
            r"torch\.(storage\.)?\w+Storage",
            r"torch\.(Size|device|bool|b?float\d+|u?int\d+|complex\d+)",
            r"torch\.nn\.(parameter|modules\.\w+)\.\w+",
        )
    )
)

Tell = Callable[[str, str, int], None]
"""Called with what was done, and the file and line that did it."""
Arguments = tuple[Any, ...]


class Folders(NamedTuple):
    """The folders of a sandbox that code may come from."""

    submission: str
    original: str
    """What the submission is a copy of: read-only."""
    writable: tuple[str, ...]


def listen(folders: Folders, tell: Tell, ready_made: Collection[str] = ()) -> None:
    """Watch all that Python reports of this process and of those forked from it, for good.

    Args:
        folders: The sandbox's folders, with those that a submission can write to.
        tell: Receives what is reported.
        ready_made: Packages of which nothing may be loaded: they do the work of the problem.
    """
    judge = _Judge(folders, tell, frozenset(ready_made))
    judges: dict[str, Callable[[Arguments, FrameType], None]] = {
        **dict.fromkeys(PROGRAMS, judge.program),
        "exec": judge.code,
        "import": judge.importing,
        "ctypes.dlopen": judge.library,
        "marshal.loads": judge.bytecode,
        "pickle.find_class": judge.pickle,
        "open": judge.file,
        "os.symlink": judge.file,
        "cpython.PyInterpreterState_New": judge.interpreter,
        ATTRIBUTE: judge.attribute,
    }
    sys.addaudithook(_hook(judges, frozenset(REACHING), tell))


def _hook(
    judges: Mapping[str, Callable[[Arguments, FrameType], None]],
    reaching: frozenset[str],
    tell: Tell,
) -> Callable[[str, Arguments], None]:
    """Make the hook; it holds all that it needs, so that no module can be changed under it."""
    find = judges.get

    def hook(event: str, args: Arguments) -> None:
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


class _Judge:
    """Judges events of one kind each, by their arguments and the frame that they happen in."""

    __slots__ = ("folders", "ready_made", "tell")

    def __init__(self, folders: Folders, tell: Tell, ready_made: frozenset[str]) -> None:
        self.folders = folders
        self.tell = tell
        self.ready_made = ready_made

    # --- what is refused: nothing could be seen of what it does ---

    def program(self, args: Arguments, _: FrameType) -> None:
        """Refuse a program, unreported: many honest ones ask for their repository's version."""
        name = args[0].decode() if isinstance(args[0], bytes) else args[0]
        words = "a submission may start no other program here"
        raise PermissionError(errno.EPERM, words, str(name)[:100])

    def interpreter(self, _: Arguments, frame: FrameType) -> None:
        """Refuse a second interpreter in the process, which reports to no hook."""
        self.tell(INTERPRETER, *calling_place(frame))
        raise PermissionError(errno.EPERM, "a submission may start no other interpreter here")

    def file(self, args: Arguments, frame: FrameType) -> None:
        """Refuse /proc/self/mem and its like, which change anything unseen."""
        file = args[0]
        if isinstance(file, str | bytes) and _bytes(file).rpartition(b"/")[2] == b"mem":
            self.tell(MEMORY, *calling_place(frame))
            raise PermissionError(errno.EPERM, "a submission may not open this here", file)

    def bytecode(self, _: Arguments, frame: FrameType) -> None:
        """Refuse compiled Python, which need not match the source beside it."""
        if frame.f_code.co_filename.startswith("<frozen"):
            names = frame.f_locals
            # Local variables of the functions of importlib and zipimport that read compiled code.
            file = names.get("bytecode_path") or names.get("pathname")
            # Not where a link leads: the code has been read, and the link may be new.
            if isinstance(file, str) and _may_change(file, self.folders):
                self.refuse_compiled(file, frame)

    def library(self, args: Arguments, frame: FrameType) -> None:
        """Refuse a compiled library of the submission's."""
        self.compiled(args[0], frame)

    def compiled(self, file: object, frame: FrameType) -> None:
        """Refuse compiled code from where a submission can write."""
        if not isinstance(file, str | bytes) or b"/" not in _bytes(file):
            return
        path = str(Path(_bytes(file).decode(errors="replace")).resolve())
        if _may_change(path, self.folders):
            self.refuse_compiled(path, frame)

    def refuse_compiled(self, path: str, frame: FrameType) -> NoReturn:
        self.tell(COMPILED, *calling_place(frame))
        raise ImportError(f"{Path(path).name}: compiled code of a submission is not loaded")

    def complain_if_ready_made(self, *packages: str) -> None:
        """Refuse what does the work of this problem.

        The finder that stands in for it (absent.py) can be taken out of sys.meta_path; a hook
        stays. A stand-in has no code.
        """
        for package in self.ready_made & {*packages}:
            raise ImportError(f"{package} does the work of this problem and is not there")

    # --- what is reported ---

    def importing(self, args: Arguments, frame: FrameType) -> None:
        """Report packages which hold solutions, and refuse compiled code."""
        name, file = str(args[0]), args[1]
        self.compiled(file, frame)
        package = name.partition(".")[0]
        if package in IMPORTS:
            self.tell(IMPORTS[package], *calling_place(frame))
        if file:
            # A loader may be asked for compiled code by any name: its folder tells whose it is.
            self.complain_if_ready_made(package, Path(str(file)).parent.name)

    def code(self, args: Arguments, frame: FrameType) -> None:
        """Report code that is not in a file as the submission handed it in."""
        code: CodeType = args[0]
        caller, file = frame.f_code.co_filename, code.co_filename
        _, library, name = file.rpartition("-packages/")
        if library:
            self.complain_if_ready_made(name.partition("/")[0].removesuffix(".py"))
        is_made_here = _is_asked_for(frame) or Path(caller).name in TRAMPOLINES
        may_change = _may_change(file, self.folders)
        if is_made_here or (may_change and not _is_handed_in(file, self.folders)):
            self.tell(MADE_HERE, *calling_place(frame))

    def pickle(self, args: Arguments, frame: FrameType) -> None:
        """Report a pickle which asks for more than data."""
        module, name = map(str, args)
        file = getattr(sys.modules.get(module), "__file__", None)
        is_class_of_its_own = "." not in name and bool(file) and is_own(str(file))
        is_data = is_class_of_its_own or DATA.fullmatch(f"{module}.{name}")
        if not is_data and _is_asked_for(frame):
            self.tell(PICKLED, *calling_place(frame))

    def attribute(self, _: Arguments, frame: FrameType) -> None:
        """Report a look at the frames and the code of others."""
        if _is_asked_for(frame):
            self.tell(ATTRIBUTE, *calling_place(frame))


def _is_asked_for(frame: FrameType) -> bool:
    """Whether the submission asked for this, and not a library for reasons of its own."""
    while frame.f_back is not None and frame.f_code.co_filename.endswith(PASSING):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return is_own(file) or is_made(file)


def _bytes(file: str | bytes) -> bytes:
    return file.encode() if isinstance(file, str) else file


def _may_change(file: str, folders: Folders) -> bool:
    """Whether a submission can have written a file; /tmp holds read-only folders, too."""
    path = Path(file).absolute()
    is_below = str(path).startswith(tuple(f"{folder}/" for folder in folders.writable))
    return is_below and not file.startswith("<") and os.access(path.parent, os.W_OK)


def _is_handed_in(file: str, folders: Folders) -> bool:
    """Whether a file is Python that was handed in and has not changed since."""
    _, found, name = str(Path(file).absolute()).partition(f"{folders.submission}/")
    if not found or not name.endswith(".py"):
        return False
    try:
        return Path(folders.original, name).read_bytes() == Path(file).read_bytes()
    except OSError:
        return False
