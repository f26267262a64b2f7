"""The process inside the sandbox: it runs each probe against a submission in a forked process.

    server   imports torch and stays single-threaded; never runs a line of a submission
      host   forked for each problem: forbids operators, imports the submission's adapters
        run  forked for each probe: answers through a socket of its own, then is gone

A probe therefore starts within milliseconds, and a crash, an endless loop or a full memory ends
one process. The server watches it and says how it ended. It knows no answer: nothing here decides
about right and wrong, and whoever takes it over can send no more than wrong answers.

Started by sandbox.py as `python worker.py SETTINGS` with a socket as standard input.
"""

import contextlib
import gc
import importlib
import json
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Generator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))
if __name__ == "__main__":
    sys.path += json.loads(sys.argv[1])["packages"]

from cs_grader import blocked, confine, wire
from cs_grader.absent import Absent, stand_in_for
from cs_grader.processes import (
    HAS_PROC,
    cpu_below,
    descendants,
    is_over,
    memory_of,
    num_threads,
)

ONE_YEAR_S = 3e7
TICK_S = 0.25
IMPORT_CPU_S = 20
MOST_ABSENT = 12
MOST_FRAMES = 30
MOST_CHARACTERS = 8000
FROZEN = "<frozen importlib"
# How a probe's process ended: wait status and seconds of CPU.
ENDED = struct.Struct(">id")
# PyTorch imports these at the first gradient, and at the first optimizer or tensor on "meta": up
# to a second, if it were in each run.
GRADIENTS, THE_REST = "torch.fx.experimental.symbolic_shapes", "torch._dynamo"
SLOW_IMPORTS = {
    "probes.model": GRADIENTS,
    "probes.modules": THE_REST,
    "probes.training": THE_REST,
}
# What a submission may patch and these processes still need afterwards.
EXIT, FORK, WAIT, NOW = os._exit, os.fork, os.wait4, time.monotonic


class Settings(NamedTuple):
    """What the grader decides about the sandbox."""

    submission: str
    examination: str
    packages: list[str]
    """Folders that are added to the end of the import path."""
    own_names: list[str]
    """Top-level modules and packages of the submission itself."""
    excused: dict[str, list[str]]
    """Of each problem the groups of operators that are charged to an earlier one (policy.py)."""
    uid: int | None
    """Become this user; None if that is not possible or done already."""
    readable: list[str] | None
    """Allow to read only these folders; None to leave that to the sandbox."""
    writable: list[str]
    allow_network: bool
    memory_bytes: int
    file_bytes: int
    processes: int
    idle_s: float


# --- the server ---


class Host(NamedTuple):
    """A process that has imported the submission for one problem."""

    pid: int
    control: socket.socket
    problem: str
    runs_itself: bool = False
    """Whether it cannot fork any more, and runs one probe itself."""


