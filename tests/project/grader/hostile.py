"""Adapters that do what no submission should, a number for each action, and how to ask them."""

import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from files import write_files

from cs_grader.trusted import sandbox
from cs_grader.trusted.connection import Connection
from cs_grader.trusted.copying import own_names
from cs_grader.trusted.sandbox import Stage, set_the_stage

ITEMS = itertools.count(1)
TESTS = Path(__file__).parents[2]
TIERS = [pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")), "process"]

ADAPTERS = """
import ctypes, gc, os, signal, socket, subprocess, sys, threading, time
import torch
import a_package_that_nobody_has
import a_package_that_nobody_has.deep as deep
from a_package_that_nobody_has import Base, decorate

print("printed at import", flush=True)  # Whoever is killed later writes nothing more.
BOXED = os.path.expanduser("~") == "/tmp"
SOURCE = "mine"
os.makedirs("runs", exist_ok=True)
open("runs/log", "w").write("x")

class Child(Base):
    pass

@decorate(1)
def decorated():
    pass

def run_silu(in_features):
    return in_features * in_features.sigmoid()

def run_linear(d_in, d_out, weights, in_features):
    raise NotImplementedError

def run_softmax(in_features, dim):
    return torch.softmax(in_features, dim)

def run_embedding(vocab_size, d_model, weights, token_ids):
    return ACTIONS[vocab_size](in_features=weights)

def leave_a_daemon(in_features):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                time.sleep(1)
        os._exit(0)
    os.wait()
    return in_features

def bomb(in_features):
    for number in range(1000):
        try:
            if os.fork() == 0:
                time.sleep(60)
        except OSError:
            break
    return torch.tensor([number])

def hang(in_features):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

def flood(in_features):
    for _ in range(2000):
        os.write(1, b"x" * 10000)
    return in_features

def look(in_features):
    seen = [os.path.exists(place) for place in PLACES]
    return torch.tensor(seen)

def connect(in_features):
    with socket.socket() as one:
        one.settimeout(1)
        one.connect(("192.0.2.1", 80))

def write_here(in_features):
    seen = [os.path.exists(name) for name in ("runs/log", "written", "/tmp/left", "/dev/shm/left")]
    open("runs/log", "r").close()
    for place in ("written", "/tmp/left", "/dev/shm/left")[: 3 if BOXED else 1]:
        open(place, "w").write("x")
    os.makedirs("closed/inner")
    os.chmod("closed", 0)
    return torch.tensor(seen)

def rewrite(in_features):
    right = SOURCE in open(__file__).read()
    open(__file__, "a").write("SOURCE = 'another'")
    return torch.tensor([right, SOURCE == "mine"])

def write_elsewhere(in_features):
    open(torch.__file__ + ".new", "w")

def hoard(in_features):
    import ctypes
    with open(os.memfd_create("hoard"), "wb") as file:
        file.write(bytes(2**20))

def share(in_features):
    libc = ctypes.CDLL(None, use_errno=True)
    return torch.tensor([libc.shmget(0, ctypes.c_size_t(2**30), 0o1600)])

def overwrite_the_server(in_features):
    with open(f"/proc/{os.getppid()}/stat") as file:
        server = file.read().rpartition(")")[2].split()[1]
    # Past Python, where the grader would refuse it already.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.open(f"/proc/{server}/mem".encode(), os.O_WRONLY) < 0:
        raise OSError(ctypes.get_errno(), "not opened")

def stop_the_server(in_features):
    with open(f"/proc/{os.getppid()}/stat") as file:
        server = file.read().rpartition(")")[2].split()[1]
    os.kill(int(server), signal.SIGSTOP)
    while True:
        time.sleep(1)

def dawdle(in_features):
    while True:
        until = time.process_time() + 0.03
        while time.process_time() < until:
            pass
        time.sleep(0.97)

def drip(in_features):
    piece = b"csg1" + (10**6).to_bytes(4, "big") + bytes(4)
    while True:
        for handle in range(3, 30):
            try:
                os.write(handle, piece)
            except OSError:
                pass
        piece = b"1"
        time.sleep(0.2)

def begin_an_answer_and_hoard(in_features):
    import mmap
    for handle in range(3, 30):
        try:
            os.write(handle, b"c")
        except OSError:
            pass
    shared = mmap.mmap(-1, 5 * 2**28)
    for _ in range(5 * 2**8):
        shared.write(bytes(2**20))
    time.sleep(1e6)

class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        return Liar()

class Wordy(Exception):
    def __str__(self):
        return "\\x1b[31m" + "long " * 100000

def shout(in_features):
    raise Wordy()

PLACES = []
ACTIONS = {
    0: lambda in_features: in_features,
    1: lambda in_features: os._exit(0),
    2: lambda in_features: ctypes.string_at(0),
    3: lambda in_features: os.abort(),
    4: lambda in_features: sys.exit("enough"),
    5: hang,
    6: lambda in_features: time.sleep(1e6),
    7: lambda in_features: bytearray(50 * 2**30),
    8: lambda in_features: torch.ones(50 * 2**28),
    9: lambda in_features: os.kill(0, signal.SIGKILL),
    10: lambda in_features: os.kill(-1, signal.SIGKILL),
    11: lambda in_features: os.kill(os.getppid(), signal.SIGKILL),
    12: leave_a_daemon,
    13: bomb,
    14: flood,
    15: look,
    16: connect,
    17: write_here,
    18: lambda in_features: decorated(),
    19: lambda in_features: os.close(3) or [os.close(i) for i in range(4, 99)],
    20: shout,
    21: lambda in_features: input(),
    22: overwrite_the_server,
    23: lambda in_features: deep.something(),
    24: lambda in_features: threading.Thread(target=time.sleep, args=(99,)).start() or in_features,
    25: lambda in_features: object(),
    26: stop_the_server,
    27: drip,
    28: write_elsewhere,
    29: rewrite,
    30: hoard,
    31: share,
    32: begin_an_answer_and_hoard,
    33: dawdle,
}
"""


def staged(folder: Path, source: str = ADAPTERS) -> Stage:
    """Set the stage in a folder, with adapters of this source."""
    stage = set_the_stage(folder, TESTS)
    write_files(stage.submission, {"tests/adapters.py": source})
    return stage


def connect(tier: str, folder: Path, source: str = ADAPTERS, **limits: float) -> Connection:
    """Connect to adapters of this source."""
    stage = staged(folder, source)
    more = {"own_names": own_names(stage.submission)}
    budget_s = limits.pop("budget_s", 600)
    return Connection(tier, stage, sandbox.Limits(**limits), more, budget_s=budget_s)


def connected(tier: str, folder: Path) -> Iterator[Connection]:
    """Yield a connection to these adapters, for a fixture."""
    made = connect(tier, folder, memory_bytes=2**30, idle_s=2)
    yield made
    printed = made.close()
    assert "printed at import" in printed
    # The grader's own words are not the submission's.
    assert not re.search("BrokenPipeError|ConnectionResetError", printed)
    assert len(printed) < 300_000
    shutil.rmtree(made.stage.root)


def ask(connection, function, problem="embedding", probe="forward", **arguments):
    inputs = {"function": function, "arguments": arguments}
    return connection.run(next(ITEMS), problem, "probes.model", probe, 1, inputs)


def act(connection, action):
    some = np.arange(3, dtype=np.float32)
    return ask(
        connection, "run_embedding", vocab_size=action, d_model=1, weights=some, token_ids=some
    )


def silu(connection):
    return ask(connection, "run_silu", "silu", in_features=np.arange(3, dtype=np.float32))
