"""The folders that a submission may write to, made new for each import.

A submission is imported from a copy of its own, so that it may write beside its files as it does at
home. What a host leaves there, or among temporary files, is removed before the next one,
whatever its permissions are, and however deep it is.
"""

import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path


class Workplace:
    """Folders for temporary files, with a copy of the submission in the first of them.

    Args:
        submission: The copy.
        original: What it is a copy of.
        folders: Folders of temporary files. What is there from the beginning stays: it leads to
            what bubblewrap shows.
    """

    def __init__(self, submission: str, original: str, folders: Sequence[str]) -> None:
        self.submission = submission
        self.original = original
        self.folders = folders
        self.spared = {entry.path for folder in folders for entry in os.scandir(folder)}

    def renew(self) -> None:
        """Empty the folders and copy the submission.

        Raises:
            OSError: There is something that cannot be removed.
        """
        for path in self._own():
            remove(path)
        shutil.copytree(self.original, self.submission, copy_function=shutil.copyfile)

    def _own(self) -> set[str]:
        """The files and folders that this user has created since; /dev/shm may have others'."""
        return {
            entry.path
            for folder in self.folders
            for entry in os.scandir(folder)
            if entry.stat(follow_symlinks=False).st_uid == os.getuid()
        } - self.spared


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
    while entries := _opened(path):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)  # noqa: PTH108
                continue
            for inner in _opened(entry.path):
                if inner.is_dir(follow_symlinks=False):
                    os.chmod(inner.path, 0o700)  # noqa: PTH101  Or it could not be moved.
                os.rename(inner.path, next(fresh))  # noqa: PTH104
            os.rmdir(entry.path)  # noqa: PTH106
    os.rmdir(path)  # noqa: PTH106


def _opened(folder: str) -> list[os.DirEntry[str]]:
    os.chmod(folder, 0o700)  # noqa: PTH101
    with os.scandir(folder) as entries:
        return list(entries)
