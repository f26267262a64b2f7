"""Plant a fault: edit one place of an implementation, and import the copy that has the edit."""

import ast
import functools
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from faults.bank import ADAPTERS, BANK, Case

ROOT = Path(__file__).parents[4]
HERE = Path(__file__).parent
GLUE = ROOT / "tests" / "adapters.py"
STYLES = {
    "compact": [HERE / "compact.py"],
    "classes": sorted((ROOT / "tests/project/bank/independent").glob("*.py")),
    "book": sorted((ROOT / "cs_basics").glob("*.py")),
}


def plant(
    problem: str, name: str, words: str | None, style: str, old: str, new: str, times: int = 1
) -> None:
    """Add a fault to the bank.

    Args:
        problem: Whose items have to catch it.
        name: What is wrong.
        words: As of a Case's diagnosis.
        style: Which implementation; `style: name` has to be unique.
        old: Its text at the place, which has to be there so many times.
        new: The wrong text.
        times: See old.
    """
    stand_ins = {
        adapter: functools.partial(call, adapter, style, old, new, times)
        for adapter in ADAPTERS[problem]
    }
    diagnosis = (words,) if words else ()
    BANK.append(Case(problem, f"{name} ({style})", stand_ins, is_fault=True, diagnosis=diagnosis))


def accept(style: str) -> None:
    """Add an implementation without an edit as honest work, for every problem."""
    for problem, adapters in ADAPTERS.items():
        stand_ins = {name: functools.partial(call, name, style, "", "", 0) for name in adapters}
        BANK.append(Case(problem, f"the {style} implementation", stand_ins, is_fault=False))


def call(adapter: str, style: str, old: str, new: str, times: int, **arguments: Any) -> Any:
    return getattr(edited(style, old, new, times), adapter)(**arguments)


@functools.cache
def edited(style: str, old: str, new: str, times: int) -> Any:
    """Write the implementation with its edit to a folder of its own, and import its adapters.

    Raises:
        ValueError: The edit fits no place, or several, or changes nothing but the looks.
    """
    sources = {path.stem: path.read_text(encoding="utf-8") for path in STYLES[style]}
    package = f"planted_{len(sys.modules)}"
    if times:
        places = [name for name, text in sources.items() if old in text]
        if len(places) != 1 or sources[places[0]].count(old) != times:
            raise ValueError(f"{style}: {old!r} has to be in one file, {times} times: {places}")
        (place,) = places
        changed = sources[place].replace(old, new)
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(sources[place])):
            raise ValueError(f"{style}: the edit of {old!r} changes nothing")
        sources[place] = changed
    if style != "compact":
        sources["adapters"] = GLUE.read_text(encoding="utf-8")
    folder = Path(tempfile.mkdtemp(prefix="planted-")) / package
    folder.mkdir()
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(text.replace("cs_basics", package), encoding="utf-8")
    sys.path.insert(0, str(folder.parent))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(
            f"{package}.{'compact' if style == 'compact' else 'adapters'}"
        )
    finally:
        sys.path.remove(str(folder.parent))
