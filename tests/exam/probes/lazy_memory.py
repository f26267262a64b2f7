"""How much memory does `encode_iterable` need? Best run in a process of its own, by probes/text.py.

    python lazy_memory.py ROOT < inputs

ROOT is the repository whose adapters are measured, the inputs are a Python literal; prints the
bytes by which the process grew while it encoded, or nothing where that cannot be seen.
"""

import ast
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def peak_bytes() -> int | None:
    """The most memory that this process has ever held."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: on Linux a new process starts with the peak of the one that started it.
        (line,) = (row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None


# Not a limit that anything fails by: a tokenizer that is slower is measured on less text.
CPU_SECONDS = 40


def chunks(chunk: str, num_chunks: int) -> Iterator[str]:
    started = time.process_time()
    for number in range(num_chunks):
        yield f"{number % 10}{chunk}"  # A new string each time, as from a file.
        if time.process_time() - started > CPU_SECONDS:
            break


def growth(tokenizer: Any, chunk: str, num_chunks: int) -> int | None:
    """Bytes by which this process grows while it encodes many chunks, after a few."""
    for _ in tokenizer.encode_iterable(chunks(chunk, 20)):
        pass
    before = peak_bytes()
    for _ in tokenizer.encode_iterable(chunks(chunk, num_chunks)):
        pass
    after = peak_bytes()
    return None if before is None or after is None else after - before


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
