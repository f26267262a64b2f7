"""Plain data as a JSON header and raw bytes: all that crosses between grader and sandbox.

Whoever reads trusts nothing: dtypes come from a list, shapes must account for every byte, and what
comes out is built anew from dict, list, tuple, str, bytes, numbers and arrays. There is no pickle
and no code on the way. How much a frame can cost is bounded before anything is made of it, in this
order: its length, from the prefix; the number of its parts and its depth, by counting commas and
brackets; then, while it is built, the nodes that stand for more parts than they are long.

A frame is MAGIC, the lengths of header and body, the header (JSON) and the body (bytes of arrays).
In the header a list stands for itself; {"d": [keys, values]} is a dict, {"t": items} a tuple,
{"r": [width, items]} a list of tuples in a row, {"b": text} bytes as Latin-1, {"s": lengths} a list
of bytes and {"a": [dtype, shape]} an array (shape null: a NumPy number); what has no place in the
header comes next in the body. A vocabulary of 50,000 tokens takes three nodes.
"""

import io
import itertools
import json
import math
import re
import socket
import struct
import time
from typing import Any

import numpy as np

Plain = Any
"""None, bool, int, float, str, bytes, NumPy arrays and numbers; lists, tuples, dicts of these.

The keys of a dict are text, bytes or integers.
"""

