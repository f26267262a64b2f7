"""A probe in the sandbox: what it may do to itself, and what it cannot do to anyone else."""

import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cs_grader.inside.processes import descendants
from cs_grader.inside.wire import WireError
from cs_grader.outside import sandbox, tiers
from cs_grader.outside.connection import Connection, answer_of
from cs_grader.outside.copying import own_names
from cs_grader.outside.stage import Stage, set_the_stage

TESTS = Path(__file__).parents[2]

ADAPTERS = """
import ctypes, gc, os, signal, socket, subprocess, sys, threading, time
import torch
import a_package_that_nobody_has
import a_package_that_nobody_has.deep as deep
from a_package_that_nobody_has import Base, decorate

print("printed at import")
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
    while True:
        try:
            if os.fork() == 0:
                time.sleep(60)
        except OSError:
            return in_features

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
}
"""

TIERS = ["bubblewrap", "process"]


@pytest.fixture(scope="module", params=TIERS)
def connection(request, tmp_path_factory):
    tier = request.param
    reason = tiers.why_not(tier)
    if reason:
        pytest.skip(f"{tier}: {reason}")
    stage = set_the_stage(tmp_path_factory.mktemp("stage"), TESTS)
    (stage.submission / "tests").mkdir(parents=True)
    (stage.submission / "tests" / "adapters.py").write_text(ADAPTERS, encoding="utf-8")
    limits = sandbox.Limits(memory_bytes=2**30, idle_s=2)
    more = {"own_names": own_names(stage.submission)}
    made = Connection(tier, stage, limits, more, budget_s=600)
    yield made
    printed = made.close()
    assert "printed at import" in printed
    assert len(printed) < 300_000
    shutil.rmtree(stage.root)


def ask(connection, function, problem="embedding", probe="forward", **arguments):
    inputs = {"function": function, "arguments": arguments}
    return connection.run(problem, "probes.model", probe, 1, inputs)


def act(connection, action):
    some = np.arange(3, dtype=np.float32)
    return ask(
        connection, "run_embedding", vocab_size=action, d_model=1, weights=some, token_ids=some
    )


def silu(connection):
    return ask(connection, "run_silu", "silu", in_features=np.arange(3, dtype=np.float32))


def test_an_answer_is_data(connection):
    answer = silu(connection)
    assert answer.ended == "returned"
    values = answer.value["output"]["values"]
    assert values.dtype == np.float32
    x = np.arange(3)
    np.testing.assert_allclose(values, x / (1 + np.exp(-x)), rtol=1e-6)
    assert answer.value["changed"] == []


def test_a_package_that_is_not_installed_is_named_with_its_line(connection):
    answer = connection.import_adapters("silu")
    assert answer.ended == "imported"
    assert answer.absent == (("a_package_that_nobody_has", "tests/adapters.py", 4),)


@pytest.mark.parametrize("action", [18, 23])
def test_it_costs_only_what_uses_it(connection, action):
    answer = act(connection, action)
    assert answer.kind == "ModuleNotFoundError"
    assert "No module named 'a_package_that_nobody_has'" in answer.text


@pytest.mark.parametrize(
    ("action", "how"),
    [
        (1, "exited with status 0"),
        (2, "crashed with SIGSEGV"),
        (3, "crashed with SIGABRT"),
        (9, "crashed with SIGKILL"),
        (11, "crashed with SIGKILL"),
    ],
)
def test_an_end_is_named(connection, action, how):
    answer = act(connection, action)
    assert (answer.ended, answer.text) == ("died", how)
    assert silu(connection).ended == "returned"


