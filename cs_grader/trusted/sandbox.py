"""The sandbox of a submission: what lies in it, what may be used in it, how it is started.

isolation.py says which kinds there are.
"""

import contextlib
import dataclasses
import errno
import functools
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cs_grader import sandbox as inside
from cs_grader.sandbox import confine
from cs_grader.sandbox.processes import descendants, is_over
from cs_grader.sandbox.workplace import remove

# Users that systemd keeps free of people; each grading process takes one of its own.
FIRST_UID, NUM_UIDS = 61184, 4336
NOBODY = 65534
PACKAGE_FOLDERS = ("site-packages", "dist-packages")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
OF_ETC = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a submission may use; CPU time is limited for each probe (connection.py)."""

    memory_bytes: int = 2 * 2**30
    file_bytes: int = 256 * 2**20
    scratch_bytes: int = 512 * 2**20
    # A pool has a process for each processor of the machine.
    processes: int = max(128, 2 * (os.cpu_count() or 1) + 32)
    idle_s: float = 10.0
    """How long a probe may wait for something without computing."""
    problem_idle_s: float = 30.0
    """The same for all probes of a problem together."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The folders that a sandbox is made of; all but `scratch` are only read."""

    root: Path

    @property
    def submission(self) -> Path:
        """The clean copy of what was handed in."""
        return self.root / "submission"

    @property
    def examination(self) -> Path:
        """Probes, and what imports the adapters; no oracle, no rubric."""
        return self.root / "examination/exam"

    @property
    def scratch(self) -> Path:
        """Temporary files, where the sandbox has no memory of its own for them."""
        return self.root / "scratch"


def set_the_stage(root: Path, tests: Path) -> Stage:
    """Copy into a new folder what the sandbox needs besides the submission.

    Args:
        root: An empty folder.
        tests: The folder of the examination.
    """
    stage = bare_stage(root)
    (stage.examination / "probes").mkdir(parents=True)
    shutil.copyfile(tests / "exam/submission.py", stage.examination / "submission.py")
    for probe in sorted((tests / "exam/probes").glob("*.py")):
        shutil.copyfile(probe, stage.examination / "probes" / probe.name)
    return stage


def bare_stage(root: Path) -> Stage:
    """Copy the package cs_grader.sandbox, whole, and nothing else of the grader, into a folder."""
    stage = Stage(root=root)
    root.chmod(0o755)
    stage.scratch.mkdir()
    (root / "cs_grader").mkdir()
    (root / "cs_grader" / "__init__.py").touch()
    source = Path(inside.__file__).parent
    shutil.copytree(
        source, root / "cs_grader" / "sandbox", ignore=shutil.ignore_patterns("__pycache__")
    )
    return stage


@functools.cache
def own_uid() -> int:
    """The user that a submission of this process runs as; no other process has it meanwhile."""
    for attempt in range(NUM_UIDS):
        uid = FIRST_UID + (os.getpid() + attempt) % NUM_UIDS
        # The kernel gives an abstract name to one process at a time, and takes it back by itself.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0cs_grader-{uid}")
        except OSError:
            claim.close()
        else:
            claim.detach()  # It stays open as long as this process lives.
            return uid
    raise OSError(errno.EAGAIN, "no user id is free for a submission")


def has_real_root() -> bool:
    """Whether bubblewrap can do without a user namespace, so that limits per user hold."""
    return os.geteuid() == 0


def counts_in_namespaces() -> bool:
    """Whether the kernel counts the processes of a user namespace by themselves (Linux 5.14)."""
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (5, 14)


def settings_of(isolation: str, stage: Stage, limits: Limits) -> dict[str, Any]:
    """What the worker has to know, except `own_names`."""
    writable = [str(stage.scratch), "/dev/shm", "/dev/null", "/dev/zero", "/dev/full"]
    folders = [*map(str, interpreter_folders()), *SYSTEM, *OF_ETC, "/proc", "/sys", "/dev"]
    has_own_uid = isolation == "uid" or (isolation == "bubblewrap" and has_real_root())
    return {
        "submission": f"{scratch_of(isolation, stage)}/submission",
        "original": str(stage.submission),
        # A plain process shares /dev/shm with all else that its user runs.
        "scratch": [
            scratch_of(isolation, stage),
            *(["/dev/shm"] if isolation != "process" else []),
        ],
        "examination": str(stage.examination),
        "packages": [path for path in sys.path if path.endswith(PACKAGE_FOLDERS)],
        "own_names": [],
        "uid": own_uid() if has_own_uid else None,
        "is_counted_alone": has_own_uid or (isolation == "bubblewrap" and counts_in_namespaces()),
        "readable": [*folders, "/etc/localtime", str(stage.root)] if isolation == "uid" else None,
        "writable": writable,
        "allow_network": isolation != "uid",
        "memory_bytes": limits.memory_bytes,
        "file_bytes": limits.file_bytes,
        "processes": limits.processes,
        "idle_s": limits.idle_s,
    }


def interpreter() -> str:
    """Python, by the folder that it really is in: a link to that folder does not exist inside."""
    executable = Path(sys.executable)
    return str(executable.parent.resolve() / executable.name)


