"""Forbidden operators raise by every route, and honest work does not notice."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from policy_routes import HONEST, MORE_ROUTES, ROOT, ROUTES

from cs_grader.sandbox.forbidden import FORBIDDEN, KERNELS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each route runs in a fork")

SWALLOWED = """
def f():
    try:
        return F.silu(x)
    except Exception:
        return x * torch.sigmoid(x)
"""
EXCUSED = """
from cs_grader.sandbox import blocked
blocked.forbid("silu", print, excused=["silu"])
def f():
    return F.silu(x)
"""


def run(cases):
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("policy_routes.py"))],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def expression(text):
    return f"def f():\n    return {text}\n"


EMPTIED = """
import gc
from cs_grader.sandbox import blocked
for value in list(vars(blocked).values()):
    if isinstance(value, list | dict) and value is not vars(blocked)["__builtins__"]:
        value.clear()
gc.collect()
def f():
    return F.silu(x)
"""
TAKEN_AWAY = """
import weakref
for one in list(weakref.finalize._registry):
    owner = one.peek()[0]
    if type(owner).__name__ == "Library":
        owner._destroy()
def f():
    return F.silu(x)
"""
OTHERS = {
    "taken away": ("silu", TAKEN_AWAY),
    "emptied": ("silu", EMPTIED),
    "swallowed": ("silu", SWALLOWED),
    "no such problem": (
        "silu",
        "from cs_grader.sandbox import blocked\nblocked.forbid('nothing', print)",
    ),
    "excused": ("checkpointing", EXCUSED),
}


@pytest.fixture(scope="module")
def answers():
    """The error and the forbidden calls of every case; one process that imports torch for all."""
    one_line = ROUTES | MORE_ROUTES | HONEST
    cases = {name: (problem, expression(text)) for name, (problem, text) in one_line.items()}
    cases |= OTHERS
    return dict(zip(cases, run(list(cases.values())), strict=True))


@pytest.mark.parametrize("name", ROUTES | MORE_ROUTES)
def test_every_route_to_a_forbidden_operator_is_stopped(answers, name):
    error, calls = answers[name]
    assert error
    assert calls, error


@pytest.mark.parametrize("name", HONEST)
def test_honest_forms_run(answers, name):
    assert answers[name] == ["", []]


def test_error_says_operator_file_and_line(answers):
    error, calls = answers["F.rms_norm"]
    assert error == (
        "ForbiddenOperator: torch.nn.functional.rms_norm is not allowed here: "
        "write it yourself (solution.py, line 2)"
    )
    assert calls == [["torch.nn.functional.rms_norm", "solution.py", 2]]


def test_swallowed_error_is_still_recorded(answers):
    assert answers["swallowed"] == ["", [["torch.nn.functional.silu", "solution.py", 4]]]


@pytest.mark.parametrize("name", ["emptied", "taken away"])
def test_what_can_be_found_of_the_block_does_not_end_it(answers, name):
    error, _ = answers[name]
    assert error.startswith("ForbiddenOperator: torch.nn.functional.silu")


def test_excused_group_is_not_blocked(answers):
    assert answers["excused"] == ["", []]


def test_problems_are_those_of_the_rubric_in_its_order():
    rubric = tomllib.loads((ROOT / "tests" / "rubric.toml").read_text(encoding="utf-8"))
    assert list(FORBIDDEN) == list(rubric)


def test_every_operator_is_one_of_this_version_of_pytorch():
    import torch

    names = [name for operators in KERNELS.values() for name in operators]
    unknown = {
        name
        for name in names
        if not torch._C._jit_get_schemas_for_operator(name if "::" in name else f"aten::{name}")
    }
    # Of other versions, and of builds with oneDNN.
    assert unknown <= {"_mkldnn_linear", "mkldnn_linear", "_fused_adam", "_fused_adamw"}


def test_what_was_forbidden_can_be_allowed_again():
    code = """
import torch
from cs_grader.sandbox.blocked import ForbiddenOperator, forbid
x, norm = torch.ones(2, 2), torch.nn.utils.clip_grad_norm_
CALLS = {
    "softmax": lambda: x.softmax(-1),
    "linear": lambda: torch.nn.Linear(2, 2)(x),
    "gradient_clipping": lambda: norm([torch.nn.Parameter(x)], max_norm=1.0),
}
for problem, call in CALLS.items():
    for _ in range(2):
        allow = forbid(problem, lambda *_: None)
        try:
            call()
        except ForbiddenOperator:
            allow()
            call()
        else:
            raise SystemExit(problem)
"""
    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert finished.returncode == 0
