"""Make the zip to hand in: python scripts/package.py.

It holds the source that tests/adapters.py may import, with what lies beside it in its packages, and
no file that the grader replaces anyway.
"""

import ast
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cli import GIVEN, check_can_write, run

from cs_basics.run.atomic import atomic_writer

ROOT = Path(__file__).parents[1]
ADAPTERS = Path("tests/adapters.py")
MAX_FILE_BYTES = 5_000_000
MAX_BYTES = 50_000_000
# The earliest date of the zip format, for every file: equal code makes an equal zip on any day.
DATE = (1980, 1, 1, 0, 0, 0)
UNIX = 3

SOURCE = (
    *(".py", ".pyi", ".toml", ".md"),
    *(".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".go", ".zig", ".pyx"),
)

REASONS = {
    "tests": "the grader has its own",
    "cs_grader": "the grader has its own",
    "conftest.py": "the grader has its own",
    **dict.fromkeys(GIVEN, "given, not yours"),
    "scripts": "given, not yours",
    "docs": "text, not code",
    "data": "text, not code",
    "runs": "results, not code",
    "wandb": "results, not code",
    "build": "made from the code",
    "dist": "made from the code",
    "target": "made from the code",
    "node_modules": "installed, not yours",
    "venv": "installed, not yours",
    "__pycache__": "made from the code",
}


def main(out: Path = Path("submission.zip"), root: Path = ROOT) -> None:
    """Make the zip, and list the files that are packed and those that are left out.

    Args:
        out: The file to write.
        root: The repository to pack.
    """
    check_can_write(out)
    if not (root / ADAPTERS).is_file():
        adapters = root / ADAPTERS
        raise FileNotFoundError(f"{adapters} is missing: through it alone your code is examined")
    needed = {ADAPTERS, *beside_adapters(root)}
    found = sorted(survey(root, needed))
    packed = [path for path, reason in found if not reason]
    left_out = [(path, reason) for path, reason in found if reason]
    if missing := sorted(needed.difference(packed)):
        reason = dict(left_out).get(missing[0], "behind a link")
        raise ValueError(f"{missing[0]}, which the examination needs, cannot be packed: {reason}")
    num_bytes = sum((root / path).stat().st_size for path in packed)
    if num_bytes > MAX_BYTES:
        largest = max(packed, key=lambda path: (root / path).stat().st_size)
        raise ValueError(
            f"{num_bytes / 1e6:.0f} MB are too much (at most {MAX_BYTES / 1e6:.0f}): "
            f"move what is not code out of the way, such as {largest}"
        )
    write_zip(out, {path.as_posix(): (root / path).read_bytes() for path in packed})
    print(f"{out}: {len(packed)} files, {num_bytes / 1e3:.1f} kB\n\nin it:")
    for path in packed:
        print(f"  {path.as_posix():<48} {(root / path).stat().st_size:>9,} bytes")
    print("\nleft out:")
    for reason in dict.fromkeys(reason for _, reason in left_out):
        places = (path.as_posix() for path, why in left_out if why == reason)
        print(f"  {reason}: {', '.join(places)}")
    for words in broken(root, packed):
        print(f"\nPacked, but no valid Python, so that whatever imports it is wrong: {words}")


def broken(root: Path, packed: Sequence[Path]) -> Iterator[str]:
    """Say of each module that does not parse where it breaks."""
    for path in packed:
        if path.suffix == ".py":
            try:
                parse(root, path)
            except ValueError as error:
                yield str(error)


def parse(root: Path, place: Path) -> ast.Module:
    """Parse a file.

    Raises:
        ValueError: It is not valid Python.
    """
    try:
        return ast.parse((root / place).read_bytes())
    except SyntaxError as error:
        raise ValueError(f"{place}, line {error.lineno}: {error.msg}") from error
    except ValueError as error:  # A null byte, in Python 3.11.
        raise ValueError(f"{place}: {error}") from error


def survey(root: Path, needed: set[Path]) -> Iterator[tuple[Path, str]]:
    """Yield files and folders in order, each with the reason to leave it out, or "".

    Of tests/ only the needed files are packed.
    """
    waiting = [root]
    on_the_way = {folder for place in needed for folder in place.parents}
    while waiting:
        for path in waiting.pop().iterdir():
            place = path.relative_to(root)
            reason = reason_to_leave(path, place)
            if place in on_the_way and path.is_dir() and not path.is_symlink():
                waiting.append(path)
            elif place.parts[0] == "tests":
                yield place, "" if place in needed and not reason else reason or REASONS["tests"]
            elif reason or path.is_file():
                yield place, reason
            elif path.is_dir():
                waiting.append(path)


def reason_to_leave(path: Path, place: Path) -> str:
    """Return why a file or folder is not packed, or an empty string."""
    name = path.name
    if path.is_symlink():
        return "a link"
    if not (path.is_dir() or path.is_file()):
        return "not a file"
    if path.is_dir():
        is_installed = name.endswith(".egg-info") or (path / "pyvenv.cfg").exists()
        # data/ and runs/ at the top hold no code, but a package further down may have such a name.
        is_anywhere = name in ("__pycache__", "node_modules")
        known = REASONS.get(name if is_anywhere else place.as_posix(), "")
        return "hidden" if name.startswith(".") else REASONS["venv"] if is_installed else known
    if name.startswith("."):
        return "hidden"
    if place.as_posix() in REASONS:
        return REASONS[place.as_posix()]
    if name.endswith((".pyc", ".zip", ".pt", ".safetensors")):
        return "not code"
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        return f"too large for code ({size / 1e6:.1f} MB)"
    # A table that a package reads lies beside its modules; a page or an exported model does not.
    is_in_a_package = len(place.parts) > 1 and any(path.parent.glob("*.py"))
    return "" if name.endswith(SOURCE) or is_in_a_package else "not source"


def beside_adapters(root: Path) -> Iterator[Path]:
    """Yield the files in tests/ that the adapters import, directly or indirectly."""
    waiting, seen = [ADAPTERS], {ADAPTERS}
    while waiting:
        importer = waiting.pop()
        for node in ast.walk(parse(root, importer)):
            names: list[str] = []
            folder = ADAPTERS.parent
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                names = [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]
                if node.level:
                    folder = importer.parents[min(node.level, len(importer.parents)) - 1]
            for name in names:
                for place in places_of(name, folder):
                    if place not in seen and (root / place).is_file():
                        seen.add(place)
                        waiting.append(place)
                        yield place


def places_of(name: str, folder: Path) -> list[Path]:
    """Return the places in tests/ where a module may be, and those of the packages around it."""
    places: list[Path] = []
    for part in name.removeprefix("tests.").split("."):
        folder /= part
        places.append(folder / "__init__.py")
    places.append(folder.parent / f"{folder.name}.py")
    return [place for place in places if place.parts[0] == ADAPTERS.parts[0]]


def write_zip(out: Path, content: Mapping[str, bytes]) -> None:
    """Write a zip in which scripts are executable; an error leaves what was there before."""
    with atomic_writer(out) as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in sorted(content.items()):
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = UNIX
            entry.external_attr = (0o100755 if data.startswith(b"#!") else 0o100644) << 16
            archive.writestr(entry, data)


if __name__ == "__main__":
    run(main)
