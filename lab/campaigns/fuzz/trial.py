"""Run a script in a forked process, and judge how it ended.

The parent has imported everything, so that a trial costs milliseconds instead of seconds.
"""

import contextlib
import os
import resource
import runpy
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from lab import ROOT

SCRIPTS = ROOT / "scripts"

MAX_CPU_S = 10
MAX_S = 60.0
"""For what waits instead of computing; generous, since other programs may be running beside."""
MAX_BYTES = 1_000_000_000
DATA_BYTES = 3_000_000_000
"""Beyond it an allocation fails: a protection of this machine. What counts is what was used."""


@dataclass(frozen=True)
class Ending:
    """How a script ended."""

    code: int
    """Exit code; negative: the signal that ended it."""
    out: str
    err: str
    elapsed_s: float
    peak_bytes: int
    """Memory beyond what the process had when it began."""

    def complaints(self) -> list[str]:
        """Say what a script must not do, whatever it reads."""
        found: list[str] = []
        if "Traceback" in self.err:
            found.append("traceback")
        if self.code in (-signal.SIGXCPU, -signal.SIGKILL):
            found.append(f"hang: {self.elapsed_s:.1f} s")
        elif self.code not in (0, 2):
            found.append(f"exit code {self.code}")
        if self.peak_bytes > MAX_BYTES:
            found.append(f"memory: {self.peak_bytes / 1e6:.0f} MB")
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        if self.code == 2 and (len(errors) != 1 or not self.err.endswith(errors[0] + "\n")):
            found.append(f"{len(errors)} lines that say what is wrong")
        return found


def run_script(arguments: list[str], folder: Path) -> Ending:
    """Run a script by its name with the rest of the arguments in a folder.

    Args:
        arguments: Name and flags.
        folder: The working folder; out.txt and err.txt beside it are replaced.
    """
    out, err = folder.with_name("out.txt"), folder.with_name("err.txt")
    sys.stdout.flush()
    sys.stderr.flush()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _redirect(out, err)
            _limit()
            os.chdir(folder)
            code = _run(arguments)
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    status, usage = _wait(child, started + MAX_S)
    return Ending(
        code=os.waitstatus_to_exitcode(status),
        out=out.read_text("utf-8", "replace"),
        err=err.read_text("utf-8", "replace"),
        elapsed_s=time.monotonic() - started,
        peak_bytes=max(0, 1024 * usage.ru_maxrss - _resident_bytes()),
    )


def _wait(child: int, deadline: float) -> tuple[int, resource.struct_rusage]:
    pause_s = 0.001
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return status, usage
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return status, usage
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.02)


def _redirect(out: Path, err: Path) -> None:
    for path, number in ((out, 1), (err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    # Streams of their own: pytest may have put others in place of these.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _limit() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    # Not RLIMIT_AS: that a file is mapped into memory costs none.
    resource.setrlimit(resource.RLIMIT_DATA, (used + DATA_BYTES, used + DATA_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _run(arguments: list[str]) -> int:
    path = str(SCRIPTS / f"{arguments[0]}.py")
    sys.argv = [path, *arguments[1:]]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
