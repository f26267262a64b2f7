"""What a process takes away from itself before it lets a submission in; none of it comes back.

Another user, no new privileges, a filter for system calls (seccomp) and a list of folders that it
may read or write (landlock, where the kernel has it). Linux only; standard library only.
"""

import contextlib
import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
SECCOMP_MODE_FILTER = 2
SIGKILL = 9
EPERM, EACCES = 1, 13

Calls = Mapping[str, int | tuple[int, ...]]
# System calls by which a process could reach others, the network past the filter, or the kernel,
# those that get memory which no limit counts (memfd_create, memfd_secret, shmget), those that keep
# something for the next process (semget, msgget, mq_open), and those that start another program, in
# which nothing of what a submission may not use is blocked.
DENIED: dict[str, Calls] = {
    "x86_64": {
        "socket": 41,
        "kill": 62,
        "affinity": 203,
        "denied": (
            *(59, 322),  # execve, execveat
            *(64, 68, 240),  # semget, msgget, mq_open
            *(29, 101, 155, 165, 166, 167, 169, 175, 176, 246, 248, 249, 250, 272, 298, 304, 308),
            *(310, 311, 313, 319, 321, 323, 425, 428, 429, 430, 431, 432, 442, 447),
        ),
        "audit": 0xC000003E,
    },
    "aarch64": {
        "socket": 198,
        "kill": 129,
        "affinity": 122,
        "denied": (
            *(221, 281),  # execve, execveat
            *(190, 186, 180),  # semget, msgget, mq_open
            *(39, 40, 41, 97, 104, 105, 106, 117, 142, 194, 217, 218, 219, 224, 241, 265, 268, 270),
            *(271, 273, 279, 280, 282, 425, 428, 429, 430, 431, 432, 442, 447),
        ),
        "audit": 0xC00000B7,
    },
}

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
READ = 0b1101  # execute, read_file, read_dir
OF_A_FILE = 0b1100_0000_0000_0111  # execute, write, read, truncate, ioctl


class Settings(NamedTuple):
    """What the grader decides about the sandbox."""

    submission: str
    """Where it runs: a copy that it may write to (workplace.py)."""
    original: str
    """What `submission` is a copy of."""
    scratch: list[str]
    """Folders for temporary files, emptied before each import; the copy is in the first."""
    examination: str
    packages: list[str]
    """Folders that are added to the end of the import path."""
    own_names: list[str]
    """Top-level modules and packages of the submission itself."""
    uid: int | None
    """Become this user; None if that is not possible or done already."""
    is_counted_alone: bool
    """Whether the kernel counts the processes of the sandbox, and not those of a whole user."""
    readable: list[str] | None
    """Allow to read only these folders; None to leave that to the sandbox."""
    writable: list[str]
    allow_network: bool
    memory_bytes: int
    file_bytes: int
    processes: int
    idle_s: float


def take_away(settings: Settings) -> None:
    """Apply every restriction that a worker's settings ask for, in an order that works."""
    if settings.uid is not None:
        become(settings.uid)
    die_with_parent()
    hide_memory()
    if settings.readable is not None:
        allow_only(settings.readable, settings.writable)
    filter_system_calls(settings.allow_network)


def prctl(option: int, value: int, pointer: object = None) -> bool:
    """Ask the kernel for a property of this process; say whether it worked."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(option, ctypes.c_ulong(value), pointer, 0, 0) == 0


def die_with_parent() -> None:
    """Be killed when the parent ends (until the process changes its user)."""
    prctl(PR_SET_PDEATHSIG, SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none is lost sight of."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Let no process of the same user trace this one or read its memory."""
    prctl(PR_SET_DUMPABLE, 0)


def become(uid: int) -> None:
    """Turn root into another user and group, for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def limit(what: int, amount: int) -> None:
    """Lower a resource limit, unless it is lower already."""
    _, hard = resource.getrlimit(what)
    least = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (least, least))


def limit_memory(num_bytes: int) -> None:
    """Limit the memory of this process and of those it starts; each may raise the limit again."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (num_bytes, hard))


