"""Files and folders that appear whole or not at all, whatever kill or full disk comes between."""

import contextlib
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """Open a file that takes its name only when complete; after an error nothing is left of it.

    The new name is on the disk, too, before this returns: not even a power cut takes it back.

    Raises:
        OSError: The file cannot be written.
        ValueError: Something other than an ordinary file, such as a device, has this name.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not an ordinary file and will not be replaced")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Generator[Path]:
    """Make a folder that takes its name only when complete; after an error nothing is left of it.

    Yields:
        The folder under a temporary name, to be filled.

    Raises:
        OSError: The folder cannot be made or written.
        ValueError: There is something of this name already.
    """
    path = Path(path).absolute()
    if path.exists():
        raise ValueError(f"{path} already exists: choose another name, or remove it first")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
        temporary.rename(path)
        _sync_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Delete what processes that were killed while writing left in a folder.

    Nothing else may be writing there.
    """
    for path in folder.glob("*.tmp"):
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system can do that."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