@pytest.mark.parametrize(
    ("action", "kind", "text"),
    [
        (4, "SystemExit", "sys.exit(enough) was called"),
        (7, "MemoryError", "over 1 GB"),
        (8, "RuntimeError", "over 1 GB"),
        (10, "PermissionError", "[Errno 1] Operation not permitted"),
        (20, "Wordy", "long long"),
        (21, "EOFError", "EOF when reading a line"),
    ],
)
def test_an_exception_comes_as_words(connection, action, kind, text):
    answer = act(connection, action)
    assert answer.ended == "raised", answer
    assert answer.kind == kind
    assert answer.text.startswith(text)
    assert len(answer.text) <= 4000
    assert "\x1b" not in answer.text
    assert answer.frames[-1].file in ("tests/adapters.py", "tests/probes/model.py")


def test_an_endless_loop_ends(connection, monkeypatch):
    monkeypatch.setattr("cs_grader.outside.connection.DEFAULT_CPU_S", 3)
    answer = act(connection, 5)
    assert answer.text == "over 3 s of CPU"
    assert silu(connection).ended == "returned"


def test_an_endless_sleep_ends(connection):
    answer = act(connection, 6)
    assert answer.text == "no answer: waited for 2 s without computing anything"
    assert silu(connection).ended == "returned"


def test_who_hangs_again_and_again_is_not_waited_for(connection):
    connection.over_time.clear()
    for _ in range(2):
        assert act(connection, 6).is_over_time
    answer = act(connection, 5)
    assert answer.text == "over 2 s of CPU"


@pytest.mark.parametrize("action", [6, 26, 27])
@pytest.mark.parametrize("tier", TIERS)
def test_waiting_is_bounded_in_total_whatever_is_done_to_the_server(tmp_path, tier, action):
    if reason := tiers.why_not(tier):
        pytest.skip(f"{tier}: {reason}")
    stage = set_the_stage(tmp_path, TESTS)
    (stage.submission / "tests").mkdir(parents=True)
    (stage.submission / "tests" / "adapters.py").write_text(ADAPTERS, encoding="utf-8")
    limits = sandbox.Limits(idle_s=60, total_idle_s=3)
    own = Connection(tier, stage, limits, {"own_names": own_names(stage.submission)}, budget_s=600)
    assert silu(own).ended == "returned"
    started = time.monotonic()
    answer = act(own, action)
    assert answer.text == "no answer: waited for 3 s in total without computing anything"
    assert silu(own).text.startswith("not run: waited for 3 s in total")
    assert time.monotonic() - started < 20
    own.close()


def test_nothing_is_left_running(connection):
    assert act(connection, 12).ended == "returned"
    assert act(connection, 24).ended == "returned"
    names = [p for p in descendants(os.getpid()) if is_python(p)]
    before = len(names)
    assert act(connection, 12).ended == "returned"
    assert len([p for p in descendants(os.getpid()) if is_python(p)]) == before


def is_python(pid):
    try:
        return "worker.py" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def test_a_flood_is_drained_and_cut(connection):
    assert act(connection, 14).ended == "returned"
    assert len(connection.output.kept) <= 100_000


def test_nothing_can_be_written_beside_its_own_folders(connection):
    if connection.tier == "process":
        pytest.skip("a plain process may write what its user may")
    answer = act(connection, 28)
    assert answer.kind in ("OSError", "PermissionError")


def test_what_a_probe_writes_is_gone_for_the_next_and_what_the_import_wrote_is_not(connection):
    for _ in range(2):
        answer = act(connection, 17)
        assert answer.ended == "returned", answer
        assert list(answer.value["output"]["values"]) == [True, False, False, False]


def test_source_that_was_rewritten_is_imported_anew(connection):
    for _ in range(2):
        answer = act(connection, 29)
        assert list(answer.value["output"]["values"]) == [True, True]


def test_memory_without_a_name_cannot_be_had(connection):
    assert act(connection, 30).kind == "PermissionError"
    assert act(connection, 31).value["output"]["values"][0] == -1


def test_the_server_cannot_be_written_to(connection):
    if connection.tier == "process":
        pytest.skip("root may write to any process")
    answer = act(connection, 22)
    assert (answer.kind, answer.text[:10]) == ("PermissionError", "[Errno 13]")


