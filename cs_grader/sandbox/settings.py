"""What the grader decides about the inside of a sandbox."""

from typing import NamedTuple

INPUT_BYTES = 128 * 2**20
"""Room for the tensors that are given to a submission (inputs.py)."""
ALIGNED = 64


def place_for(num_bytes: int, end: int) -> int | None:
    """Where a tensor begins, given where the last one ends; None if there is no room."""
    start = -(-end // ALIGNED) * ALIGNED
    return start if 0 < num_bytes <= INPUT_BYTES - start else None


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
    is_counted_alone: bool
    """Whether the kernel counts the processes of the sandbox, and not those of a whole user."""
    readable: list[str] | None
    """Allow to read only these folders; None to leave that to the sandbox."""
    writable: list[str]
    allow_network: bool
    memory_bytes: int
    file_bytes: int
    processes: int
    idle_s: float
