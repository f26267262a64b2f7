"""Submissions that leave, hang, crash or fill the machine."""

import os
import time
from pathlib import Path

from attacks.attack import ADAPTERS, ONCE, RIGHT, has_files, softmax_does

MARK = "left-behind-by-an-attack"
ONE_ITEM = {"partly": ("softmax",)}


has_files(
    "exits during import",
    {ADAPTERS: lambda was: f"import os\n\nos._exit(0)\n{was}"},
    lost=("silu", "softmax"),
    note="(left|exited) during import",
)
ENDS = "exited with status 0"
softmax_does("ends", "import os\nos._exit(0)", lost=("softmax",), message=ENDS, seen=ENDS)


softmax_does(
    "loops and catches everything",
    f"""
{ONCE}
    import signal
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
{RIGHT}
""",
    **ONE_ITEM,
    message="s of CPU",
    seen=r"over 2 s of CPU",
)
softmax_does(
    "computes in C++ for long",
    f"{ONCE}\n    big = torch.ones(6000, 6000)\n    for _ in range(1000):\n"
    f"        big @ big\n{RIGHT}",
    **ONE_ITEM,
    message="s of CPU",
    seen=r"over 2 s of CPU",
)
softmax_does(
    "deadlocks",
    f"{ONCE}\n    import threading\n    lock = threading.Lock()\n    lock.acquire()\n"
    f"    lock.acquire()\n{RIGHT}",
    **ONE_ITEM,
    message="no answer",
    seen="no answer: waited for 2 s without computing anything",
)
# Ten generations and not without end: should the sandbox not hold, the machine survives.
softmax_does(
    "forks and forks",
    f"""
{ONCE}
    import contextlib, os, time
    for _ in range(10):
        with contextlib.suppress(OSError):
            os.fork()
    time.sleep(1e9)
{RIGHT}
""",
    **ONE_ITEM,
    seen=".",
    needs_sandbox=True,
)
softmax_does(
    "asks for 50 GB",
    f"{ONCE}\n    torch.ones(50 * 2**28)\n{RIGHT}",
    **ONE_ITEM,
    message="over [0-9.]+ GB",
    seen="RuntimeError: over 1 GB",
)
softmax_does(
    "leaks with every call",
    f"HELD.append(torch.ones(50_000_000))\n{RIGHT}",
    at_import="HELD = []",
)
softmax_does(
    "segmentation fault",
    f"import ctypes\n{ONCE}\n    ctypes.string_at(0)\n{RIGHT}",
    **ONE_ITEM,
    message="crashed with SIGSEGV",
    policy=("needs review ctypes",),
    seen="crashed with SIGSEGV",
)
softmax_does(
    "overflows the stack",
    f"{ONCE}\n    import sys\n    sys.setrecursionlimit(10**9)\n"
    f"    def down(x):\n        return sorted([x], key=down)\n    down(1)\n{RIGHT}",
    **ONE_ITEM,
    seen="crashed with SIGSEGV|RecursionError|over",
)


def nothing_is_left(_result, _folder):
    """No process of it survives its grading by more than a moment."""
    deadline = time.monotonic() + 5
    while (left := marked_processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, f"processes {left} are left behind"


def marked_processes():
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if MARK in entry.read_bytes().decode("utf-8", "replace"):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


softmax_does(
    "leaves threads behind",
    f"""
import threading, time
threading.Thread(target=time.sleep, args=(1e9,), daemon=True).start()
threading.Thread(target=time.sleep, args=(1e9,), daemon=False).start()
{RIGHT}
""",
    seen=r"returned \(3,\)",
)
softmax_does(
    "leaves a daemon behind",
    f"""
import os, sys
{ONCE}
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            program = "import time, sys; time.sleep(600); sys.argv"
            os.execv(sys.executable, [sys.executable, "-c", program, {MARK!r}])
        os._exit(0)
{RIGHT}
""",
    policy=("needs review os.execv",),
    check=nothing_is_left,
    seen=r"returned \(3,\)",
    needs_sandbox=True,
)
softmax_does(
    "leaves a large temporary file at each call",
    "import tempfile\nwith tempfile.NamedTemporaryFile(delete=False) as file:\n"
    f"    file.write(bytes(40 * 2**20))\n{RIGHT}",
)
softmax_does(
    "aborts",
    f"{ONCE}\n    import os\n    os.abort()\n{RIGHT}",
    **ONE_ITEM,
    message="crashed with SIGABRT",
    seen="crashed with SIGABRT",
)
softmax_does(
    "asks Python to exit",
    "import sys\nsys.exit('enough')",
    lost=("softmax",),
    message=r"sys\.exit\(enough\) was called",
    seen=r"SystemExit: sys\.exit\(enough\) was called",
)
softmax_does(
    "asks Python for 50 GB",
    f"{ONCE}\n    bytearray(50 * 2**30)\n{RIGHT}",
    **ONE_ITEM,
    message="over [0-9.]+ GB",
    seen="MemoryError: over 1 GB",
)
for name, pid, seen in (
    ("kills its group", "0", "crashed with SIGKILL"),
    ("kills everything", "-1", "PermissionError: .*Operation not permitted"),
    ("kills its parent", "os.getppid()", "ended the whole sandbox"),
):
    softmax_does(
        name,
        f"import os, signal\n{ONCE}\n    os.kill({pid}, signal.SIGKILL)\n{RIGHT}",
        **ONE_ITEM,
        seen=seen,
    )
softmax_does(
    "reads its input",
    f"{ONCE}\n    input()\n{RIGHT}",
    **ONE_ITEM,
    message="EOF",
    seen="EOFError: EOF when reading a line",
)
WAITED = "no answer: waited for 4 s without computing anything"
softmax_does(
    "stops the server",
    f"""
import os, signal, time
{ONCE}
    os.kill(os.getppid(), signal.SIGSTOP)
    while True:
        time.sleep(1)
{RIGHT}
""",
    **ONE_ITEM,
    message="no answer",
    seen=WAITED,
)
softmax_does(
    "computes a thirtieth of the time",
    f"""
import time
{ONCE}
    while True:
        until = time.process_time() + 0.03
        while time.process_time() < until:
            pass
        time.sleep(0.97)
{RIGHT}
""",
    **ONE_ITEM,
    message="no answer",
    seen=WAITED,
    needs_sandbox=True,
)
softmax_does(
    "answers in drops",
    f"""
import os, time
{ONCE}
    piece = b"csg1" + (10**6).to_bytes(4, "big") + bytes(4)
    while True:
        for handle in range(3, 30):
            try:
                os.write(handle, piece)
            except OSError:
                pass
        piece = b"1"
        time.sleep(0.2)
{RIGHT}
""",
    **ONE_ITEM,
    message="no answer",
    seen=WAITED,
)
softmax_does(
    "begins an answer and fills memory that is shared",
    f"""
import mmap, os, resource, time
{ONCE}
    for handle in range(3, 30):
        try:
            os.write(handle, b"c")
        except OSError:
            pass
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    shared = mmap.mmap(-1, limit + 3 * 2**28)
    shared[::4096] = bytes(len(range(0, len(shared), 4096)))
    time.sleep(1e6)
{RIGHT}
""",
    **ONE_ITEM,
    message="over 2 GB",
    seen="over 1 GB",
)
