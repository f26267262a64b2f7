"""Write this repository anew under another contract: book, handout, examination.

What comes out is what an edition is made from: its book is the reference of that contract, its
tests hold the contract, and its handout asks for it. conventions/ has one file for each convention.
It lists the edits that each option other than the usual one needs: the file, the old text, the new
text. Edits are made in the order of the contract's fields, so that one may change what an earlier
one wrote.
"""

import functools
import importlib
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
CONVENTIONS = Path(__file__).with_name("conventions")
COPIED = (
    "cs_basics", "tests", "scripts", "docs/handout.md", "data",
    "LICENSE", "constraints.txt", ".gitignore", "pyproject.toml",
)  # fmt: skip
NOT_COPIED = ("__pycache__", "project", "instructor", "maintain")

sys.path.append(str(ROOT / "tests"))
contract: Any = importlib.import_module("contract")
"""tests/contract.py: what there is to choose."""

Edit = tuple[str, str, str]
"""A file, what stands there, what is to stand there."""

EXPORT = "cs_basics/interop/llama_config.py"
CHECK = "    if misfits := unlike_llama(config):\n"
REFUSAL = '    raise ValueError("a Llama has other conventions than this contract")\n'
HEADING = "## From scratch\n"
"""The heading of the handout above which the contract stands."""
FOREWORD = """\
**The contract.** Where customs differ, this course asks for one of them. A solution that was
written for another loses the points of the problems that it touches. In this contract,

"""


def write_contracted(folder: Path, wanted: Any) -> None:  # noqa: ANN401  tests/ has no types here
    """Write the repository under a contract, without its history, its own tests and instructors.

    Args:
        folder: The folder to make.
        wanted: A contract.Contract.

    Raises:
        ValueError: What an edit replaces is not there.
    """
    texts = rewritten(wanted)
    for place in COPIED:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / place).is_file():
            shutil.copyfile(ROOT / place, folder / place)
        else:
            ignored = shutil.ignore_patterns(*NOT_COPIED)
            shutil.copytree(ROOT / place, folder / place, ignore=ignored)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    contract.write(folder / "tests" / contract.FILE.name, wanted)


def rewritten(wanted: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the text of each file that says something else under a contract.

    Raises:
        ValueError: What an edit replaces is not there.
    """
    texts: dict[str, str] = {}
    for file, there, here in edits(wanted):
        text = texts.get(file) or (ROOT / file).read_text(encoding="utf-8")
        if there not in text:
            raise ValueError(f"{file} does not say {there!r}: see starter/conventions")
        texts[file] = text.replace(there, here)
    return texts


def edits(wanted: Any) -> list[Edit]:  # noqa: ANN401
    """List what a contract says otherwise, in the order in which it is to be written."""
    changed: list[str] = wanted.changed()
    found = [edit for name in changed for edit in edits_of(name)[getattr(wanted, name)]]
    if any("transformer_lm" in contract.PROBLEMS[name] for name in changed):
        found.append((EXPORT, CHECK, REFUSAL + CHECK))
    if changed:
        said = ";\n".join(f"- {wanted.says(name)}" for name in changed)
        found.append(("docs/handout.md", HEADING, f"{FOREWORD}{said}.\n\n{HEADING}"))
    return found


@functools.cache
def edits_of(name: str) -> dict[str, list[Edit]]:
    """Read the edits of a convention, by option."""
    options = tomllib.loads((CONVENTIONS / f"{name}.toml").read_text(encoding="utf-8"))
    return {
        option: [(edit["file"], edit["there"], edit["here"]) for edit in found]
        for option, found in options.items()
    }
