"""Which kinds of sandbox there are, and which of them work on this machine.

    bubblewrap  namespaces: no network, no other process, nothing to read but libraries and the
                submission, nothing to write but a little memory
    uid         for root in a container that allows no namespaces: another user, a filter for system
                calls, and landlock where the kernel has it
    process     a plain process with limits; the submission can read what its user can read

How many processes a submission starts is limited by the kernel, but for "process", and for
"bubblewrap" that a plain user puts up on a kernel before 5.14: there watch.py ends what has more,
and a bomb is several times as large when it looks.

Each is tried before it is used: a process inside looks for a few milliseconds whether network and
files are out of reach.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cs_grader.trusted import sandbox
from cs_grader.trusted.sandbox import Stage, bare_stage

ISOLATIONS = ("bubblewrap", "uid", "process")
LEAST = "uid"
PACKAGE = Path(__file__).parents[1]
# No submission may read the grader, the reference or the examination.
CLOSED = (PACKAGE, PACKAGE.parent / "cs_basics", PACKAGE.parent / "tests")

# Does to itself what the worker does, then looks around: what is within reach?
PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
import json, os, socket
from cs_grader.sandbox import confine
settings = confine.Settings(**json.loads(sys.argv[2]))
sys.path += settings.packages
confine.take_away(settings)
def can(action):
    try:
        action()
    except OSError as error:
        return isinstance(error, TimeoutError)
    return True
def connect():
    with socket.socket() as one:
        one.settimeout(0.2)
        one.connect(("192.0.2.1", 9))
import ctypes, numpy
open_ones = [path for path in sys.argv[3:] if can(lambda: os.listdir(path))]
print(json.dumps({"network": can(connect), "open": open_ones}))
"""


def choose_isolation(required: str | None = None) -> str:
    """Return the strongest isolation that works here.

    Args:
        required: Accept this kind or a stronger one only. A plain process is hardly a sandbox: it
            has to be asked for by name.

    Raises:
        ValueError: None that is strong enough works; says why.
    """
    weakest = ISOLATIONS.index(required or LEAST)
    reasons: list[str] = []
    for isolation in ISOLATIONS[: weakest + 1]:
        reason = why_not(isolation)
        if not reason:
            return isolation
        reasons.append(f"{isolation}: {reason}")
    if required is None:
        raise ValueError(
            "nothing here keeps a submission away from your files: install bubblewrap (Debian:"
            f" apt-get install bubblewrap), or grade without, --require-isolation {ISOLATIONS[-1]}"
            f" ({'; '.join(reasons)})"
        )
    raise ValueError(f"no isolation of {required} or stronger works here ({'; '.join(reasons)})")


def why_not(isolation: str) -> str:
    """Say why an isolation does not work here; "" if it does."""
    if isolation == "process":
        return ""
    if not sys.platform.startswith("linux"):
        return f"needs Linux, this is {sys.platform}"
    if isolation == "bubblewrap" and not shutil.which("bwrap"):
        return "bwrap is not installed (Debian: apt-get install bubblewrap)"
    if isolation == "uid" and os.geteuid() != 0:
        return "needs root"
    if isolation == "uid" and (closed := _closed_to_others(sandbox.interpreter_folders())):
        return f"Python lies in {closed}, which other users may not enter: install it elsewhere"
    with tempfile.TemporaryDirectory(prefix="cs_grader-") as folder:
        return _try(isolation, bare_stage(Path(folder)))


def _closed_to_others(folders: Sequence[Path]) -> Path | None:
    """Return the first folder, of these or on the way to them, that only its owner may enter."""
    for folder in folders:
        for step in (*reversed(folder.parents), folder):
            if not step.stat().st_mode & stat.S_IXOTH:
                return step
    return None


def _try(isolation: str, stage: Stage) -> str:
    """Look around from the inside."""
    settings = sandbox.settings_of(isolation, stage, sandbox.Limits())
    arguments = [str(stage.root), json.dumps(settings), *map(str, CLOSED)]
    python = [sandbox.interpreter(), "-P", "-s", "-B", "-c", PROBE]
    command = [*sandbox.command(isolation, stage, sandbox.Limits()), *python]
    try:
        finished = subprocess.run(
            [*command, *arguments],
            env=sandbox.environment(stage, isolation),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    try:
        seen = json.loads(finished.stdout)
    except ValueError:
        lines = finished.stderr.strip().splitlines() or [f"exit status {finished.returncode}"]
        return lines[-1]
    if seen["network"]:
        return "the network can be reached from the inside"
    if seen["open"]:
        which = " and ".join(seen["open"])
        return f"{which} can be read from the inside: keep others from reading that"
    return ""
