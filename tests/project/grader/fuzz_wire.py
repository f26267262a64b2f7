"""Feeds mutated and grown frames to the reader under limits of memory and time.

    python tests/project/grader/fuzz_wire.py --frames 100000

Anything but a value or a WireError ends it, so does a frame that takes too long or too much.
"""

import argparse
import contextlib
import itertools
import json
import random
import resource
import sys
import time
from collections.abc import Iterator
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


def attacks() -> Iterator[bytes]:
    """Frames of a few megabytes that stand for gigabytes, or take minutes."""
    ones = b"[" + b",".join([b"1"] * 400_000) + b"]"
    yield framed(b'{"r":[1,' * 100 + ones + b"]}" * 100, b"")
    yield framed(b'{"r":[1000000000,[]]}', b"")
    yield framed(b"[" + b"[]," * 5_000_000 + b"[]]", b"")
    yield framed(b"[" + b'"\\ud83d\\ude43",' * 2_000_000 + b"0]", b"")
    colliding = json.dumps([index * (2**61 - 1) for index in range(100_000)]).encode()
    yield framed(b'{"d":[' + colliding + b"," + colliding + b"]}", b"")
    yield framed(b"[" * 10_000_000, b"")


def mutated(rng: random.Random) -> bytes:
    """A good frame with some bytes changed, cut out or repeated, and its lengths set right."""
    frame = wire.encode(rng.choice(VALUES))
    start = wire.PREFIX.size + wire.PREFIX.unpack_from(frame)[1]
    header, body = bytearray(frame[wire.PREFIX.size : start]), frame[start:]
    for _ in range(rng.randint(0, 3)):
        place = rng.randrange(len(header))
        kind = rng.randrange(4)
        if kind == 0:
            header[place] = rng.choice(b'[]{},:"0123456789eE.-+adrstbn\\u')
        elif kind == 1:
            del header[place : place + rng.randint(1, 5)]
        else:
            piece = bytes(header[place : place + rng.randint(1, 30)])
            header[place:place] = piece * rng.choice((1, 2, 1000))
        header = header or bytearray(b"0")
    return framed(bytes(header), body)


def grown(rng: random.Random) -> bytes:
    """A frame that stands for as much as a frame can: wide, deep, or both."""
    size = int(10 ** rng.uniform(2, 7))
    small = rng.choice(
        (b"1", b"[]", b'""', b"{}", b'"\\ud83d\\ude43"', b"1e5", b'{"t":[]}', b"[[]]")
    )
    many = b"[" + b",".join([small] * max(size // (len(small) + 1), 1)) + b"]"
    depth = rng.choice((0, 1, 5, 15, 18, 19, 25, 300, 100_000))
    width = rng.choice((1, 2, 3, 1000, 10**9))
    around = rng.choice(
        (b"[%s]", b'{"r":[%d,%%s]}' % width, b'{"t":%s}', b'{"d":[%s,%s]}', b'{"s":%s}')
    )
    if around.count(b"%s") == 2:
        keys = json.dumps([index * (2**61 - 1) for index in range(min(size // 20, 10**5))]).encode()
        return framed(b'{"d":[' + keys + b"," + keys + b"]}", b"")
    header = around.split(b"%s")
    return framed(header[0] * depth + many + header[1] * depth, bytes(rng.choice((0, 10, 10**6))))


def framed(header: bytes, body: bytes) -> bytes:
    """Put a prefix with the right lengths before it."""
    return wire.PREFIX.pack(wire.MAGIC, len(header), len(body)) + header + body


@contextlib.contextmanager
def at_most(num_bytes: int) -> Iterator[None]:
    """Let this process take only so much more memory."""
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def main() -> int:
    """Feed the frames; return 1 if one of them does harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    refused = accepted = 0
    slowest = 0.0
    drawn = (grown(rng) if number % 50 == 0 else mutated(rng) for number in range(asked.frames))
    for number, frame in enumerate(itertools.chain(attacks(), drawn)):
        started = time.perf_counter()
        try:
            with at_most(MAX_MORE_BYTES):
                wire.decode(frame)
            accepted += 1
        except wire.WireError:
            refused += 1
        except Exception as error:  # A MemoryError among them.
            print(f"frame {number}: {type(error).__name__}: {error}: {frame[:200]!r}")
            return 1
        took = time.perf_counter() - started
        slowest = max(slowest, took)
        if took > MAX_S:
            print(f"frame {number}: {took:.1f} s: {frame[:200]!r}")
            return 1
    print(f"{refused} refused, {accepted} accepted, the slowest took {slowest:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
