"""Which kinds of sandbox there are, and what is in one; attacks/ has what each withstands."""

from pathlib import Path

import pytest

from cs_grader.trusted import isolation, sandbox
from cs_grader.trusted.sandbox import Stage


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
    monkeypatch.setattr(isolation.shutil, "which", lambda _: None)
    monkeypatch.setattr(isolation.os, "geteuid", lambda: 1000)
    assert isolation.choose_isolation("process") == "process"
    with pytest.raises(ValueError, match=r"install bubblewrap .* --require-isolation process"):
        isolation.choose_isolation()
    with pytest.raises(ValueError, match="bubblewrap: bwrap is not installed"):
        isolation.choose_isolation("bubblewrap")
    with pytest.raises(ValueError, match="no isolation of uid or stronger"):
        isolation.choose_isolation("uid")


@pytest.mark.needs("bwrap")
def test_a_wall_that_leaves_something_open_is_none(monkeypatch):
    monkeypatch.setattr(isolation, "CLOSED", (*isolation.CLOSED, Path("/usr")))
    told = "/usr can be read from the inside: keep others from reading that"
    assert isolation.why_not("bubblewrap") == told


def test_another_user_needs_an_interpreter_that_others_may_enter(tmp_path, monkeypatch):
    (tmp_path / "venv").mkdir()
    tmp_path.chmod(0o700)
    monkeypatch.setattr(isolation.os, "geteuid", lambda: 0)
    monkeypatch.setattr(sandbox, "interpreter_folders", lambda: [tmp_path / "venv"])
    assert isolation.why_not("uid").endswith(
        "which other users may not enter: install it elsewhere"
    )
    assert isolation.why_not("process") == ""


def test_the_empty_tmp_of_the_sandbox_hides_no_python_that_lies_there(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "interpreter_folders", lambda: [Path("/tmp/clone/.venv")])
    command = sandbox.command("bubblewrap", Stage(root=tmp_path), sandbox.Limits())
    assert command.index("--tmpfs") < command.index("/tmp/clone/.venv")
