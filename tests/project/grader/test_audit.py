"""What a submission does beside its work is told, and of honest work nothing is."""

import os
import shutil
import textwrap
from importlib._bootstrap_external import _code_to_hash_pyc  # type: ignore[attr-defined]

import pytest
from forked_cases import answers_to

from cs_grader.sandbox.audit import KNOWN

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a fork")

# What is to be told of, and a function that does it.
ATTACKS = {
    "object.__getattr__": """
        def f():
            try:
                1 / 0
            except ZeroDivisionError as error:
                getattr(error.__traceback__, "tb_" + "frame")
        """,
    "gc.get_objects": """
        import typing

        def f():
            made = {"x": "__import__('g' + 'c').get_objects() and int"}
            typing.get_type_hints(type("T", (), {"__annotations__": made}))
        """,
    "pickle": """
        import torch

        def f():
            torch.load("code.pt", weights_only=False)
        """,
    "compiled code": """
        import pathlib, sys

        def f():
            pathlib.Path("__pycache__").mkdir()
            target = pathlib.Path(f"__pycache__/shown.{sys.implementation.cache_tag}.pyc")
            target.write_bytes(pathlib.Path("table.bin").read_bytes())
            import shown
        """,
    "the memory of a process": """
        import os

        def f():
            os.chdir("/proc/self")
            open("mem", "r+b", 0)
        """,
    "another interpreter": """
        def f():
            import _xxsubinterpreters
            _xxsubinterpreters.create()
        """,
    "import tiktoken": """
        import importlib

        def f():
            importlib.__import__("tik" + "token")
        """,
}
HONEST = {
    "keeps what it has counted": """
        import collections
        import pickle

        class Pair(tuple):
            pass

        def f():
            kept = pickle.dumps([collections.Counter("aab"), Pair((1, 2)), {b"a": 1}])
            assert pickle.loads(kept)[1] == Pair((1, 2))
        """,
    "reads its checkpoint without restrictions": """
        import datetime
        import io
        import torch

        def f():
            state = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))]).state_dict()
            file = io.BytesIO()
            torch.save({"model": torch.ones(2), "o": state, "t": datetime.date(2026, 1, 1)}, file)
            file.seek(0)
            torch.load(file, weights_only=False)
        """,
    "makes classes and looks at functions": """
        import dataclasses
        import inspect
        import typing

        @dataclasses.dataclass(slots=True)
        class Config:
            theta: "float" = 1.0

        class Row(typing.NamedTuple):
            x: "int"

        def f():
            assert dataclasses.asdict(Config()) == {"theta": 1.0}
            typing.get_type_hints(Row)
            inspect.signature(f)
        """,
}
PREAMBLE = """
import os, sys, torch
from cs_grader.sandbox import audit

class Code:
    def __reduce__(self):
        return eval, ("1 + 1",)

for folder in ("original", "submission"):
    torch.save(Code(), f"{BASE}/{folder}/code.pt")
os.chdir(f"{BASE}/submission")
sys.path.insert(0, "")
"""
PREPARATION = """
folders = audit.Folders(f"{BASE}/submission", f"{BASE}/original", (BASE,))
audit.listen(folders, tell)
"""
MODULES = {name: f"case_{number}" for number, name in enumerate(ATTACKS | HONEST)}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What was told of each case, a file that was handed in."""
    base = tmp_path_factory.mktemp("audit")
    original, submission = base / "original", base / "submission"
    original.mkdir()
    for name, source in (ATTACKS | HONEST).items():
        (original / f"{MODULES[name]}.py").write_text(textwrap.dedent(source))
    (original / "shown.py").write_text("x = 1\n")
    code = compile("x = 2\n", str(submission / "shown.py"), "exec")
    (original / "table.bin").write_bytes(_code_to_hash_pyc(code, b"12345678", False))
    shutil.copytree(original, submission)
    cases = {name: (PREPARATION, f"__import__('{MODULES[name]}').f()") for name in MODULES}
    return answers_to(f"BASE = {str(base)!r}{PREAMBLE}", cases)


@pytest.mark.parametrize("what", ATTACKS)
def test_what_is_done_beside_the_work_is_told_with_its_file(told, what):
    _, entries = told[what]
    assert what in [entry[0] for entry in entries]
    assert {os.path.basename(file) for _, file, _ in entries} == {f"{MODULES[what]}.py"}  # noqa: PTH119


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_told_of_honest_work(told, name):
    assert told[name] == ["", []]


def test_whatever_is_told_is_known_outside():
    assert {*ATTACKS} <= KNOWN
