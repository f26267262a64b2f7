"""What is not run and not opened at all, because nothing could be seen of what it does.

Each function makes a judge: what audit.py calls when Python reports an event of its kind, with the
event's arguments and the frame that it happens in. Of pickles, those are reported that are not
data.
"""

import errno
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from cs_grader.sandbox.places import calling_place, is_own

Tell = Callable[[str, str, int], None]
"""Called with what was done, and the file and line that did it."""
Judge = Callable[[tuple[Any, ...], FrameType], None]

PROGRAMS = (
    *("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"),
    "os.startfile",
)
COMPILED, MEMORY, INTERPRETER = "compiled code", "the memory of a process", "another interpreter"
REFUSED = frozenset({COMPILED, MEMORY, INTERPRETER})


class Folders(NamedTuple):
    """The folders of a sandbox that code may come from."""

    submission: str
    original: str
    """What the submission is a copy of: read-only."""
    writable: tuple[str, ...]


def program(args: tuple[Any, ...], _: FrameType) -> None:
    """Refuse another program, unreported: many honest ones ask for their repository's version."""
    name = args[0].decode() if isinstance(args[0], bytes) else args[0]
    words = "a submission may start no other program here"
    raise PermissionError(errno.EPERM, words, str(name)[:100])


def interpreter(tell: Tell) -> Judge:
    """Make the judge that refuses a second interpreter in the process, which reports to no hook."""

    def refuse(_: tuple[Any, ...], frame: FrameType) -> None:
        tell(INTERPRETER, *calling_place(frame))
        raise PermissionError(errno.EPERM, "a submission may start no other interpreter here")

    return refuse


def memory(tell: Tell) -> Judge:
    """Make the judge that refuses /proc/self/mem and its like, which change anything unseen."""

    def refuse(args: tuple[Any, ...], frame: FrameType) -> None:
        file = args[0]
        if isinstance(file, str | bytes) and _bytes(file).rpartition(b"/")[2] == b"mem":
            tell(MEMORY, *calling_place(frame))
            raise PermissionError(errno.EPERM, "a submission may not open this here", file)

    return refuse


def bytecode(folders: Folders, tell: Tell) -> Judge:
    """Make the judge that refuses compiled Python, which need not match the source beside it."""

    def refuse(_: tuple[Any, ...], frame: FrameType) -> None:
        if not frame.f_code.co_filename.startswith("<frozen"):
            return
        names = frame.f_locals
        # Local variables of the functions of importlib and zipimport that read compiled code.
        file = names.get("bytecode_path") or names.get("pathname")
        if isinstance(file, str) and may_change(file, folders):
            tell(COMPILED, *calling_place(frame))
            raise ImportError(f"{Path(file).name}: compiled code of a submission is not loaded")

    return refuse


def compiled(folders: Folders, tell: Tell, place: int) -> Judge:
    """Make the judge that refuses compiled code from where a submission can write.

    Args:
        folders: The sandbox's folders, with those that a submission can write to.
        tell: Receives each refusal.
        place: Which argument of the event is the file.
    """

    def refuse(args: tuple[Any, ...], frame: FrameType) -> None:
        file = args[place]
        if not isinstance(file, str | bytes) or b"/" not in _bytes(file):
            return
        path = Path(_bytes(file).decode(errors="replace")).resolve()
        if may_change(str(path), folders):
            tell(COMPILED, *calling_place(frame))
            raise ImportError(f"{path.name}: compiled code of a submission is not loaded")

    return refuse


def _bytes(file: str | bytes) -> bytes:
    return file.encode() if isinstance(file, str) else file


def may_change(file: str, folders: Folders) -> bool:
    """Whether a submission can have written a file; /tmp holds read-only folders, too."""
    path = Path(file).absolute()
    is_below = str(path).startswith(tuple(f"{folder}/" for folder in folders.writable))
    return is_below and not file.startswith("<") and os.access(path.parent, os.W_OK)


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


def is_data(module: str, name: str) -> bool:
    """Whether what a pickle names can hold data and do nothing else."""
    if DATA.fullmatch(f"{module}.{name}"):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return "." not in name and bool(file) and is_own(str(file))
