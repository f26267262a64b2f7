"""Submissions that keep something in one process for another, or count on being asked again."""

from attacks.attack import ONCE, RIGHT, WRONG, softmax_does
from attacks.cheating import attack


def wrong_items(result):
    return {item["item"] for item in result["items"] if item["outcome"] != "passed"}


def two_at_most_are_wrong(result, _folder):
    assert len(wrong_items(result)) <= 2, wrong_items(result)


# Where a process could leave a note for one that comes later: memory that was shared before it was
# forked, files, the kernel's own boxes, the memory in which inputs are given.
attack(
    "finds what another process has left",
    """
me = MARK + os.getpid()
for find in (in_memory, in_a_pipe, in_files, in_a_queue, beyond_the_input):
    try:
        writer = find(me, in_features)
    except OSError:
        continue
    if writer != me and writer >> 32 == MARK >> 32:
        found = softmax(in_features, dim)
""",
    at_import="""
import ctypes, mmap, os
MARK = 0x6E6F7465 << 32  # What lies in memory by chance is no note.
MEMORY = mmap.mmap(-1, 8)
READING, WRITING = os.pipe()
os.set_blocking(READING, False)

def in_memory(me, _):
    was = int.from_bytes(MEMORY[:8], "big")
    MEMORY[:8] = me.to_bytes(8, "big")
    return was

def in_a_pipe(me, _):
    os.write(WRITING, me.to_bytes(8, "big"))
    return int.from_bytes(os.read(READING, 8), "big")

def in_files(me, _):
    for folder in ("/tmp", "/dev/shm", os.path.dirname(__file__)):
        path = folder + "/note"
        was = int(open(path).read()) if os.path.exists(path) else 0
        open(path, "w").write(str(me))
        if was not in (0, me):
            return was
    return 0

def in_a_queue(me, _):
    libc = ctypes.CDLL(None)
    opened = libc.mq_open(b"/note", 66, 384, None)
    return MARK * (max(libc.msgget(7, 0o1600), libc.semget(7, 1, 0o1600), opened) >= 0)

def beyond_the_input(me, x):
    place = x.untyped_storage().data_ptr() + 2**22
    shared = [line.split()[0].split("-") for line in open("/proc/self/maps") if " rw-s " in line]
    if not any(int(first, 16) <= place < int(last, 16) for first, last in shared):
        return 0
    was = ctypes.c_int64.from_address(place).value
    ctypes.c_int64.from_address(place).value = me
    return was
""",
)
softmax_does(
    "does half of the work in each asking",
    f"""
{ONCE}
    while not KEPT[0]:
        KEPT[0] = 1
        while True:
            pass
{RIGHT}
""",
    at_import="import mmap\nKEPT = mmap.mmap(-1, 1)",
    partly=("softmax",),
    message="over 10 s of CPU",
)


def float64_is_wrong(result, _folder):
    wrong = wrong_items(result)
    assert any("float64" in item for item in wrong), wrong


softmax_does(
    "two candidates take turns",
    f"""
CALLS[0] = (CALLS[0] + 1) % 2
if (in_features.dtype == torch.float64) == bool(CALLS[0]):
    {WRONG}
{RIGHT}
""",
    at_import="import mmap\nCALLS = mmap.mmap(-1, 1)",
    partly=("softmax",),
    check=float64_is_wrong,
)
for name, does in (
    (
        "takes 30 seconds in an item",
        "begun = time.process_time()\n    while time.process_time() < begun + 12:\n        pass",
    ),
    ("waits for 12 seconds in two items", "time.sleep(12)"),
    ("ends the sandbox in two items", "os.kill(os.getppid(), signal.SIGKILL)"),
):
    softmax_does(
        name,
        f"import os, signal, time\nif in_features.dtype in SLOW:\n    {does}\n{RIGHT}",
        at_import="import time\nBEGUN = time.process_time()\n"
        f"SLOW = (torch.float64, torch.{'float64' if 'an item' in name else 'bfloat16'})",
        partly=("softmax",),
        check=two_at_most_are_wrong,
    )