class Server:
    """Answers the grader's requests one after another."""

    def __init__(self, channel: socket.socket, settings: Settings) -> None:
        self.channel = channel
        self.settings = settings
        self.host: Host | None = None
        self.absent: list[dict[str, Any]] = []
        self.failure: wire.Plain = None
        """What an import of the submission ended with, if it fails whatever the problem."""

    def serve(self) -> None:
        """Answer until the grader closes its end."""
        while (head := self.read()) is not None:
            request = wire.decode(head)
            payload = self.read()
            if payload is None:
                return
            self.preload(request)
            answer = self.start(request["problem"]) or self.run(request, payload)
            if isinstance(answer, dict):
                answer = wire.encode(answer | {"absent": self.absent})
            wire.send(self.channel, answer, NOW() + ONE_YEAR_S)

    def read(self) -> bytes | None:
        """Wait for the grader."""
        return wire.receive(self.channel, NOW() + ONE_YEAR_S)

    def preload(self, request: Mapping[str, Any]) -> None:
        """Import what each run would otherwise import anew."""
        module = SLOW_IMPORTS.get(request["module"])
        if module is not None and module not in sys.modules:
            self.end_host()
            importlib.import_module(module)
            prepare_to_fork()

    # --- importing the submission ---

    def start(self, problem: str) -> wire.Plain:
        """Have a host for a problem; return None, or how the import failed."""
        if self.failure is not None:
            return self.failure
        if self.host is not None and self.host.problem == problem:
            return None
        self.end_host()
        while True:
            outcome = self.import_in_host(problem)
            if outcome["ended"] == "imported":
                return None
            self.end_host()
            missing = outcome.pop("missing_package", None)
            known = [entry["package"] for entry in self.absent]
            if missing is None or missing["package"] in known or len(known) == MOST_ABSENT:
                if outcome.get("type") != "ForbiddenOperator":
                    self.failure = outcome
                return outcome
            self.absent.append(missing)

    def import_in_host(self, problem: str) -> dict[str, Any]:
        """Fork a host and wait until it has imported the submission, or has failed to."""
        control, theirs = socket.socketpair()
        pid = FORK()
        if pid == 0:
            with last_words():
                control.close()
                self.channel.close()
                packages = [entry["package"] for entry in self.absent]
                run_host(theirs, self.settings, problem, packages)
            EXIT(0)
        theirs.close()
        self.host = Host(pid, control, problem)
        watch = Watch(IMPORT_CPU_S, 5 * IMPORT_CPU_S, self.settings)
        how = watch.wait(control)
        if how is None:
            try:
                answer = wire.receive(control, NOW() + 5)
                if answer is not None:
                    outcome = wire.decode(answer)
                    if isinstance(outcome, dict) and outcome.get("ended") in ("imported", "raised"):
                        self.host = self.host._replace(runs_itself=bool(outcome.get("has_threads")))
                        return outcome | {"during_import": True}
                how = self.ending_of_host(IMPORT_CPU_S)
            except (wire.WireError, OSError) as error:
                how = str(error)
        return {"ended": "died", "how": how, "during_import": True}

    def ending_of_host(self, cpu_s: float) -> str:
        """Say how a host ended that has closed its end of the socket."""
        if self.host is None:
            return "gone"
        for _ in range(40):
            pid, status, usage = WAIT(self.host.pid, os.WNOHANG)
            if pid:
                self.host.control.close()
                self.host = None
                return ending(status, usage.ru_utime + usage.ru_stime, cpu_s)
            time.sleep(0.05)
        return "closed its connection"

    def end_host(self) -> None:
        """End the host and all that it has started."""
        if self.host is None:
            self.sweep()
            return
        self.host.control.close()
        with contextlib.suppress(OSError):
            os.kill(self.host.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            WAIT(self.host.pid, 0)
        self.host = None
        self.sweep()

    def sweep(self) -> None:
        """Kill whatever was left behind and is not the host."""
        spared = {self.host.pid} if self.host else set[int]()
        for _ in range(100):
            left = descendants(os.getpid()) - spared
            left = {pid for pid in left if not is_over(pid)}
            if not left:
                return
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    # --- running a probe ---

    def run(self, request: Mapping[str, Any], payload: bytes) -> wire.Plain:
        """Let the host run one probe; return its answer's frame, or how it ended."""
        if not request["module"]:
            return {"ended": "imported"}
        assert self.host is not None
        ours, theirs = socket.socketpair()
        with ours:
            cpu_s = request["cpu_s"]
            watch = Watch(cpu_s, request["wall_s"], self.settings)
            with contextlib.suppress(OSError):
                socket.send_fds(self.host.control, [b"r"], [theirs.fileno()])
            theirs.close()
            with contextlib.suppress(OSError):
                wire.send(ours, payload, NOW() + request["wall_s"])
            how = watch.wait(ours)
            if how is not None:
                self.end_host()
                return {"ended": "died", "how": how}
            try:
                answer = wire.receive(ours, NOW() + request["wall_s"], request["limit"])
            except (wire.WireError, OSError) as error:
                self.end_host()
                return {"ended": "died", "how": str(error)}
        is_own_end = self.host.runs_itself
        how, has_host_ended = self.how_the_run_ended(cpu_s)
        self.sweep()
        # A run that takes its host along has not ended well, whatever it could still send.
        if answer is None or (has_host_ended and not is_own_end):
            return {"ended": "died", "how": how}
        return answer

    def how_the_run_ended(self, cpu_s: float) -> tuple[str, bool]:
        """Wait for the host's word on the process that ran the probe; say if there is none."""
        assert self.host is not None
        self.host.control.settimeout(10.0)
        try:
            message = self.host.control.recv(ENDED.size)
        except TimeoutError:
            self.end_host()  # What ran has closed its end and goes on all the same.
            return "left its answer unfinished", False
        except OSError:
            message = b""
        if len(message) == ENDED.size:
            status, cpu = ENDED.unpack(message)
            return ending(status, cpu, cpu_s), False
        how = self.ending_of_host(cpu_s)
        self.end_host()
        return how, True


class Watch:
    """Looks after all processes below the server while they compute."""

    def __init__(self, cpu_s: float, wall_s: float, settings: Settings) -> None:
        self.cpu_s = cpu_s
        self.wall_s = wall_s
        self.settings = settings
        self.started = NOW()

    def wait(self, channel: socket.socket) -> str | None:
        """Wait until there is something to read; say what went over its limit, or None."""
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        if poll.poll(TICK_S * 1000):
            return None
        before = cpu_below()
        spent, spent_at = 0.0, NOW()
        while not poll.poll(TICK_S * 1000):
            now = NOW()
            used = cpu_below() - before
            if used > spent + 0.01 * (now - spent_at):
                spent, spent_at = used, now
            if used > self.cpu_s + 1:
                return f"over {self.cpu_s:g} s of CPU"
            if now - self.started > self.wall_s:
                return f"no answer within {self.wall_s:g} s"
            if HAS_PROC and now - spent_at > self.settings.idle_s:
                idle = f"{self.settings.idle_s:g} s"
                return f"no answer: waited for {idle} without computing anything"
            below = descendants(os.getpid())
            if len(below) > self.settings.processes:
                return f"over {self.settings.processes} processes"
            if sum(map(memory_of, below)) > self.settings.memory_bytes:
                return over_memory(self.settings.memory_bytes)
        return None


def ending(status: int, cpu: float, cpu_s: float) -> str:
    """Say how a process ended, from its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU or (number == signal.SIGKILL and cpu >= cpu_s):
            return f"over {cpu_s:g} s of CPU"
        with contextlib.suppress(ValueError):
            return f"crashed with {signal.Signals(number).name}"
        return f"crashed with signal {number}"
    return f"exited with status {os.WEXITSTATUS(status)}"


def over_memory(memory_bytes: int) -> str:
    """Say that there was too much of it."""
    return f"over {memory_bytes / 2**30:g} GB"


# --- the host ---


def run_host(
    control: socket.socket, settings: Settings, problem: str, absent: list[str]
) -> NoReturn:
    """Import the submission, say how that went, then fork a process for each probe."""
    enter(settings)
    seed_everything(0)
    try:
        # Before the first line of the submission: afterwards it could keep what is blocked.
        blocked.forbid(problem, settings.excused.get(problem, ()))
        stand_in_for(absent)
        adapters = import_adapters(settings)
    except BaseException as error:
        say(control, raised(error, settings) | missing_package(error, settings))
        EXIT(0)
    Absent.is_importing = False
    prepare_to_fork()
    has_threads = num_threads() > 1
    say(control, {"ended": "imported", "has_threads": has_threads})
    while True:
        message, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not message or not handles:
            EXIT(0)
        # A fork keeps one thread of several, and may leave locks that nobody will open again.
        pid = 0 if has_threads else FORK()
        if pid == 0:
            with last_words():
                run_probe(socket.socket(fileno=handles[0]), control, settings, adapters)
            EXIT(0)
        os.close(handles[0])
        _, status, usage = WAIT(pid, 0)
        control.sendall(ENDED.pack(status, usage.ru_utime + usage.ru_stime))


def enter(settings: Settings) -> None:
    """Limit what the host and all that it starts may use."""
    os.setsid()
    confine.die_with_parent()
    confine.prctl(confine.PR_SET_DUMPABLE, 1)
    confine.limit(resource.RLIMIT_DATA, settings.memory_bytes)
    confine.limit(resource.RLIMIT_FSIZE, settings.file_bytes)
    confine.limit(resource.RLIMIT_CORE, 0)
    confine.limit(resource.RLIMIT_NOFILE, 512)
    if settings.uid is not None:
        confine.limit(resource.RLIMIT_NPROC, settings.processes)


def import_adapters(settings: Settings) -> ModuleType:
    """Import the adapters as a repository's own tests would."""
    from submission import load_adapters  # pyright: ignore[reportMissingImports]

    os.chdir(settings.submission)
    return load_adapters(Path(settings.submission))


def prepare_to_fork() -> None:
    """Leave nothing for the garbage collectors of children: what they visit, they copy."""
    gc.collect()
    gc.freeze()


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


def say(control: socket.socket, message: wire.Plain) -> None:
    """Tell the server, if it is still there."""
    with contextlib.suppress(OSError):
        wire.send(control, wire.encode(message), NOW() + 10)


# --- the process that runs a probe ---


def run_probe(
    channel: socket.socket, control: socket.socket, settings: Settings, adapters: ModuleType
) -> None:
    """Run one probe and send what it saw, or what it raised."""
    control.close()
    os.setsid()
    confine.die_with_parent()
    frame = wire.receive(channel, NOW() + 60)
    if frame is None:
        return
    request = wire.decode(frame)
    soft = int(request["cpu_s"])
    with contextlib.suppress(ValueError, OSError):
        used = int(time.process_time())  # Not 0 where there was no fork.
        resource.setrlimit(resource.RLIMIT_CPU, (used + soft, used + soft + 1))
    probe = getattr(importlib.import_module(request["module"]), request["probe"])
    try:
        seed_everything(request["seed"])
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            seen = probe(adapters, **request["inputs"])
        seen_and_called = {"ended": "returned", "value": seen, "forbidden": forbidden(settings)}
        answer = wire.encode(seen_and_called)
    except BaseException as error:
        answer = wire.encode(raised(error, settings, adapters))
    wire.send(channel, answer, NOW() + 60)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()


def seed_everything(seed: int) -> None:
    """Make a submission's own randomness repeatable, as tests/conftest.py does."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


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
        "forbidden": forbidden(settings),
    }


def forbidden(settings: Settings) -> list[list[str | int]]:
    """Operator, file and line of the forbidden calls so far, noticed by the submission or not."""
    return [[call.operator, shown(call.file, settings), call.line] for call in blocked.calls()]


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
        if code.co_filename != __file__ and not code.co_filename.startswith(FROZEN):
            found.append((shown(code.co_filename, settings), step.tb_lineno, code.co_name))
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        found.append((shown(error.filename, settings), error.lineno or 0, "<module>"))
    half = MOST_FRAMES // 2
    return found if len(found) <= MOST_FRAMES else found[:half] + found[-half:]


def shown(file: str, settings: Settings) -> str:
    """Return a path as its author knows it."""
    for root, name in ((settings.submission, ""), (settings.examination, "tests/")):
        if file.startswith(f"{root}/"):
            return name + file.removeprefix(f"{root}/")
    _, library, rest = file.rpartition("site-packages/")
    return library + rest if library else file


@contextlib.contextmanager
def last_words() -> Generator[None]:
    """End a forked process here, whatever happens: it must not go on in its parent's place."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(BaseException):
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        EXIT(70)


def main() -> None:
    """Leave everything behind that is not needed, then serve."""
    settings = Settings(**json.loads(sys.argv[1]))
    del os.environ["GLIBC_TUNABLES"]  # This process has it; a submission gets the usual one.
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    confine.adopt_orphans()
    confine.take_away(settings._asdict())
    sys.path[1:1] = [settings.examination]
    import torch

    torch.set_num_threads(1)
    for file in sorted(Path(settings.examination, "probes").glob("*.py")):
        if "__main__" not in file.read_text(encoding="utf-8"):
            importlib.import_module(f"probes.{file.stem}")
    # What most submissions import: once here instead of once for each problem.
    for name in ("einops", "jaxtyping", "regex"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    prepare_to_fork()
    wire.send(channel, wire.encode({"ended": "ready"}), NOW() + 60)
    Server(channel, settings).serve()


if __name__ == "__main__":
    main()
