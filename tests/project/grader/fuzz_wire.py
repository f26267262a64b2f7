"""Feeds mutated and grown frames to the reader under limits of memory and time.

    python tests/project/grader/fuzz_wire.py 100000

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

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

from cs_grader.sandbox import wire

MAX_MORE_BYTES = 400 * 2**20
MAX_S = 5.0
VALUES = (
    {"values": np.arange(4.0), "names": ["a", b"b", None], "rows": [(1, 2), (3, 4)]},
    {index: bytes([index]) for index in range(256)},
    [(b"a", b"bc"), (b"", b"d")],
    {"ended": "returned", "value": [{"dtype": "float32", "values": np.zeros((3, 2))}] * 3},
    ["\U0001f643" * 50, 2**70, -1.5, float("nan"), True, None, (), [], {}],
)
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


def mutated(rng):
    """A good frame with some bytes changed, cut out or repeated, and its lengths set right."""
    frame = wire.encode(rng.choice(VALUES))
    start = wire.PREFIX.size + wire.PREFIX.unpack_from(frame)[1]
    header = bytearray(frame[wire.PREFIX.size : start])
    for _ in range(rng.randint(0, 3)):
        place = rng.randrange(len(header))
        piece = bytes(header[place : place + rng.randint(1, 30)])
        letter = bytes([rng.choice(b'[]{},:"0123456789eE.-+adrstbn\\u')])
        changes = (letter, b"", piece * rng.choice((1, 2, 1000)) + piece)
        header[place : place + len(piece)] = rng.choice(changes)
        header = header or bytearray(b"0")
    return framed(bytes(header), frame[start:])


def grown(rng):
    """A frame that stands for as much as a frame can: wide, deep, or both."""
    size = int(10 ** rng.uniform(2, 7))
    small = rng.choice((b"1", b"[]", b'""', b"{}", b'"\\ud83d\\ude43"', b"1e5", b'{"t":[]}'))
    many = b"[" + b",".join([small] * max(size // (len(small) + 1), 1)) + b"]"
    depth = rng.choice((0, 1, 5, 15, 18, 19, 25, 300, 100_000))
    width = rng.choice((1, 2, 3, 1000, 10**9))
    before, after = rng.choice(
        ((b"[", b"]"), (b'{"r":[%d,' % width, b"]}"), (b'{"t":', b"}"), (b'{"s":', b"}"))
    )
    header = rng.choice((before * depth + many + after * depth, colliding(min(size // 20, 10**5))))
    return framed(header, bytes(rng.choice((0, 10, 10**6))))


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
    drawn = (grown(rng) if number % 50 == 0 else mutated(rng) for number in range(num_frames))
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
