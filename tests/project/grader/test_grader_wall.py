"""The wall around a probe: what it cannot see, reach, keep or leave behind."""

import os
import sys
from pathlib import Path

import pytest
from hostile import TESTS, TIERS, act, connected, silu

from cs_grader.sandbox.processes import descendants
from cs_grader.trusted import sandbox, tiers
from cs_grader.trusted.sandbox import Stage, set_the_stage


@pytest.fixture(scope="module", params=TIERS)
def connection(request, tmp_path_factory):
    yield from connected(request.param, tmp_path_factory.mktemp("stage"))


def test_nothing_is_left_running_for_the_next_process(connection):
    left = []
    for action in (0, 12, 0, 24, 0):  # A daemon; a thread that goes on.
        assert act(connection, action).ended == "returned"
        left.append(len([p for p in descendants(os.getpid()) if is_python(p)]))
    assert left[0] == left[2] == left[4]


def is_python(pid):
    try:
        return "worker.py" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


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


def test_a_fork_bomb_runs_into_a_limit(connection):
    if connection.tier == "process":
        pytest.skip("a plain process shares the limit of its user")
    # What each leaves behind, dead or alive, counts towards the limit until it is cleared away.
    for _ in range(4):
        answer = act(connection, 13)
        assert answer.ended in ("returned", "died")
        assert silu(connection).ended == "returned"


@pytest.mark.parametrize(("kernel", "holds"), [("5.10.0-8-amd64", False), ("5.14", True)])
def test_a_plain_user_has_the_same_limit_where_the_kernel_counts_in_namespaces(
    tmp_path, monkeypatch, kernel, holds
):
    monkeypatch.setattr(sandbox, "has_real_root", lambda: False)
    monkeypatch.setattr(sandbox.platform, "release", lambda: kernel)
    stage, limits = Stage(root=tmp_path), sandbox.Limits()
    assert sandbox.settings_of("bubblewrap", stage, limits)["is_counted_alone"] == holds
    assert not sandbox.settings_of("process", stage, limits)["is_counted_alone"]


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
    assert "examination/exam/probes/model.py" in shown
    assert "examination/exam/submission.py" in shown
