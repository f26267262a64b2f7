"""What a submission's code does beside its work, and who is told: run as a program.

    python audit_cases.py FOLDER

Runs each case in a fork, as a file that was handed in, and prints as a JSON object what was told of
it: a list of what, file name and line for each case.
"""

import json
import os
import shutil
import sys
import textwrap
from importlib._bootstrap_external import _code_to_hash_pyc  # type: ignore[attr-defined]
from pathlib import Path

ROOT = Path(__file__).parents[3]

# Each defines `f`, and what is to be told of: "" for nothing.
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
        import pathlib

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


class Code:
    """Is code once it is read from a pickle."""

    def __reduce__(self):
        return eval, ("1 + 1",)


def main(folder: Path) -> None:
    sys.path.insert(0, str(ROOT))
    import torch

    submission, original = folder / "submission", folder / "original"
    original.mkdir()
    for name, source in (ATTACKS | HONEST).items():
        (original / f"{module_of(name)}.py").write_text(f"import sys\n{textwrap.dedent(source)}")
    (original / "shown.py").write_text("x = 1\n")
    code = compile("x = 2\n", str(submission / "shown.py"), "exec")
    (original / "table.bin").write_bytes(_code_to_hash_pyc(code, b"12345678", False))
    torch.save(Code(), original / "code.pt")
    shutil.copytree(original, submission)
    print(json.dumps({name: in_a_fork(name, folder) for name in ATTACKS | HONEST}))


def in_a_fork(name: str, folder: Path) -> list:
    """What is told of a case, each once; the error of an honest one, too."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        told: dict[tuple, None] = {}
        try:
            run(name, folder, lambda *entry: told.update({entry: None}))
        except BaseException as error:
            if name in HONEST:
                told[type(error).__name__, str(error), 0] = None
        entries = [[what, Path(file).name, line] for what, file, line in told]
        os.write(writing, json.dumps(entries).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    os.wait()
    return json.loads(text)


def run(name: str, folder: Path, tell) -> None:
    from cs_grader.sandbox import audit

    submission = str(folder / "submission")
    os.chdir(submission)
    sys.path.insert(0, submission)
    audit.listen(audit.Folders(submission, str(folder / "original"), (str(folder),)), tell)
    __import__(module_of(name)).f()


def module_of(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in f"case {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
