"""Load the adapters of a repository: the one around this file, or any other (--submission)."""

import atexit
import importlib
import importlib.abc
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from probes.without_gpu import stand_in_for_a_gpu

EXAM = Path(__file__).parent
TESTS = EXAM.parent
REFERENCE = "cs_basics"


def load_adapters(root: Path) -> ModuleType:
    """Import `tests/adapters.py` of a repository as its own tests would.

    The repository's root (and `src`) come first on the import path. Warnings that it causes are
    shown, not raised.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        stand_in_for_a_gpu()
        sys.meta_path.insert(0, PackagesFirst())
        if root.resolve() == TESTS.parent.resolve():
            return importlib.import_module("adapters")
        with out_of_the_way():
            return import_from(root.resolve())


class PackagesFirst(importlib.abc.MetaPathFinder):
    """Imports a module's packages before it, so that a package that cannot be imported says why.

    Python takes it out again, but not a folder in it without `__init__.py`: the next import from
    there ends with a bare KeyError.
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        del path, target
        parts = fullname.split(".")
        for size in range(1, len(parts)):
            importlib.import_module(".".join(parts[:size]))


def import_from(root: Path) -> ModuleType:
    folders = [root, root / "src"]
    sys.path[:0] = [str(folder) for folder in folders if folder.is_dir()]
    sys.path += [str(root / "tests"), distribution_of(root)]
    if not any((folder / REFERENCE).exists() for folder in folders):
        # Whoever imports the reference instead of code of their own is told that it is not there.
        sys.modules[REFERENCE] = None  # type: ignore[assignment]
    importlib.invalidate_caches()
    make_package("tests", root / "tests")
    return importlib.import_module("tests.adapters")


@contextmanager
def out_of_the_way() -> Iterator[None]:
    """Hide the examination's own modules, so that a submission may use the same names."""
    # Compared as text: two thousand modules are loaded, and a Path for each took 0.08 s.
    ours = {
        name: module
        for name, module in sys.modules.items()
        if str(getattr(module, "__file__", "")).startswith(f"{TESTS}{os.sep}")
    }
    for name in ours:
        del sys.modules[name]
    folders = (EXAM, TESTS)
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() not in folders]
    try:
        yield
    finally:
        sys.modules |= ours
        sys.path += map(str, folders)


def make_package(name: str, folder: Path) -> None:
    """Put a folder into sys.modules as a package, whether or not it has an `__init__.py`.

    An ordinary import could find another package of this name further down the path.
    """
    init = folder / "__init__.py"
    spec: Any = ModuleSpec(name, None, is_package=True)
    if init.exists():
        spec = importlib.util.spec_from_file_location(
            name, init, submodule_search_locations=[str(folder)]
        )
    spec.submodule_search_locations = [str(folder)]
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    if spec.loader and init.exists():
        spec.loader.exec_module(package)


def distribution_of(root: Path) -> str:
    """Write what `importlib.metadata` wants to see of an installed project; return the folder."""
    folder = Path(tempfile.mkdtemp(prefix="submission-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = root / "pyproject.toml"
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
        project = settings.get("project") or settings["tool"]["poetry"]
        versions = {project["name"]: project.get("version", "0")}
    except (OSError, ValueError, KeyError):
        # Without that file, each package of its own may ask for its version.
        packages = (init.parent.name for init in root.glob("*/__init__.py"))
        versions = dict.fromkeys(packages, "0")
    for name, version in versions.items():
        about = folder / f"{re.sub(r'[-_.]+', '_', name)}-{version}.dist-info"
        about.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (about / "METADATA").write_text(metadata, encoding="utf-8")
    return str(folder)
