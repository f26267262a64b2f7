"""Plain data as a JSON header and raw bytes: all that crosses between grader and sandbox.

Whoever reads trusts nothing: dtypes come from a list, shapes must account for every byte, and what
comes out is built anew from dict, list, tuple, str, bytes, numbers and arrays. There is no pickle
and no code on the way. How much a frame can cost is bounded before anything is made of it, in this
order: its length, from the prefix; the number of its parts, by counting commas and brackets; then,
while it is built, its depth and the nodes that stand for more parts than they are long.

A frame is MAGIC, the lengths of header and body, the header (JSON) and the body (bytes of arrays).
In the header a list stands for itself; {"d": [keys, values]} is a dict, {"t": items} a tuple,
{"r": [width, items]} a list of tuples in a row, {"b": text} bytes as Latin-1, {"s": lengths} a list
of bytes, {"a": [dtype, shape]} an array and {"n": dtype} a NumPy number; what has no place in the
header comes next in the body. A vocabulary of 50,000 tokens takes three nodes.
"""

import itertools
import json
import math
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
MAX_DEPTH = 20
MAX_AXES = 32
# Python's hash of a larger int is its remainder: keys of a dict could be made to collide.
MAX_KEY = 2**60
NO_KEY = "a key that is neither text nor a number below 2^60"
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
    num_parts = sum(map(header.count, (b",", b"[", b"{")))
    try:
        reader = _Reader(memoryview(frame)[start:], num_parts)
        value = reader.value(json.loads(header))
    except WireError:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
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
        return {"a": [dtype, list(value.shape)]} if isinstance(value, np.ndarray) else {"n": dtype}
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
            raise TypeError(f"{NO_KEY} is not plain data")
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
    """Builds values from header nodes, and takes the bytes of arrays from the body in turn."""

    def __init__(self, body: memoryview, num_parts: int) -> None:
        self.rest = body
        self.num_parts = 0
        self.depth = 0
        self.count(num_parts)

    def count(self, parts: int) -> None:
        """Take note of parts before they are made."""
        self.num_parts += parts
        if self.num_parts > MAX_PARTS:
            raise WireError(f"more than {MAX_PARTS} parts")

    def value(self, node: Plain) -> Plain:
        if not isinstance(node, list | dict):
            return node
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise WireError(f"parts nested more than {MAX_DEPTH} deep")
        value = self.sequence(node) if isinstance(node, list) else self.marked(node)
        self.depth -= 1
        return value

    def sequence(self, node: list[Plain]) -> list[Plain]:
        scalars = set(map(type, node)) <= SCALARS
        return node if scalars else [self.value(item) for item in node]

    def marked(self, node: dict[str, Plain]) -> Plain:
        if len(node) != 1:
            raise WireError("a node of the header has no kind")
        ((kind, what),) = node.items()
        make = {"d": self.mapping, "t": self.items, "r": self.rows, "s": self.pieces}.get(kind)
        if make is not None:
            return tuple(make(what)) if kind == "t" else make(what)
        if kind == "b":
            return str.encode(what, "latin-1")
        if kind == "a":
            dtype, shape = what
            return self.array(dtype, shape)
        if kind == "n":
            return self.array(what, [])[()]
        raise WireError("a node of the header is of an unknown kind")

    def items(self, node: Plain) -> list[Plain]:
        items = self.value(node)
        if type(items) is not list:
            raise WireError("a list was expected and something else came")
        return items

    def mapping(self, node: Plain) -> dict[Plain, Plain]:
        keys, values = map(self.items, node)
        if not all(map(_is_key, keys)):
            raise WireError(NO_KEY)
        return dict(zip(keys, values, strict=True))

    def rows(self, node: Plain) -> list[Plain]:
        width, flat = node
        items = self.items(flat)
        if type(width) is not int or not 1 <= width <= max(len(items), 1) or len(items) % width:
            raise WireError("rows of an impossible width")
        self.count(len(items) // width)
        return list(zip(*[iter(items)] * width, strict=True))

    def pieces(self, lengths: list[int]) -> list[bytes]:
        if any(type(length) is not int or length < 0 for length in lengths):
            raise WireError("a piece of an impossible length")
        ends = list(itertools.accumulate(lengths))
        size = ends[-1] if ends else 0
        whole = bytes(self.take(size))
        return [whole[end - length : end] for end, length in zip(ends, lengths, strict=True)]

    def take(self, size: int) -> memoryview:
        if size > len(self.rest):
            raise WireError("more bytes are announced than there are")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def array(self, name: str, shape: list[int]) -> Plain:
        if name not in DTYPES or len(shape) > MAX_AXES:
            raise WireError("an array of an unknown dtype, or with too many axes")
        if any(type(size) is not int or not 0 <= size <= MAX_BYTES for size in shape):
            raise WireError("an array of an impossible shape")
        dtype = np.dtype(name).newbyteorder("<")
        taken = self.take(math.prod(shape) * dtype.itemsize)
        # A copy: the caller may write to it, and the frame can be forgotten.
        return np.frombuffer(taken, dtype).reshape(shape).astype(np.dtype(name), copy=True)
