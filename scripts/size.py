"""Count what has to be read here, and hold the sum to its budget: python scripts/size.py.

Two rulers. *Tokens* are those of Python code; comments, docstrings and blank lines are free, and
code pressed into longer lines does not look smaller. *Marks* are the words and single signs of
every text file that git tracks: Python with its comments, pages, patches, tables, JavaScript.

The budgets stand in pyproject.toml, [tool.size]. Only the two sums can fail; a room that has grown
past its own figure is reported in one line. A file belongs to the room with the longest path above
it.
"""

import argparse
import ast
import io
import re
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
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
MARK = re.compile(r"\w+|[^\w\s]")
SLACK = 1.02
"""What a sum may grow to before the check fails, as a multiple of its figure."""


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


def texts(root: Path) -> dict[Path, str]:
    """Return every text file of a checkout that git tracks or would track, pictures apart."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    found: dict[Path, str] = {}
    for path in map(Path, filter(None, listed.split("\0"))):
        if path.suffix in {".png", ".svg"} or not (root / path).is_file():
            continue
        found[path] = (root / path).read_text(encoding="utf-8", errors="replace")
    return found


def sizes(root: Path, rooms: list[str]) -> tuple[Counter[str], int]:
    """Count the Python tokens in each room of a checkout, and the marks of all text.

    Raises:
        ValueError: A Python file lies in none of the rooms.
    """
    tokens = Counter(dict.fromkeys(rooms, 0))
    marks = 0
    for path, text in texts(root).items():
        marks += len(MARK.findall(text))
        if path.suffix != ".py":
            continue
        above = [room for room in rooms if path.is_relative_to(room)]
        if not above:
            raise ValueError(f"{path} lies in no room of [tool.size.rooms] in pyproject.toml")
        tokens[max(above, key=len)] += num_tokens(text)
    return tokens, marks


def main() -> int:
    """Print each size beside its figure; return 1 if a sum is more than its slack above it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budget = project["tool"]["size"]
    rooms: dict[str, int] = budget["rooms"]
    found, marks = sizes(ROOT, list(rooms))
    for room, figure in rooms.items():
        more = found[room] - figure
        grown = f"  grew by {more:,}: this alone fails nothing" if more > 0 else ""
        print(f"{room:24} {found[room]:9,} of {figure:9,} tokens{grown}")
    failed = 0
    for name, size in (("tokens", found.total()), ("marks", marks)):
        figure = budget[name]
        print(f"{'all':24} {size:9,} of {figure:9,} {name}")
        if size > figure * SLACK:
            failed = 1
            most = int(figure * SLACK)
            said = f"{size:,} {name} in all; at most {most:,} ({figure:,} and 2 %) are allowed"
            print(f"error: {said}: delete something that is no longer needed", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
