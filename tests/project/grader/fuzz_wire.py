"""Feeds frames that stand for much to the reader under limits of memory and time.

    python tests/project/grader/fuzz_wire.py 1000

Anything but a value or a WireError ends it, so does a frame that takes too long or too much.
"""

import contextlib
import itertools
import json
import random
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from cs_grader.sandbox import wire

MAX_MORE_BYTES = 400 * 2**20
MAX_S = 5.0
# A few megabytes that stand for gigabytes, or take minutes.
ATTACKS = (
    b'{"r":[1,' * 100 + b"[" + b"1," * 400_000 + b"1]" + b"]}" * 100,
    b'{"r":[1000000000,[]]}',
    b"[" + b"[]," * 5_000_000 + b"[]]",
    b"[" + b'"\\ud83d\\ude43",' * 2_000_000 + b"0]",
    b"[" * 10_000_000,
)


def framed(header, body=b""):
    """Put a prefix with the right lengths before it."""
    return wire.PREFIX.pack(wire.MAGIC, len(header), len(body)) + header + body


def colliding(number):
    """A dict whose keys have one hash in Python."""
    keys = json.dumps([index * (2**61 - 1) for index in range(number)])
    return f'{{"d":[{keys},{keys}]}}'.encode()


SMALL = (b"1", b"[]", b'""', b"{}", b'"\\ud83d\\ude43"', b"1e5", b'{"t":[]}')
AROUND = (
    *((b'{"r":[%d,' % width, b"]}") for width in (1, 2, 1000, 10**9)),
    *((b"[", b"]"), (b'{"t":', b"}"), (b'{"s":', b"}")),
)


def grown(rng):
    """A frame that stands for as much as a frame can: wide, deep, or both."""
    before, after = rng.choice(AROUND)
    depth = rng.choice((0, 1, 5, 15, 18, 19, 25, 300, 100_000))
    many = b",".join([rng.choice(SMALL)] * int(10 ** rng.uniform(2, 6.5)))
    return framed(before * depth + b"[" + many + b"]" + after * depth)


@contextlib.contextmanager
def at_most(num_bytes):
    """Let this process take only so much more memory."""
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def main(num_frames):
    """Feed the frames; return what harm one of them does, if any."""
    rng = random.Random(0)
    accepted = refused = 0
    drawn = (grown(rng) for _ in range(num_frames))
    for frame in itertools.chain(map(framed, (*ATTACKS, colliding(100_000))), drawn):
        started = time.perf_counter()
        try:
            with at_most(MAX_MORE_BYTES):
                wire.decode(frame)
            accepted += 1
        except wire.WireError:
            refused += 1
        except Exception as error:  # A MemoryError among them.
            return f"{type(error).__name__}: {error}: {frame[:200]!r}"
        if (took := time.perf_counter() - started) > MAX_S:
            return f"{took:.1f} s: {frame[:200]!r}"
    print(f"{refused} refused, {accepted} accepted")
    return None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
