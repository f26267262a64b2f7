"""Removes what others have left: whatever its permissions are, and however deep it is."""

import itertools
import os
import secrets
import stat
from pathlib import Path


def remove(path: str | Path) -> None:
    """Remove a file, or a folder with all that is in it.

    `shutil.rmtree` calls itself for each level (until Python 3.13), and a path may only be so
    long. So what is inside a folder is moved to the top before the folder is removed.

    Raises:
        OSError: Something cannot be removed, or is not there.
    """
    path = os.fspath(path)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)  # noqa: PTH108
        return
    prefix = f"{path}/{secrets.token_hex(8)}"
    fresh = (f"{prefix}-{number}" for number in itertools.count())
    while entries := _inside(path):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)  # noqa: PTH108
                continue
            for inner in _inside(entry.path):
                if inner.is_dir(follow_symlinks=False):
                    os.chmod(inner.path, 0o700)  # noqa: PTH101  Or it could not be moved.
                os.rename(inner.path, next(fresh))  # noqa: PTH104
            os.rmdir(entry.path)  # noqa: PTH106
    os.rmdir(path)  # noqa: PTH106


def _inside(folder: str) -> list[os.DirEntry[str]]:
    os.chmod(folder, 0o700)  # noqa: PTH101
    with os.scandir(folder) as entries:
        return list(entries)
