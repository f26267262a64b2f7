"""The folders that a submission may write to, made new for each import and cleaned between probes.

A submission is imported from a copy of its own, so that it may write beside its files as it does at
home. What a run leaves there, or among temporary files, is removed before the next one,
whatever its permissions are, and however deep it is.
"""

import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

Inventory = dict[str, tuple[int, int, int]]


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
        self.known: Inventory = {}

    def renew(self) -> None:
        """Empty the folders and copy the submission.

        Raises:
            OSError: There is something that cannot be removed.
        """
        for path in self._own():
            remove(path)
        shutil.copytree(self.original, self.submission)

    def remember(self) -> None:
        """Record what is there now, as what `clean` has to leave alone."""
        self.known = self._inventory()

    def clean(self) -> bool:
        """Remove what was added; return whether all else is as it was.

        Raises:
            OSError: There is something that cannot be removed.
        """
        found = self._inventory()
        for path in sorted(found.keys() - self.known.keys()):
            if os.path.lexists(path):  # Not if it was in a folder that is gone already.
                remove(path)
        return {path: found.get(path) for path in self.known} == self.known

    def _inventory(self) -> Inventory:
        """Everything in the folders, with what tells whether it was changed."""
        return {
            path: (about.st_mode, 0, 0)
            if stat.S_ISDIR(about.st_mode)
            # A program can set a file's modification time, but not its inode's change time.
            else (about.st_mode, about.st_ino, about.st_ctime_ns)
            for own in self._own()
            for path, about in _below(own)
        }

    def _own(self) -> set[str]:
        """The files and folders that were created after this object."""
        found = {entry.path for folder in self.folders for entry in os.scandir(folder)}
        return found - self.spared


def _below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """A file or a folder and all that is in it."""
    waiting = [path]
    while waiting:
        path = waiting.pop()
        about = os.lstat(path)
        yield path, about
        if stat.S_ISDIR(about.st_mode):
            waiting += _inside(path)


def _inside(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder)]
    except PermissionError:
        Path(folder).chmod(0o700)
        return [entry.path for entry in os.scandir(folder)]


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
