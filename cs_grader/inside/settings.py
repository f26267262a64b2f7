"""What the grader decides about the inside of a sandbox."""

from typing import NamedTuple


class Settings(NamedTuple):
    """What the grader decides about the sandbox."""

    submission: str
    """Where it runs: a copy that it may write to (workplace.py)."""
    original: str
    """What `submission` is a copy of."""
    scratch: list[str]
    """Folders for temporary files, emptied before each import; the copy is in the first."""
    examination: str
    packages: list[str]
    """Folders that are added to the end of the import path."""
    own_names: list[str]
    """Top-level modules and packages of the submission itself."""
    uid: int | None
    """Become this user; None if that is not possible or done already."""
    readable: list[str] | None
    """Allow to read only these folders; None to leave that to the sandbox."""
    writable: list[str]
    allow_network: bool
    memory_bytes: int
    file_bytes: int
    processes: int
    idle_s: float
