"""Atomic writes: files and folders that appear complete or not at all, even after a kill; locks."""

import contextlib
import errno
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import IO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """Open a file that gets its name only when it is complete; an error deletes it.

    The file and its name are synced to the disk on return, so that a power cut loses neither. Its
    folder is made if it is missing.

    Raises:
        OSError: The file cannot be written.
        ValueError: The path exists and is not an ordinary file (a device, for example).
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not an ordinary file and will not be replaced")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno in NO_ROOM:  # Of a write the system names no file.
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that appears complete or not at all; errors as `atomic_writer`."""
    with atomic_writer(path) as file:
        file.write(content)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Generator[Path]:
    """Make a folder that gets its name only when it is complete; an error deletes it.

    Yields:
        The folder under a temporary name.

    Raises:
        OSError: The folder cannot be made or written.
        ValueError: The path exists already.
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
    """Delete the temporary files and folders of killed processes: NAME.PID.tmp, as above.

    No other process may be writing to the folder.
    """
    for path in folder.glob("*.tmp"):
        if not Path(path.stem).suffix[1:].isdecimal():
            continue  # A file of the user's.
        remove(path)


def remove(path: Path) -> None:
    """Delete a file, or a folder with all that is in it, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed, where operating system and file system support it.

    Not with `flock`, whose lock is inherited by children and outlives a killed parent process.

    Raises:
        ValueError: Another process has locked it, or did until it deleted or renamed it.
    """
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            return
        raise ValueError(f"{file.name} is being written by another process") from None
    # Opened before its last holder let it go, it may be a file that nobody else will find.
    try:
        is_found = os.path.samestat(os.fstat(file.fileno()), Path(file.name).stat())
    except FileNotFoundError:
        is_found = False
    if not is_found:
        raise ValueError(f"{file.name} was finished by another process just now: call this again")


def _sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to the disk, where the operating system supports it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
