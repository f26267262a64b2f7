"""Files that appear whole or not at all: a kill or a full disk never leaves half of one."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """Open a file that takes its name only when complete; after an error nothing is left of it.

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
    finally:
        temporary.unlink(missing_ok=True)
