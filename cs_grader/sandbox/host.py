"""The process inside the sandbox that holds a submission: it imports the adapters and runs probes.

It is forked from the server, which has never run a line of the submission. So two hosts share
nothing that a submission has made: no variable, file, pipe or mapped memory.
"""

import contextlib
import multiprocessing.context
import multiprocessing.resource_tracker
import os
import random
import resource
import socket
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from cs_grader.sandbox import audit, blocked, confine, wire
from cs_grader.sandbox.absent import Absent, refuse, stand_in_for
from cs_grader.sandbox.confine import Settings
from cs_grader.sandbox.forbidden import FORBIDDEN, PACKAGES
from cs_grader.sandbox.inputs import Inputs
from cs_grader.sandbox.ledger import Ledger
from cs_grader.sandbox.observers import Observers
from cs_grader.sandbox.processes import over_memory

ONE_YEAR_S = 3e7
MOST_FRAMES = 30
MOST_CHARACTERS = 8000
HERE = Path(__file__).parent
FROZEN = "<frozen importlib"
# Functions that these processes still need after a submission may have patched them.
EXIT, PID, NOW = os._exit, os.getpid, time.monotonic


class Restriction(NamedTuple):
    """What decides which operators a submission may call."""

    problem: str
    lent: tuple[str, ...]
    """Groups of operators that an earlier problem has paid for."""


class Shared(NamedTuple):
    """What the server has made before it forks a host."""

    ledger: Ledger
    """Memory of this host and what it forks, which the server reads."""
    inputs: Inputs
    """The same for inputs."""
    observers: Observers


def run_host(
    channel: socket.socket,
    settings: Settings,
    restriction: Restriction,
    absent: list[str],
    shared: Shared,
) -> NoReturn:
    """Import the submission, report how that went, then answer one probe after another."""
    enter(settings)
    seed_everything(0)
    me = PID()
    try:
        # Before the first line of the submission: afterwards it could keep what is blocked.
        put_up(restriction, settings, shared.ledger)
        stand_in_for(absent)
        adapters = import_adapters(settings)
    except BaseException as error:
        say(channel, raised(error, settings) | missing_package(error, settings))
        EXIT(0)
    Absent.is_importing = False
    say(channel, {"ended": "imported"})
    while (frame := wire.receive(channel, NOW() + ONE_YEAR_S)) is not None:
        request = wire.decode(frame)
        shared.inputs.end = 0
        limit_time(int(request["cpu_s"]))
        answer = run_probe(request, settings, adapters, shared.observers)
        if PID() != me:
            EXIT(0)  # A process that the submission has forked: its parent answers.
        wire.send(channel, answer, NOW() + 60)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
    EXIT(0)


def enter(settings: Settings) -> None:
    """Limit what the host and all that it starts may use."""
    os.setsid()
    confine.die_with_parent()
    confine.prctl(confine.PR_SET_DUMPABLE, 1)
    confine.limit(resource.RLIMIT_DATA, settings.memory_bytes)
    confine.limit(resource.RLIMIT_FSIZE, settings.file_bytes)
    confine.limit(resource.RLIMIT_CORE, 0)
    confine.limit(resource.RLIMIT_NOFILE, 512)
    if settings.is_counted_alone:
        confine.limit(resource.RLIMIT_NPROC, settings.processes)


def take_out_of_reach(inputs: Inputs) -> Observers:
    """Have inputs placed where the server sees them, and hide the probes from submissions."""
    sys.modules["probes.model"].__dict__["placed"] = inputs.place
    observers = Observers()
    observers.hide()
    return observers


def put_up(restriction: Restriction, settings: Settings, ledger: Ledger) -> None:
    """Forbid what is not allowed, and have everything noted that a person has to see."""
    import torch

    tell = partial(ledger.write, "forbidden")
    blocked.forbid(restriction.problem, tell, restriction.lent)
    fork_only()
    torch.compile = torch.nn.Module.compile = leave_uncompiled  # pyright: ignore
    folders = (settings.submission, settings.original, tuple(settings.scratch))
    # However they are imported, packages that do the work of this problem are not there.
    groups = set(FORBIDDEN[restriction.problem]) - set(restriction.lent)
    ready_made = {name for name, group in PACKAGES.items() if group in groups}
    audit.listen(audit.Folders(*folders), partial(ledger.write, "code"), ready_made)
    refuse(sorted(ready_made - {*settings.own_names}), partial(blocked.refuse, tell=tell))


def leave_uncompiled(
    model: Callable[..., Any] | None = None, **_options: object
) -> Callable[..., Any]:
    """Stand for torch.compile: return the function as it is, since no probe has time to compile."""
    return leave_uncompiled if model is None else model


def import_adapters(settings: Settings) -> ModuleType:
    """Import the adapters as a repository's own tests would."""
    from submission import load_adapters  # pyright: ignore[reportMissingImports]

    os.chdir(settings.submission)
    return load_adapters(Path(settings.submission))


