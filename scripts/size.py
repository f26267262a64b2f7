"""Hold each room of the tree to its budget: python scripts/size.py.

The size of a room is the number of Python tokens in its files; comments, docstrings and blank lines
are free. Budgets stand in pyproject.toml, [tool.size], and only ever go down. A file belongs to the
room with the longest path above it.
"""

import argparse
import ast
import io
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FREE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def num_tokens(source: str) -> int:
    """Count the tokens of a Python file, without comments and docstrings."""
    strings = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Expr))
    free = {
        line
        for node in strings
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type not in FREE and token.start[0] not in free for token in tokens)


def sizes(root: Path, rooms: list[str]) -> Counter[str]:
    """Count the tokens in each room of a checkout.

    Raises:
        ValueError: A Python file lies in none of the rooms.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    found = Counter(dict.fromkeys(rooms, 0))
    for path in map(Path, listed.splitlines()):
        above = [room for room in rooms if path.is_relative_to(room)]
        if not above:
            raise ValueError(f"{path} lies in no room of [tool.size] in pyproject.toml: add one")
        if (root / path).exists():
            found[max(above, key=len)] += num_tokens((root / path).read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Print the size of each room beside its budget; return 1 if one is above it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budgets: dict[str, int] = project["tool"]["size"]
    found = sizes(ROOT, [room for room in budgets if room != "all"])
    found["all"] = found.total()
    for room, budget in budgets.items():
        print(f"{room:20} {found[room]:8,} of {budget:8,} tokens")
    above = {room: budget for room, budget in budgets.items() if found[room] > budget}
    for room, budget in above.items():
        said = f"{room} has {found[room]:,} tokens, {found[room] - budget:,} above its {budget:,}"
        print(f"error: {said}: delete something ([tool.size] in pyproject.toml)", file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