def test_no_network_is_there(connection):
    if connection.tier == "process":
        pytest.skip("a plain process has its user's network")
    assert act(connection, 16).kind == "OSError"


@pytest.mark.parametrize(
    "at_import",
    [
        "threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()",
        "torch.set_num_threads(2); torch.randn(700, 700) @ torch.randn(700, 700)",
        "run_silu = torch.compile(run_silu)",
    ],
    ids=["a thread", "threads of PyTorch", "the compiler"],
)
@pytest.mark.parametrize("tier", TIERS)
def test_what_the_import_starts_costs_nothing(tmp_path, tier, at_import):
    if reason := tiers.why_not(tier):
        pytest.skip(f"{tier}: {reason}")
    stage = set_the_stage(tmp_path, TESTS)
    (stage.submission / "tests").mkdir(parents=True)
    source = f"{ADAPTERS}\n{at_import}\n"
    (stage.submission / "tests" / "adapters.py").write_text(source, encoding="utf-8")
    more = {"own_names": own_names(stage.submission)}
    own = Connection(tier, stage, sandbox.Limits(), more, budget_s=600)
    for _ in range(3):
        answer = silu(own)
        assert answer.ended == "returned", answer
        assert answer.value["output"]["values"] == pytest.approx([0, 0.731059, 1.761594], rel=1e-5)
    # Another problem has another host, which finds the compiler loaded if this one asked for it.
    assert ask(own, "run_silu", "softmax", in_features=np.zeros(2, np.float32)).ended == "returned"
    own.close()


@pytest.mark.parametrize("compiles", [False, True])
def test_the_compiler_is_there_only_for_who_compiles(tmp_path, compiles):
    stage = set_the_stage(tmp_path, TESTS)
    (stage.submission / "tests").mkdir(parents=True)
    source = f"""{ADAPTERS}
{"torch.compile(run_silu)" if compiles else ""}
def run_softmax(in_features, dim):
    return in_features + ("torch._inductor.compile_fx" in sys.modules)
"""
    (stage.submission / "tests" / "adapters.py").write_text(source, encoding="utf-8")
    own = Connection("process", stage, sandbox.Limits(), {}, budget_s=600)
    some = np.zeros(1, np.float32)
    # For a probe of modules the server itself imports what PyTorch needs of its compiler.
    inputs = {"function": "run_silu", "arguments": {"in_features": some}}
    assert own.run("silu", "probes.modules", "follow", 1, inputs).ended == "returned"
    answer = ask(own, "run_softmax", "softmax", in_features=some, dim=0)
    assert answer.value["output"]["values"] == [float(compiles)]
    own.close()


def test_a_fork_bomb_runs_into_a_limit(connection):
    if connection.tier == "process":
        pytest.skip("a plain process shares the limit of its user")
    # What each leaves behind, dead or alive, counts towards the limit until it is cleared away.
    for _ in range(4):
        answer = act(connection, 13)
        assert answer.ended in ("returned", "died")
        assert silu(connection).ended == "returned"


def test_closing_every_file_costs_one_answer(connection):
    assert act(connection, 19).ended == "died"
    assert silu(connection).ended == "returned"


def test_what_is_not_started_says_so(connection):
    some = np.zeros((1, 1), np.float32)
    arguments = {"d_in": 1, "d_out": 1, "weights": some, "in_features": some}
    assert ask(connection, "run_linear", "linear", **arguments).is_not_implemented
    missing = ask(connection, "run_rope", "rope", in_features=some)
    assert missing.missing == "run_rope"


def test_a_forbidden_operator_raises_in_its_problem_only(connection):
    arguments = {"in_features": np.zeros(3, np.float32), "dim": 0}
    answer = ask(connection, "run_softmax", "softmax", **arguments)
    assert answer.kind == "ForbiddenOperator"
    assert answer.noted[0][:3] == ("forbidden", "torch.softmax", "tests/adapters.py")
    assert ask(connection, "run_softmax", "linear", **arguments).ended == "returned"


