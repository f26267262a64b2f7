"""A probe in the sandbox: every answer, error and end comes back as data, and the next one runs."""

import contextlib
import itertools
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from attacks.asking import ISOLATIONS, ask, call, connect, silu, words_of

from cs_grader.sandbox import wire
from cs_grader.sandbox.wire import WireError
from cs_grader.sandbox.worker import Server
from cs_grader.trusted import sandbox, watch
from cs_grader.trusted.answer import answer_of
from cs_grader.trusted.connection import time_is_up

SEEN = {"notes": [], "inputs": np.zeros(0, np.uint8), "elsewhere_s": 0.0, "import_s": 0.0}


@pytest.fixture(scope="module", params=ISOLATIONS)
def connection(request, tmp_path_factory):
    made = connect(request.param, tmp_path_factory.mktemp("stage"), idle_s=2)
    yield made
    made.close()


def test_a_package_that_is_not_installed_is_named_with_its_line_and_costs_what_uses_it(connection):
    answer = connection.import_adapters(0, "silu")
    assert answer.ended == "imported"
    assert answer.absent == (("a_package_that_nobody_has", "tests/adapters.py", 4),)
    for function in ("uses_what_is_not_there", "uses_a_module_that_is_not_there"):
        words = words_of(call(connection, function))
        assert words.startswith("ModuleNotFoundError: No module named 'a_package_that_nobody_has'")


@pytest.mark.parametrize(("cpu", "is_idle"), [(1.0, False), (0.0, True)])
def test_processes_that_end_take_no_time_from_those_that_compute(monkeypatch, cpu, is_idle):
    """What has been queued sums over living processes, and falls when some of them end."""
    used, queued = itertools.count(0, cpu), itertools.chain([8.0], itertools.repeat(0.0))
    monkeypatch.setattr(watch, "cpu_below", lambda: next(used))
    monkeypatch.setattr(watch, "queued_below", lambda: next(queued))
    waits = iter([False, False, True])
    waited = Counter()
    watched = watch.Watch(sandbox.Limits(), waited)
    watched._watch(SimpleNamespace(wait=lambda _: next(waits)), "silu", 10.0, lambda: None)
    assert waited["silu"] == (1 if is_idle else 0)


@pytest.fixture
def own(tmp_path):
    """Make a connection of one's own, which is closed at the end."""
    with contextlib.ExitStack() as closed:

        def make(isolation, more="", **limits):
            made = connect(isolation, tmp_path, more, **limits)
            closed.callback(made.close)
            return made

        yield make


def test_an_import_that_ends_the_sandbox_three_times_in_a_row_is_not_tried_again(own):
    forge = wire.encode({"ended": "raised", "missing_package": 3})
    at_import = f"""
import os
for handle in range(3, 30):
    try:
        os.write(handle, {forge})
    except OSError:
        pass
os._exit(0)
"""
    connection = own("process", at_import)
    assert [silu(connection).text for _ in range(4)] == [
        *["ended the whole sandbox"] * 3,
        "not run: importing it has ended the sandbox 3 times in a row",
    ]


def test_a_file_that_cannot_be_imported_is_tried_three_times_unless_anything_has_come_back(own):
    connection = own(
        "process",
        """
import os

def run_linear(d_in, **_):
    if d_in:
        raise ImportError(os.getpid())

def run_embedding(d_model, **_):
    run_linear(d_model)
""",
    )
    linear = [ask(connection, "run_linear", "linear", d_in=1) for _ in range(5)]
    assert [answer.kind for answer in linear] == ["ImportError"] * 5
    assert len({answer.text for answer in linear}) == 3
    others = [ask(connection, "run_embedding", "embedding", d_model=n) for n in (1, 1, 0, 1, 1)]
    assert len({answer.text for answer in others if answer.kind == "ImportError"}) == 4


def test_a_server_whose_grader_is_gone_ends_without_a_word(own):
    connection = own("process")
    assert silu(connection).ended == "returned"
    again = {"process": 0, "problem": "silu", "lent": [], "module": "", "look_at": 0}
    for part in (again, None):
        wire.send(connection.channel, wire.encode(part), time.monotonic() + 9)
    connection.channel.close()
    assert connection.process.wait(20) == 0


