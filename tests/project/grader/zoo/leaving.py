"""Submissions that leave, hang, crash or fill the machine."""

import os
import time
from pathlib import Path

from zoo.animal import ONCE, RIGHT, adapters_of, animal, softmax_does

MARK = "left-behind-by-the-zoo"
ONE_ITEM = {"partly": ("softmax",)}


@animal(
    1,
    "exits during import",
    lost=("silu", "softmax"),
    note="(left|exited) during import",
)
def exits_during_import(folder):
    path = adapters_of(folder)
    path.write_text("import os\n\nos._exit(0)\n" + path.read_text())


for how, message in (
    ("import os\nos._exit(0)", "exited with status 0"),
    ("import sys\nsys.exit(0)", "sys.exit|exited"),
    ("raise SystemExit", "sys.exit|exited"),
):
    softmax_does(
        2,
        f"ends by {how.splitlines()[-1].split('(')[0]}",
        how,
        lost=("softmax",),
        message=message,
    )

softmax_does(
    3, "loops", f"{ONCE}\n    while True:\n        pass\n{RIGHT}", **ONE_ITEM, message="s of CPU"
)
softmax_does(
    4,
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
    5,
    "computes in C++ for long",
    f"{ONCE}\n    big = torch.ones(6000, 6000)\n    for _ in range(1000):\n"
    f"        big @ big\n{RIGHT}",
    **ONE_ITEM,
    message="s of CPU",
)
softmax_does(
    6,
    "sleeps",
    f"{ONCE}\n    import time\n    time.sleep(1e9)\n{RIGHT}",
    **ONE_ITEM,
    message="no answer",
)
softmax_does(
    6,
    "deadlocks",
    f"{ONCE}\n    import threading\n    lock = threading.Lock()\n    lock.acquire()\n"
    f"    lock.acquire()\n{RIGHT}",
    **ONE_ITEM,
    message="no answer",
)
softmax_does(6, "asks for input", f"input()\n{RIGHT}", lost=("softmax",), message="EOF")
# Ten generations and not without end: should the wall not hold, the machine survives.
softmax_does(
    7,
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
    8,
    "asks for 50 GB",
    f"{ONCE}\n    torch.ones(50 * 2**28)\n{RIGHT}",
    **ONE_ITEM,
    message="over [0-9.]+ GB",
)
softmax_does(
    8,
    "asks for 50 GB in lists",
    f"{ONCE}\n    held = []\n    while True:\n        held.append(bytearray(2**24))\n{RIGHT}",
    **ONE_ITEM,
    message="over [0-9.]+ GB",
)
softmax_does(
    9,
    "leaks with every call",
    f"HELD.append(torch.ones(50_000_000))\n{RIGHT}",
    at_import="HELD = []",
)
softmax_does(
    10,
    "segmentation fault",
    f"import ctypes\n{ONCE}\n    ctypes.string_at(0)\n{RIGHT}",
    **ONE_ITEM,
    message="crashed with SIGSEGV",
    policy=("needs review ctypes",),
)
softmax_does(
    10,
    "aborts",
    f"{ONCE}\n    import os\n    os.abort()\n{RIGHT}",
    **ONE_ITEM,
    message="crashed with SIGABRT",
)
softmax_does(
    10,
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
    23,
    "leaves threads behind",
    f"""
import threading, time
threading.Thread(target=time.sleep, args=(1e9,), daemon=True).start()
threading.Thread(target=time.sleep, args=(1e9,), daemon=False).start()
{RIGHT}
""",
)
softmax_does(
    23,
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
for target in ("0", "-1", "os.getppid()"):
    softmax_does(
        24,
        f"kills {target.strip('()')}",
        # It must not run as whoever grades: -1 is every process of that user.
        f"import os, signal\nassert os.getuid() != {os.getuid()}\n"
        f"{ONCE}\n    os.kill({target}, signal.SIGKILL)\n{RIGHT}",
        **ONE_ITEM,
    )
softmax_does(
    4,
    "stops the server of the sandbox",
    "import os, signal, time\nabove = open(f'/proc/{os.getppid()}/stat').read().rpartition(')')\n"
    "os.kill(int(above[2].split()[1]), signal.SIGSTOP)\ntime.sleep(1e6)",
    lost=("softmax",),
    message="waited for 12 s without computing anything",
    seconds=120,
)
softmax_does(
    8,
    "hoards memory without a name",
    "import os\nfor _ in range(14):\n    HOARD.append(os.memfd_create('hoard'))\n"
    f"    os.write(HOARD[-1], bytes(200 * 2**20))\n{RIGHT}",
    at_import="HOARD = []",
    lost=("softmax",),
    message="PermissionError",
)
softmax_does(
    9,
    "leaves a large temporary file at each call",
    "import tempfile\nwith tempfile.NamedTemporaryFile(delete=False) as file:\n"
    f"    file.write(bytes(40 * 2**20))\n{RIGHT}",
)
softmax_does(
    23,
    "starts a thread at import",
    RIGHT,
    at_import="import threading, time\n"
    "threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()",
)
softmax_does(
    23,
    "computes with threads at import",
    RIGHT,
    at_import="torch.set_num_threads(2)\ntorch.randn(700, 700) @ torch.randn(700, 700)",
)
