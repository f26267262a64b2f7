"""How much memory does `encode_iterable` need? Best run in a process of its own, by probes/text.py.

    python lazy_memory.py ROOT < inputs

ROOT is the repository whose adapters are measured, the inputs are a Python literal; prints the
bytes by which the process grew while it encoded, or nothing where that cannot be seen.
"""

import ast
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")


def peak_bytes() -> int | None:
    """The most memory that this process has held, since `forget_the_peak` where that works."""
    if STATUS.exists():
        # Not ru_maxrss: on Linux a new process starts with the peak of the one that started it.
        return held("VmHWM")
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None


def held(what: str) -> int:
    """A row of what Linux tells of this process's memory, in bytes."""
    (line,) = (row for row in STATUS.read_text().splitlines() if row.startswith(f"{what}:"))
    return int(line.split()[1]) * 1024


def forget_the_peak() -> None:
    """Have the most count from now on: what was held before and given back hides nothing."""
    with contextlib.suppress(OSError):  # Some sandboxes do not allow it; nor do other systems.
        Path("/proc/self/clear_refs").write_text("5")


# Not a limit that anything fails by: a tokenizer that is slower is measured on less text.
CPU_SECONDS = 40


class Chunks:
    """Much text, piece by piece, and the least memory that was held while it was read."""

    def __init__(self, chunk: str, num_chunks: int) -> None:
        self.chunk = chunk
        self.num_chunks = num_chunks
        self.least_bytes = sys.maxsize

    def __iter__(self) -> Iterator[str]:
        started = time.process_time()
        for number in range(self.num_chunks):
            yield f"{number % 10}{self.chunk}"  # A new string each time, as from a file.
            if STATUS.exists():
                self.least_bytes = min(self.least_bytes, held("VmRSS"))
            if time.process_time() - started > CPU_SECONDS:
                break


def growth(tokenizer: Any, chunk: str, num_chunks: int) -> int | None:
    """Bytes by which this process grows while it encodes many chunks, after a few."""
    for _ in tokenizer.encode_iterable(Chunks(chunk, 20)):
        pass
    forget_the_peak()
    before, many = peak_bytes(), Chunks(chunk, num_chunks)
    for _ in tokenizer.encode_iterable(iter(many)):
        pass
    after = peak_bytes()
    return None if before is None or after is None else after - min(before, many.least_bytes)


def main() -> None:
    root = Path(sys.argv[1])
    sys.path[0:1] = [*map(str, Path(__file__).parents[1:3]), str(root)]
    from submission import load_adapters

    given = ast.literal_eval(sys.stdin.read())
    tokenizer = load_adapters(root).get_tokenizer(**given["tokenizer"])
    grown = growth(tokenizer, given["chunk"], given["num_chunks"])
    if grown is not None:
        print(grown)


if __name__ == "__main__":
    main()
