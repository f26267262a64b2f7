"""Submissions that leave, hang, crash or fill the machine.

How each single call can end is asked of a sandbox (hostile.py); here, what it costs whole.
"""

import os
import time
from pathlib import Path

from zoo.animal import ONCE, RIGHT, adapters_of, animal, softmax_does

MARK = "left-behind-by-the-zoo"
ONE_ITEM = {"partly": ("softmax",)}


@animal(
    "exits during import",
    lost=("silu", "softmax"),
    note="(left|exited) during import",
)
def exits_during_import(folder):
    path = adapters_of(folder)
    path.write_text("import os\n\nos._exit(0)\n" + path.read_text())


softmax_does("ends", "import os\nos._exit(0)", lost=("softmax",), message="exited with status 0")

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
)
softmax_does(
    "computes in C++ for long",
    f"{ONCE}\n    big = torch.ones(6000, 6000)\n    for _ in range(1000):\n"
    f"        big @ big\n{RIGHT}",
    **ONE_ITEM,
    message="s of CPU",
)
softmax_does(
    "deadlocks",
    f"{ONCE}\n    import threading\n    lock = threading.Lock()\n    lock.acquire()\n"
    f"    lock.acquire()\n{RIGHT}",
    **ONE_ITEM,
    message="no answer",
)
# Ten generations and not without end: should the wall not hold, the machine survives.
softmax_does(
    "forks and forks",
    f"""
{ONCE}
    import os, time
    for _ in range(10):
        os.fork()
    time.sleep(1e9)
{RIGHT}
""",
    **ONE_ITEM,
)
softmax_does(
    "asks for 50 GB",
    f"{ONCE}\n    torch.ones(50 * 2**28)\n{RIGHT}",
    **ONE_ITEM,
    message="over [0-9.]+ GB",
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
)
softmax_does(
    "overflows the stack",
    f"{ONCE}\n    import sys\n    sys.setrecursionlimit(10**9)\n"
    f"    def down(x):\n        return sorted([x], key=down)\n    down(1)\n{RIGHT}",
    **ONE_ITEM,
)


def nothing_is_left(_result, _folder):
    """No process of an animal survives its grading by more than a moment."""
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
)
softmax_does(
    "leaves a large temporary file at each call",
    "import tempfile\nwith tempfile.NamedTemporaryFile(delete=False) as file:\n"
    f"    file.write(bytes(40 * 2**20))\n{RIGHT}",
)
