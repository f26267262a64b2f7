"""Break places of the product at random: do the tests notice?

python -m lab.campaigns.mutants cs_basics/variants tests/project/variants   # 30 places

A break turns a comparison or a condition round, moves a number by one, swaps two arguments, or
leaves a call out. Some change nothing that anyone could notice, such as a default that every caller
sets: compare figures of the same seed only.
"""

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cli import run

from lab import ROOT

TURNED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(),
}  # fmt: skip


def breaks(node: ast.AST) -> bool:
    """Break a node in place; return False for one that cannot be broken."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in TURNED:
            node.ops = [TURNED[type(operator)]]
        case ast.If():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Constant(int() as value) if not isinstance(value, bool):
            node.value = value + 1
        case ast.Call(args=[first, second, *others]):
            node.args = [second, first, *others]
        case ast.Expr(ast.Call()):
            node.value = ast.Constant(None)
        case _:
            return False
    return True


def main(folder: str, tests: str, /, *, count: int = 30, seed: int = 0) -> None:
    """Print of each break whether a test failed, its file, and the broken code.

    Args:
        folder: What to break, in a copy of the checkout.
        tests: What should notice.
        count: Places to break.
        seed: Decides which places.
    """
    command = [sys.executable, "-m", "pytest", "-xqm", "not slow", tests]
    with tempfile.TemporaryDirectory() as copied:
        root = shutil.copytree(ROOT, Path(copied) / "copy", ignore=shutil.ignore_patterns(".*"))
        environment = os.environ | {"PYTHONPATH": str(root)}  # What a test starts is broken, too.
        places = [
            (path, place)
            for path in sorted((root / folder).rglob("*.py"))
            for place, node in enumerate(ast.walk(ast.parse(path.read_bytes())))
            if breaks(node)
        ]
        for path, place in random.Random(seed).sample(places, count):
            source = path.read_bytes()
            broken = list(ast.walk(tree := ast.parse(source)))[place]
            breaks(broken)
            path.write_bytes(ast.unparse(tree).encode())
            done = subprocess.run(
                command, cwd=root, env=environment, stdout=subprocess.DEVNULL, check=False
            )
            verdict = "noticed" if done.returncode else "UNNOTICED"
            print(verdict, path.relative_to(root), ast.unparse(broken))
            path.write_bytes(source)


if __name__ == "__main__":
    run(main)
