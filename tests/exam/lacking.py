"""Why a submission cannot be imported: what it needs and is not here, and how to get it."""

import contextlib
import importlib.metadata
import platform
import re
import sys
import tomllib
import traceback
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

# def f[T](x), class A[T], type A = B
OF_PYTHON_3_12 = re.compile(r"\s*(async\s+)?((def|class|type)\s+\w+\s*\[|type\s+\w+\s*=)")


def why_not_imported(error: Exception, root: Path) -> str:
    """Say what an import raised, in which line of the submission, and what to do about it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.startswith(str(root.resolve()))]
    frame = (own or frames)[-1]
    file, line = place_of_syntax(error) or (frame.filename, frame.lineno)
    said = f"{type(error).__name__}: {text_of(error)} ({file}, line {line}){what_to_do(error)}"
    unmet = ", ".join(unmet_needs(root))
    return f"{said}\nIts pyproject.toml asks for {unmet}." if unmet else said


def place_of_syntax(error: BaseException) -> tuple[str, int | None] | None:
    """Return file and line that Python cannot read, if that is the error."""
    if isinstance(error, SyntaxError) and (error.filename or "").endswith(".py"):
        return error.filename, error.lineno
    return None


def text_of(error: BaseException) -> str:
    """Return the message; without the place, which Python adds to that of a SyntaxError."""
    return error.msg if isinstance(error, SyntaxError) and place_of_syntax(error) else str(error)


def what_to_do(error: BaseException) -> str:
    """End the line about an import that failed, if something is missing; "" for other errors."""
    if type(error) is SyntaxError and place_of_syntax(error):
        is_newer = sys.version_info < (3, 12) and OF_PYTHON_3_12.match(error.text or "")
        return of_newer_python("3.12") if is_newer else ""
    if isinstance(error, TypeError) and "few arguments for typing.Generator" in str(error):
        return of_newer_python("3.13")
    if not isinstance(error, ImportError) or not error.name:
        return ""
    if other := in_other_capitals(error.name):
        return f": there is {other}, and Python tells capitals apart, whatever the system does"
    package = error.name.partition(".")[0]
    if package in sys.stdlib_module_names:
        return of_newer_python("")
    if isinstance(error, ModuleNotFoundError):
        return f": if {package} is a package, install it: python -m pip install {package}"
    return ""


def in_other_capitals(name: str) -> str:
    """Find the file of a module whose name differs in capitals alone, or return ""."""
    parent, _, last = name.rpartition(".")
    places = getattr(sys.modules.get(parent), "__path__", ()) if parent else sys.path
    files = (file for place in places if Path(place).is_dir() for file in Path(place).iterdir())
    found = (file.name for file in files if file.suffix == ".py" or file.is_dir())
    same = (file for file in found if file.removesuffix(".py").lower() == last.lower())
    return next((file for file in same if file.removesuffix(".py") != last), "")


def of_newer_python(version: str) -> str:
    here = platform.python_version()
    needs = (
        f"needs Python {version}, not" if version else "(if it is right) needs a newer Python than"
    )
    return f": the line {needs} {here}: make clean, then make test PYTHON=python{version or '3.X'}"


def unmet_needs(root: Path) -> Iterator[str]:
    """Say what a submission's pyproject.toml asks for and what is here, where they differ."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted, version = project.get("requires-python", ""), platform.python_version()
        if version not in SpecifierSet(wanted):
            yield f"Python {wanted} (here: {version})"
        for need in map(Requirement, project.get("dependencies", ())):
            if need.marker and not need.marker.evaluate():
                continue
            try:
                version = importlib.metadata.version(need.name)
            except importlib.metadata.PackageNotFoundError:
                version = "none"
            if version == "none" or version not in need.specifier:
                yield f"{need.name}{need.specifier} (here: {version})"