def missing_package(error: BaseException, settings: Settings) -> dict[str, Any]:
    """Name the package whose absence made the import fail, and the line that wanted it."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return {}
    package = error.name.partition(".")[0]
    if package in settings.own_names or package == "tests" or package in sys.modules:
        return {}
    frames = frames_of(error, settings)
    file, line, _ = frames[-1] if frames else ("", 0, "")
    return {"missing_package": {"package": package, "file": file, "line": line}}


def say(channel: socket.socket, message: wire.Plain) -> None:
    """Tell the server, if it is still there."""
    with contextlib.suppress(OSError):
        wire.send(channel, wire.encode(message), NOW() + 10)


# --- probes ---


def limit_time(cpu_s: int) -> None:
    """Let the kernel end this process after some more seconds of CPU time."""
    limit = int(time.process_time()) + cpu_s
    with contextlib.suppress(ValueError, OSError):
        # The hard limit can only be lowered: it has to do for all that is still to be asked.
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def run_probe(
    request: Mapping[str, Any], settings: Settings, adapters: ModuleType, observers: Observers
) -> bytes:
    """Run one probe; return the frame that says what it saw, or what it raised."""
    try:
        complain_if_replaced(observers, request["module"])
        probe = observers.find(request["module"], request["probe"])
        seed_everything(request["seed"])
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            seen = probe(adapters, **request["inputs"])
        complain_if_replaced(observers, request["module"])
        return wire.encode({"ended": "returned", "value": seen})
    except BaseException as error:
        return wire.encode(raised(error, settings, adapters))


class ReplacedObserver(Exception):  # noqa: N818  # It says what was done, not what went wrong.
    """A submission has changed what observes it."""


def complain_if_replaced(observers: Observers, module: str) -> None:
    """Trust no observation if what observes is not what it was before the import.

    Raises:
        ReplacedObserver: Something was replaced.
    """
    name = observers.replaced(module)
    if name:
        raise ReplacedObserver(f"{name}, which the examination uses, was replaced")


def seed_everything(seed: int) -> None:
    """Make a submission's own randomness repeatable, as tests/conftest.py does."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)  # torch.manual_seed looks for GPUs each time.


def raised(
    error: BaseException, settings: Settings, adapters: ModuleType | None = None
) -> dict[str, Any]:
    """Describe an exception in plain, bounded data."""
    kind = type(error).__name__
    text = in_words(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in text:
        text = f"{over_memory(settings.memory_bytes)} {text}".strip()
    elif isinstance(error, SystemExit):
        text = f"sys.exit({in_words(error)}) was called"
    missing = None
    if isinstance(error, AttributeError) and adapters is not None and error.obj is adapters:
        missing = str(error.name)
    return {
        "ended": "raised",
        "type": kind[:100],
        "text": text[:MOST_CHARACTERS],
        "frames": [list(frame) for frame in frames_of(error, settings)],
        "missing": missing,
        "is_not_implemented": isinstance(error, NotImplementedError),
    }


def in_words(error: BaseException) -> str:
    """Return an exception's message, whatever its __str__ does."""
    try:
        return str(error)[:MOST_CHARACTERS]
    except BaseException as other:
        return f"(its message cannot be had: {type(other).__name__})"


def frames_of(error: BaseException, settings: Settings) -> list[tuple[str, int, str]]:
    """Return file, line and function of the frames of an exception, the innermost last."""
    found: list[tuple[str, int, str]] = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if Path(code.co_filename).parent != HERE and not code.co_filename.startswith(FROZEN):
            found.append((shown(code.co_filename, settings), step.tb_lineno, code.co_name))
        step = step.tb_next
    if isinstance(error, SyntaxError):
        file = error.filename or file_with_null_bytes(settings.submission)
        found += [(shown(file, settings), error.lineno or 0, "<module>")] if file else []
    half = MOST_FRAMES // 2
    return found if len(found) <= MOST_FRAMES else found[:half] + found[-half:]


def file_with_null_bytes(folder: str) -> str:
    """The source of which Python 3.11 says that it holds null bytes, without a name."""
    sources = sorted(Path(folder).rglob("*.py"))
    return next((str(path) for path in sources if b"\0" in path.read_bytes()), "")


def shown(file: str, settings: Settings) -> str:
    """Return a path as its author knows it."""
    for root, name in ((settings.submission, ""), (settings.examination, "tests/exam/")):
        if file.startswith(f"{root}/"):
            return name + file.removeprefix(f"{root}/")
    for library in ("site-packages/", f"/python3.{sys.version_info.minor}/"):
        _, found, rest = file.rpartition(library)
        if found:
            return library.lstrip("/") + rest
    return file


@contextlib.contextmanager
def last_words() -> Generator[None]:
    """End a forked process here, whatever happens: it must not go on in its parent's place."""
    try:
        yield
    except ConnectionError:
        EXIT(0)  # The server is at its end: nobody asks any more.
    except BaseException as error:
        with contextlib.suppress(BaseException):
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        EXIT(70)


def fork_only() -> None:
    """Make multiprocessing fork where it is asked to spawn, in this process and those below.

    A fresh interpreter would be another program, which the sandbox does not start (confine.py): no
    operator is blocked in it. A process that is forked can do all that one that is spawned can.
    """
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
