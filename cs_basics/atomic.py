"""Files that appear whole or not at all: a kill or a full disk never leaves half of one."""

import contextlib
import os
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