def filter_system_calls(allow_network: bool) -> bool:
    """Deny tracing, mounting, kernel interfaces, programs and signals to every process at once.

    Args:
        allow_network: Leave sockets alone: a network namespace has taken care of them.

    Returns:
        Whether the filter is in place.
    """
    calls = DENIED.get(platform.machine())
    return calls is not None and _deny(calls, allow_network)


def keep_processors() -> bool:
    """Deny choosing other processors than those that this process has, to it and what it starts.

    Returns:
        Whether the filter is in place.
    """
    calls = DENIED.get(platform.machine())
    if calls is None or not isinstance(call := calls["affinity"], int):
        return False
    return _deny({**calls, "denied": (call,)}, allow_network=True)


def _deny(machine: Calls, allow_network: bool) -> bool:
    """Put a filter for system calls in place."""
    if not prctl(PR_SET_NO_NEW_PRIVS, 1):
        return False
    program = _filter(machine, allow_network)
    code = ctypes.create_string_buffer(program)
    count = len(program) // 8
    # struct sock_fprog: the number of instructions and where they are.
    pointer = struct.pack("HxxxxxxP", count, ctypes.addressof(code))
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(pointer))


def _filter(machine: Calls, allow_network: bool) -> bytes:
    """Assemble the classic BPF program; every instruction is (code, jump if, else, value)."""
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000
    no = (answer, 0, 0, refuse | EPERM)
    steps = [
        (load, 0, 0, 4),
        (equal, 1, 0, machine["audit"]),
        no,
        (load, 0, 0, 0),
        (at_least, 0, 1, 0x40000000),  # The x32 variants of all calls.
        no,
    ]
    denied = machine["denied"]
    for number in denied if isinstance(denied, tuple) else ():
        steps += [(equal, 0, 1, number), no]
    # kill(-1, ...) means every process.
    steps += [(equal, 0, 3, machine["kill"]), (load, 0, 0, 16), (equal, 0, 1, 0xFFFFFFFF), no]
    steps += [(load, 0, 0, 0)]
    if not allow_network:
        unreachable = (answer, 0, 0, refuse | EACCES)
        steps += [(equal, 0, 3, machine["socket"]), (load, 0, 0, 16), (equal, 1, 0, 1)]
        steps += [unreachable]
    steps += [(answer, 0, 0, allow)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)  # pyright: ignore[reportArgumentType]


def landlock_version() -> int:
    """Version of landlock that the kernel offers; 0 if none."""
    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return max(libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1), 0)


def allow_only(readable: Iterable[str], writable: Sequence[str]) -> bool:
    """Restrict this process to some folders and files, and its signals to its own descendants.

    Returns:
        Whether the restriction is in place.
    """
    version = landlock_version()
    if version == 0 or not prctl(PR_SET_NO_NEW_PRIVS, 1):
        return False
    # Rights come with versions: 13 at first, then refer, truncate, (network), ioctl.
    everything = (1 << (13, 14, 15, 15, 16)[min(version, 5) - 1]) - 1
    fields = (everything, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    libc = ctypes.CDLL(None, use_errno=True)
    rules = libc.syscall(LANDLOCK_CREATE, struct.pack("QQQ", *fields), ctypes.c_size_t(size), 0)
    if rules < 0:
        return False
    try:
        for path in readable:
            _allow(libc, rules, path, READ)
        for path in writable:
            _allow(libc, rules, path, everything)
        return libc.syscall(LANDLOCK_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # What is not there needs no rule.
    try:
        if not os.path.isdir(path):  # noqa: PTH112  # Runs where pathlib need not be imported.
            rights &= OF_A_FILE
        rule = struct.pack("=Qi", rights, place)
        libc.syscall(LANDLOCK_ADD, rules, 1, rule, 0)
    finally:
        os.close(place)
