"""What leaves the sandbox is what was sent, and anything else is refused."""

import contextlib
import re
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fuzz_wire import framed
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp
from processes import python

from cs_grader.sandbox import wire
from cs_grader.sandbox.wire import MAGIC, PREFIX, WireError, decode, encode

KEYS = st.one_of(st.integers(1 - 2**60, 2**60 - 1), st.text(), st.binary())
ARRAYS = stnp.arrays(
    st.sampled_from(sorted(wire.DTYPES)), stnp.array_shapes(min_dims=0, max_dims=3, min_side=0)
)
LEAVES = st.one_of(KEYS, st.none(), st.booleans(), st.integers(), st.floats(), ARRAYS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(KEYS, inner)
    ),
    max_leaves=8,
)


def form(value):
    """All that may not change: value, type and dtype; NaN is like NaN."""
    match value:
        case np.ndarray():
            return value.dtype.name, value.shape, repr(value.tolist())
        case dict():
            return dict, [*map(form, value.items())]
        case list() | tuple():
            return type(value), [*map(form, value)]
    return repr(value)


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_plain_data_comes_back_as_it_was(value):
    assert form(decode(encode(value))) == form(value)


UNUSUAL = (
    *(np.float32(0.1), np.int64(-3), np.bool_(True), float("inf"), 10**40),
    *(np.arange(6).reshape(2, 3).T, np.arange(3, dtype=">i4"), "\ud800 \x00 \U0001f643"),
    *({1: b"\xff", "two": [(b"a", b"b"), (b"", b"c")]}, {np.int64(5): 1, np.uint8(6): 2}),
    *([(1, "a"), (b"x", None)], [(), ()], [b"", b"ab", b""]),
)


@pytest.mark.parametrize("value", UNUSUAL, ids=repr)
def test_unusual_values_come_back(value):
    assert form(decode(encode(value))) == form(value)


NOT_PLAIN = (
    *(object(), {1}, np.array([object()]), np.array(["a"]), np.datetime64("2020")),
    *(1j, {(1, 2): 3}, {None: 1}),
)


@pytest.mark.parametrize("value", NOT_PLAIN)
def test_what_is_not_plain_is_not_sent(value):
    with pytest.raises(TypeError, match="not plain data"):
        encode([value])


# A header in each line, and where it asks for bytes how many follow it.
HEADERS = rb"""
{
{}
{"a": ["float32", [1]], "b": ""}
{"z": 1}
{"d": [[{"d": [[], []]}], [1]]}
{"d": [[[]], [1]]}
{"d": [[1], []]}
{"d": [1]}
{"d": [[1152921504606846976], [1]]}
{"d": [[null], [1]]}
{"d": [[{"t": [1]}], [1]]}
{"d": ["ab", "cd"]}
{"r": [1000000000, []]}
{"r": [2, [1, 2, 3]]}
{"r": [0, []]}
{"r": [1, 5]}
[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
{"s": [3]} 2
{"s": [-1, 3]} 2
{"s": [true]} 1
{"s": 3}
{"b": "\u1234"}
{"b": 3}
{"t": 3}
{"a": ["float32", [2]]} 4
{"a": ["float32", [1]]} 8
{"a": ["float32", [-1]]} 4
{"a": ["float32", [1.0]]} 4
{"a": ["float32", [true]]} 4
{"a": ["float32", [1099511627776, 1099511627776, 0]]}
{"a": ["float32", [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]} 4
{"a": ["object", [1]]} 8
{"a": ["O", [1]]} 8
{"a": [["f4"], [1]]} 8
{"a": "float32"} 4
{"a": ["float32", 1]} 4
{"n": "str"} 4
{"n": "float32"} 3
1 4
""".strip().splitlines()


@pytest.mark.parametrize("line", HEADERS, ids=bytes.decode)
def test_a_malformed_header_is_refused(line):
    header, _, num_bytes = line.rpartition(b" ") if line[-1:].isdigit() else (line, b"", b"0")
    with pytest.raises(WireError):
        decode(framed(header, bytes(int(num_bytes))))


BAD = {
    "nothing": b"",
    "no lengths": MAGIC,
    "a pickle": b"\x80\x04\x95" + bytes(20),
    "no letters": framed(b"\xff"),
    "deep": framed(b"[" * 100_000),
    "a long number": framed(b"1" * 5000),
    "long lengths": framed(b'{"s": [%s, %s]}' % (2 * (b"1" + b"0" * 4000,))),
    "many parts": framed(b"[" + b"[]," * 600_000 + b"[]]"),
}


@pytest.mark.parametrize("frame", BAD.values(), ids=BAD)
def test_a_malformed_frame_is_refused(frame):
    with pytest.raises(WireError):
        decode(frame)


PIECES = st.sampled_from([bytes([letter]) for letter in b'[]{},:"0123456789eE.-+adrstbn\\u'])
EDITS = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 30), st.integers(0, 9), PIECES))


@settings(max_examples=300)
@given(VALUES, EDITS)
def test_a_frame_that_is_changed_anywhere_is_a_value_or_refused(value, edits):
    """Some bytes are changed, cut out or repeated, and the lengths set right."""
    frame = encode(value)
    start = PREFIX.size + PREFIX.unpack_from(frame)[1]
    header = frame[PREFIX.size : start]
    for place, length, times, piece in edits:
        at = place % len(header)
        header = header[:at] + piece + times * header[at : at + length] + header[at + length :]
    with contextlib.suppress(WireError):
        decode(framed(header, frame[start:]))


def test_no_frame_costs_much_memory_or_time():
    """Frames that stand for much under limits of memory and time."""
    finished = python(Path(__file__).with_name("fuzz_wire.py"), 60)
    assert finished.returncode == 0, finished.stdout + finished.stderr[-2000:]
    refused, accepted = map(int, re.findall(r"(\d+) (?:refused|accepted)", finished.stdout))
    assert refused > 20
    assert accepted > 10


@pytest.fixture
def ends():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def received(end, seconds=5.0):
    return wire.receive(end, time.monotonic() + seconds)


def test_a_frame_crosses_a_socket(ends):
    frame = encode({"x": np.arange(500_000)})
    sender = threading.Thread(target=wire.send, args=(ends[0], frame, time.monotonic() + 5))
    sender.start()
    assert received(ends[1]) == frame
    sender.join()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (PREFIX.pack(MAGIC, 2**31, 2**31), "an answer of 4295 MB, more than 34 MB"),
        (encode(list(range(100)))[:-1], "breaks off"),
        (PREFIX.pack(b"\x80\x04cb", 3, 3) + b"junk", "not an answer"),
    ],
)
def test_what_is_no_frame_is_refused_as_soon_as_it_can_be(ends, sent, words):
    ends[0].sendall(sent)
    if words == "breaks off":
        ends[0].close()
    with pytest.raises(WireError, match=words):
        received(ends[1])


@pytest.mark.parametrize("sent", [b"", MAGIC])
def test_silence_ends(ends, sent):
    ends[0].sendall(sent)
    with pytest.raises(TimeoutError):
        received(ends[1], 0.05)


def test_a_closed_end_is_no_frame(ends):
    ends[0].close()
    assert received(ends[1]) is None