def test_an_answer_that_is_no_tensor_is_named(connection):
    answer = act(connection, 25)
    assert answer.value["output"] == {"dtype": "object", "values": None}


@pytest.mark.parametrize(
    "forged",
    [
        None,
        [],
        {},
        {"ended": "won"},
        {"ended": "raised", "type": 3},
        {"ended": "raised", "type": "E", "text": b"x"},
        {"ended": "raised", "type": "E", "text": "x", "frames": [["f", "1", "g"]]},
        {"ended": "raised", "type": "E", "text": "x", "frames": [["f", -1, "g"]]},
        {"ended": "returned", "absent": [{}]},
    ],
)
def test_a_forged_answer_is_refused(forged):
    with pytest.raises(WireError, match="not an answer"):
        answer_of(forged, {"notes": [], "inputs_changed": 0})


@pytest.mark.parametrize("notes", [3, [3], [["won", "x", "f", 1]], [["code", "x", "f", -1]]])
def test_forged_notes_are_refused(notes):
    with pytest.raises(WireError, match="not an answer"):
        answer_of({"ended": "returned"}, {"notes": notes, "inputs_changed": 0})


def test_what_is_noted_is_a_name_or_nothing():
    notes = [
        ["forbidden", "100 of 100", "f", 1],
        ["code", "<b>", "f", 1],
        ["operator", "a::b", "", 0],
    ]
    noted = answer_of({"ended": "returned"}, {"notes": notes, "inputs_changed": 0}).noted
    assert [entry.what for entry in noted] == ["something unknown", "something unknown", "a::b"]


def test_a_wall_that_is_not_there_is_not_accepted(monkeypatch):
    monkeypatch.setattr(tiers.shutil, "which", lambda _: None)
    monkeypatch.setattr(tiers.os, "geteuid", lambda: 1000)
    assert tiers.choose_tier("process") == "process"
    with pytest.raises(ValueError, match=r"install bubblewrap .* --require-isolation process"):
        tiers.choose_tier()
    with pytest.raises(ValueError, match="bubblewrap: bwrap is not installed"):
        tiers.choose_tier("bubblewrap")
    with pytest.raises(ValueError, match="no isolation of uid or stronger"):
        tiers.choose_tier("uid")


def test_another_user_needs_an_interpreter_that_others_may_enter(tmp_path, monkeypatch):
    (tmp_path / "venv").mkdir()
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tiers.os, "geteuid", lambda: 0)
    monkeypatch.setattr(sandbox, "interpreter_folders", lambda: [tmp_path / "venv"])
    assert tiers.why_not("uid").endswith("which other users may not enter: install it elsewhere")
    assert tiers.why_not("process") == ""


def test_the_empty_tmp_of_the_sandbox_hides_no_python_that_lies_there(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "interpreter_folders", lambda: [Path("/tmp/clone/.venv")])
    command = sandbox.wall("bubblewrap", Stage(root=tmp_path), sandbox.Limits())
    assert command.index("--tmpfs") < command.index("/tmp/clone/.venv")


def test_the_sandbox_shows_no_answer(tmp_path):
    stage = set_the_stage(tmp_path, TESTS)
    shown = {path.relative_to(stage.root).as_posix() for path in stage.root.rglob("*.py")}
    assert not any(
        word in name for name in shown for word in ("oracle", "mistake", "test_", "conftest")
    )
    assert sys.executable
    assert "examination/probes/model.py" in shown
    # Nor lacks it what the import of adapters needs.
    top = (TESTS / "submission.py").read_text(encoding="utf-8").split("\ndef ")[0]
    needed = {path.name for path in TESTS.glob("*.py") if f"import {path.stem}\n" in top}
    assert needed == {"contract.py"}
    assert {f"examination/{name}" for name in needed} <= shown
