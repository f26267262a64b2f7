"""Find names of files, in comments, docstrings and pages, that lead nowhere."""

import re
import sys

NAME = re.compile(r"(?<![\w./-])((?:[\w-]+/)*[\w-]+\.(?:py|md|toml))\b")
WRITTEN_BY_RUNS = {"report.md", "samples.md"}
ELSEWHERE = WRITTEN_BY_RUNS | {
    "contract.toml",
    "entry.toml",
    "notes.md",
}  # People write these.


def leading_nowhere(folder, patterns):
    """Return place and name of each file that is named below a folder and is not in it.

    Args:
        folder: Where the named files should lie, at any depth.
        patterns: Glob patterns of the files to read.
    """
    there = {
        "/".join(parts[depth:])
        for top in folder.glob("[!.]*")
        for path in (top, *top.rglob("*.*"))
        for parts in [path.relative_to(folder).parts]
        for depth in range(len(parts))
    }
    found = []
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        text = path.read_text(encoding="utf-8").replace("\\_", "_")  # As Markdown escapes it.
        for number, line in enumerate(text.splitlines(), 1):
            for name in NAME.findall(line):
                is_of_torch = name.startswith(("torch/", "nn/"))
                is_of_python = name.removesuffix(".py") in sys.stdlib_module_names
                is_there = is_of_torch or is_of_python or name in there
                if not is_there and name.rpartition("/")[2] not in ELSEWHERE:
                    found.append(f"{path.relative_to(folder)}:{number}: {name}")
    return found