def interpreter_folders() -> list[Path]:
    """Where Python and its packages are."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)]
    found += [Path(path) for path in sys.path if path.endswith(PACKAGE_FOLDERS)]
    unique: list[Path] = []
    for folder in (path.resolve() for path in found):
        if not any(folder.is_relative_to(other) for other in unique) and folder != Path("/"):
            unique.append(folder)
    return unique


def scratch_of(isolation: str, stage: Stage) -> str:
    """The folder of temporary files, as it is called inside."""
    return "/tmp" if isolation == "bubblewrap" else str(stage.scratch)


def environment(stage: Stage, isolation: str) -> dict[str, str]:
    """All that the submission sees of the environment."""
    scratch = scratch_of(isolation, stage)
    return {
        "PATH": f"{Path(interpreter()).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "student",
        "LOGNAME": "student",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        # Otherwise sets of strings have another order each time, and verdicts may differ with it.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        # torch.compile leaves functions as they are: compiling takes longer than any probe may.
        "TORCH_COMPILE_DISABLE": "1",
        "MPLBACKEND": "Agg",
        "WANDB_MODE": "offline",
        "HF_HUB_OFFLINE": "1",
    }


def command(isolation: str, stage: Stage, limits: Limits) -> list[str]:
    """The command that starts the sandbox; append what is to run inside."""
    if isolation != "bubblewrap":
        return []
    command = ["bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--hostname", "sandbox", "--cap-drop", "ALL"]
    if has_real_root():
        # The worker becomes another user by itself: the kernel limits the processes of a user, but
        # neither those of root nor those of a user that is root under another name in a namespace.
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for place in ("/tmp", "/dev/shm"):
        command += ["--perms", "1777", "--size", str(limits.scratch_bytes), "--tmpfs", place]
    # After the empty /tmp, which would hide a Python that lies there.
    command += _libraries()
    command += [*_show(stage.root), "--chdir", str(stage.root)]
    for name, value in environment(stage, isolation).items():
        command += ["--setenv", name, value]
    return [*command, "--"]


def _libraries() -> list[str]:
    """Let bubblewrap show what Python needs, read-only."""
    command: list[str] = []
    for folder in map(Path, SYSTEM):
        if folder.is_symlink():
            command += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.exists():
            command += ["--ro-bind", str(folder), str(folder)]
    for place in (*OF_ETC, "/etc/localtime"):
        command += ["--ro-bind-try", place, place]
    for folder in interpreter_folders():
        if not folder.is_relative_to("/usr"):
            command += _show(folder)
    return command


def _show(folder: Path) -> list[str]:
    """Let bubblewrap show a folder, read-only; the folders above it show nothing else."""
    command: list[str] = []
    for above in reversed(folder.parents[:-1]):
        # Bubblewrap would make these folders for root alone. One that exists stays as it is.
        command += ["--perms", "0755", "--dir", str(above)]
    return [*command, "--ro-bind", str(folder), str(folder)]


def start(
    isolation: str, stage: Stage, limits: Limits, more: dict[str, Any], output: int
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the sandbox with a worker in it.

    Args:
        isolation: One of isolation.ISOLATIONS.
        stage: The folders.
        limits: What it may use.
        more: The worker's remaining settings.
        output: File descriptor for what is printed inside.

    Returns:
        The process, and the socket that the worker listens to.
    """
    settings = settings_of(isolation, stage, limits) | more
    program = str(stage.root / "cs_grader" / "sandbox" / "worker.py")
    worker = [interpreter(), "-P", "-s", "-B", program]
    outer = command(isolation, stage, limits)
    if isolation != "bubblewrap":
        with contextlib.suppress(OSError):
            remove(stage.scratch)
        stage.scratch.mkdir(exist_ok=True)
    if isolation == "uid":
        os.chown(stage.scratch, own_uid(), own_uid())
        # Others that are graded at the same time run as other users.
        os.chown(stage.root, 0, own_uid())
        stage.root.chmod(0o750)
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [*outer, *worker, json.dumps(settings)],
            stdin=theirs.fileno(),
            stdout=output,
            stderr=output,
            cwd="/",
            env=environment(stage, isolation),
            start_new_session=True,
            preexec_fn=confine.die_with_parent,
        )
    return process, ours


def sweep(isolation: str) -> None:
    """Kill what a sandbox has left, and empty its shared memory; bubblewrap leaves nothing."""
    if isolation == "bubblewrap" or not Path("/proc/self/stat").exists():
        return
    _kill_left(isolation)
    if isolation == "uid":
        empty_shared_memory(own_uid())


def _kill_left(isolation: str) -> None:
    for _ in range(200):
        left = [pid for pid in _left_behind(isolation) if pid != os.getpid() and not is_over(pid)]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.005)


def empty_shared_memory(uid: int) -> None:
    """Delete what a user has in /dev/shm, which would take the room of the next submission."""
    for path in Path("/dev/shm").glob("*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == uid:
                remove(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _left_behind(isolation: str) -> Iterator[int]:
    """Processes below this one, which adopts orphans, and those of the sandbox's own user."""
    uid = own_uid() if isolation == "uid" else None
    yield from descendants(os.getpid())
    for folder in Path("/proc").iterdir() if uid is not None else ():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and folder.stat().st_uid == uid:
                yield int(folder.name)