@pytest.mark.parametrize("is_running", [True, False])
def test_an_alarm_while_an_answer_is_awaited_puts_no_answer_in_the_place_of_another(
    connection, monkeypatch, is_running
):
    def alarm(*_):
        raise KeyboardInterrupt

    if is_running:
        silu(connection)
    else:
        connection._end()

    with monkeypatch.context() as patch:
        patch.setattr("cs_grader.trusted.connection.wire.receive", alarm)
        with pytest.raises(KeyboardInterrupt):
            call(connection, "called_leaves_threads_behind")
    assert connection.channel is None
    answer = silu(connection)
    assert answer.value["output"]["values"].shape == (3,)


def test_a_probe_that_begins_in_time_may_not_go_on_for_long_after_it(own, monkeypatch):
    monkeypatch.setattr("cs_grader.trusted.connection.OVERTIME_S", 1)
    connection = own("process", idle_s=60)
    assert silu(connection).ended == "returned"
    connection.deadline = time.monotonic() + 1
    assert call(connection, "called_deadlocks").text == time_is_up(600)


def test_when_the_time_of_a_submission_is_up_nothing_more_is_started(own, monkeypatch):
    monkeypatch.setattr(sandbox, "start", None)
    connection = own("process", budget_s=0)
    for answer in (connection.import_adapters(0, "silu"), silu(connection)):
        assert (answer.ended, answer.text) == ("died", time_is_up(0))


def test_one_accident_while_a_submission_is_imported_costs_nothing():
    endings = iter(["died", "imported"])
    server = SimpleNamespace(
        failure=None, host=None, has_crashed_before=False, absent=[], noted=[],
        end_host=lambda: None, workplace=SimpleNamespace(renew=str),
        shared=SimpleNamespace(ledger=SimpleNamespace(take=list)),
        import_in_host=lambda *_: {"ended": next(endings), "how": "crashed with SIGKILL"},
    )  # fmt: skip
    assert Server.start(server, 1, None) is None
    endings = iter(["died", "died"])
    assert Server.start(server, 1, None)["how"] == "crashed with SIGKILL"
    assert next(endings) == "died"  # Twice would be no accident: it is not tried again.


STARTED = """
import threading, time
threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
torch.set_num_threads(2)
torch.randn(700, 700) @ torch.randn(700, 700)
run_silu = torch.compile(run_silu, fullgraph=True)

@torch.compile(mode="max-autotune")
def also(x):
    return x

also(torch.ones(1))
torch.nn.Module().compile()
"""


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_what_the_import_starts_costs_nothing(own, isolation):
    """A thread, threads of PyTorch, and the compiler."""
    connection = own(isolation, STARTED)
    for _ in range(3):
        answer = silu(connection)
        assert answer.ended == "returned", answer
        assert answer.value["output"]["values"] == pytest.approx([0, 0.731059, 1.761594], rel=1e-5)
    # Another problem has another host, which finds the compiler loaded if this one asked for it.
    answer = ask(connection, "run_silu", "softmax", in_features=np.zeros(2, np.float32))
    assert answer.ended == "returned"


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


RAISED = {"ended": "raised", "type": "E", "text": "x"}
RETURNED = {"ended": "returned"}
FORGED = (
    *((forged, []) for forged in (None, [], {}, {"ended": "won"}, RETURNED | {"absent": [{}]})),
    *((RAISED | more, []) for more in ({"type": 3}, {"text": b"x"})),
    *((RAISED | {"frames": [["f", line, "g"]]}, []) for line in ("1", -1)),
    *((RETURNED, notes) for notes in (3, [3], [["won", "x", "f", 1]], [["code", "x", "f", -1]])),
)


@pytest.mark.parametrize(("forged", "notes"), FORGED, ids=str)
def test_a_forged_answer_or_note_is_refused(forged, notes):
    with pytest.raises(WireError, match="not an answer"):
        answer_of(forged, SEEN | {"notes": notes})


def test_what_is_noted_is_a_name_or_nothing():
    said = [("forbidden", "100 of 100"), ("code", "<b>"), ("code", "exec")]
    notes = [[kind, what, "f", 1] for kind, what in said]
    noted = answer_of(RETURNED, SEEN | {"notes": notes}).noted
    assert [entry.what for entry in noted] == ["something unknown", "something unknown", "exec"]