MAGIC = b"csg1"
PREFIX = struct.Struct(">4sII")
# The largest answer in the examination has half a megabyte, the largest question, a text, 13; none
# has more than 3,000 parts.
MAX_BYTES = 32 * 2**20
MAX_PARTS = 500_000
# Of brackets, of which a dict has three levels.
MAX_DEPTH = 40
NO_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^][{}"]++')
MAX_AXES = 32
# Python's hash of a larger int is its remainder: keys of a dict could be made to collide.
MAX_KEY = 2**60
SCALARS = {bool, int, float, str, type(None)}
DTYPES = frozenset(
    f"{kind}{bits}"
    for kind, widths in (
        ("int", (8, 16, 32, 64)),
        ("uint", (8, 16, 32, 64)),
        ("float", (16, 32, 64)),
        ("complex", (64, 128)),
    )
    for bits in widths
) | {"bool"}


class WireError(ValueError):
    """The bytes are not a frame."""


def encode(value: Plain) -> bytes:
    """Return the frame of a plain value.

    Raises:
        TypeError: Some part of it is not plain data.
    """
    body: list[bytes] = []
    header = json.dumps(_tree(value, body), separators=(",", ":")).encode("ascii")
    return PREFIX.pack(MAGIC, len(header), sum(map(len, body))) + header + b"".join(body)


def decode(frame: bytes) -> Plain:
    """Return the value of a frame.

    Raises:
        WireError: The bytes are not exactly one well-formed frame.
    """
    if len(frame) < PREFIX.size:
        raise WireError("the frame ends in its prefix")
    length = _length(frame[: PREFIX.size])
    if length != len(frame) - PREFIX.size:
        raise WireError(f"the frame announces {length} bytes and has {len(frame) - PREFIX.size}")
    start = PREFIX.size + PREFIX.unpack_from(frame)[1]
    header = frame[PREFIX.size : start]
    reader = _Reader(memoryview(frame)[start:])
    reader.count(sum(map(header.count, (b",", b"[", b"{"))))
    steps = (1 if bracket in b"[{" else -1 for bracket in NO_BRACKETS.sub(b"", header))
    if max(itertools.accumulate(steps), default=0) > MAX_DEPTH:
        raise WireError(f"parts nested more than {MAX_DEPTH} deep")
    try:
        # Inner nodes are made before outer ones, and thus in the order in which they were written.
        value = json.loads(header, object_hook=reader.made_of)
    except WireError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WireError(f"the header is malformed ({type(error).__name__})") from None
    if len(reader.rest):
        raise WireError(f"{len(reader.rest)} bytes belong to nothing")
    return value


def receive(channel: socket.socket, deadline: float, limit: int = MAX_BYTES) -> bytes | None:
    """Read one frame, not decoded; None if the other side closed before its first byte.

    Args:
        channel: A stream socket.
        deadline: By time.monotonic().
        limit: The most bytes that a frame may announce.

    Raises:
        WireError: What came is no frame, is too long, or ended in the middle.
        TimeoutError: The frame was not complete in time.
    """
    prefix = _read(channel, PREFIX.size, deadline)
    if not prefix:
        return None
    length = _length(prefix)
    if length > limit:
        raise WireError(f"an answer of {length / 1e6:.0f} MB, more than {limit / 1e6:.0f} MB")
    rest = _read(channel, length, deadline)
    if len(prefix) + len(rest) < PREFIX.size + length:
        raise WireError("the answer breaks off")
    return prefix + rest


def send(channel: socket.socket, frame: bytes, deadline: float) -> None:
    """Write a frame.

    Raises:
        TimeoutError: The other side did not read it in time.
        OSError: The other side is gone.
    """
    view = memoryview(frame)
    while view:
        channel.settimeout(max(deadline - time.monotonic(), 0.001))
        view = view[channel.send(view[: 2**20]) :]


def _read(channel: socket.socket, count: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while count:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        channel.settimeout(left)
        part = channel.recv(min(count, 2**20))
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _length(prefix: bytes) -> int:
    if len(prefix) < PREFIX.size:
        raise WireError("the frame ends in its prefix")
    magic, header, body = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise WireError("what came is not an answer")
    return header + body


def _tree(value: Plain, body: list[bytes]) -> Plain:
    """Describe a value for the header and append the bytes of its arrays to the body."""
    if isinstance(value, np.ndarray | np.number | np.bool_):  # Before float, which float64 is too.
        dtype = value.dtype.name
        if dtype not in DTYPES:
            raise TypeError(f"an array of dtype {dtype} is not plain data")
        body.append(np.asarray(value, value.dtype.newbyteorder("<")).tobytes())
        return {"a": [dtype, list(value.shape) if isinstance(value, np.ndarray) else None]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return {"b": value.decode("latin-1")}
    if isinstance(value, list):
        return _list(value, body)
    if isinstance(value, tuple):
        return {"t": _list(list(value), body)}
    if isinstance(value, dict):
        if not all(map(_is_key, value)):
            raise TypeError("a key that is neither text nor a number below 2^60 is not plain data")
        return {"d": [_list(list(value), body), _list(list(value.values()), body)]}
    raise TypeError(f"{type(value).__name__} is not plain data")


def _list(items: list[Plain], body: list[bytes]) -> Plain:
    """Describe a list; long ones of one kind without a look at each item in Python."""
    kinds = set(map(type, items))
    if kinds <= SCALARS:
        return items
    if kinds == {bytes}:
        body.append(b"".join(items))
        return {"s": list(map(len, items))}
    widths = set(map(len, items)) if kinds == {tuple} else set[int]()
    if len(widths) == 1 and widths != {0}:
        return {"r": [*widths, _list(list(itertools.chain.from_iterable(items)), body)]}
    return [_tree(item, body) for item in items]


def _is_key(key: Plain) -> bool:
    is_number = isinstance(key, np.integer) or (type(key) is int and abs(key) < MAX_KEY)
    return is_number or isinstance(key, str | bytes)


class _Reader:
    """Makes values of header nodes, and takes the bytes of arrays from the body in turn."""

    def __init__(self, body: memoryview) -> None:
        self.rest = body
        self.num_parts = 0

    def count(self, parts: int) -> None:
        """Take note of parts before they are made."""
        self.num_parts += parts
        if self.num_parts > MAX_PARTS:
            raise WireError(f"more than {MAX_PARTS} parts")

    def made_of(self, node: dict[str, Plain]) -> Plain:
        """Make the value that a node stands for; what is in it has been made."""
        match list(node.items()):
            case [("d", [list(keys), list(values)])] if all(map(_is_key, keys)):
                return dict(zip(keys, values, strict=True))
            case [("t", list(items))]:
                return tuple(items)
            case [("r", [int(width), list(items)])] if 1 <= width <= max(len(items), 1):
                self.count(len(items) // width)
                return list(zip(*[iter(items)] * width, strict=True))
            case [("s", list(lengths))] if all(map(_is_size, lengths)):
                return list(map(io.BytesIO(self.take(sum(lengths))).read, lengths))
            case [("b", str(text))]:
                return text.encode("latin-1")
            case [("a", [str(name), shape])] if name in DTYPES:
                return self.array(np.dtype(name), shape)
            case _:
                raise WireError("a node of the header is of an unknown kind")

    def take(self, size: int) -> memoryview:
        if size > len(self.rest):
            raise WireError("more bytes are announced than there are")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def array(self, dtype: np.dtype[Any], shape: list[int] | None) -> Plain:
        sizes = shape or []
        if len(sizes) > MAX_AXES or not all(map(_is_size, sizes)):
            raise WireError("an array of an impossible shape")
        taken = self.take(math.prod(sizes) * dtype.itemsize)
        # A copy: the caller may write to it, and the frame can be forgotten.
        made = np.frombuffer(taken, dtype.newbyteorder("<")).reshape(sizes).astype(dtype, copy=True)
        return made[()] if shape is None else made


def _is_size(size: Plain) -> bool:
    return type(size) is int and 0 <= size <= MAX_BYTES


# --- where a submission's inputs lie in the memory that the server looks at (inputs.py) ---

INPUT_BYTES = 128 * 2**20
ALIGNED = 64


def place_for(num_bytes: int, end: int) -> int | None:
    """Where a tensor begins, given where the last one ends; None if there is no room."""
    start = -(-end // ALIGNED) * ALIGNED
    return start if 0 < num_bytes <= INPUT_BYTES - start else None
