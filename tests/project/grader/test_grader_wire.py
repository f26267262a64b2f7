"""What crosses the wall is what was sent, and anything else is refused."""

import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp

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


def same(left, right):
    """Equal in value, type and dtype, a NaN to itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return (
            left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        return len(left) == len(right) and all(same(a, b) for a, b in pairs)
    return left == right or (left != left and right != right)


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_plain_data_comes_back_as_it_was(value):
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        np.float32(0.1),
        np.int64(-3),
        np.bool_(True),
        float("inf"),
        "\ud800 \x00 \U0001f643",
        10**40,
        np.arange(6).reshape(2, 3).T,
        np.arange(3, dtype=">i4"),
        {1: b"\xff", "two": [(b"a", b"b"), (b"", b"c")]},
        {np.int64(5): 1, np.uint8(6): 2},
        [(1, "a"), (b"x", None)],
        [(), ()],
        [b"", b"ab", b""],
    ],
    ids=repr,
)
def test_unusual_values_come_back(value):
    back = decode(encode(value))
    if isinstance(value, np.ndarray):
        np.testing.assert_array_equal(back, value)
    else:
        assert same(back, value)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1},
        np.array([object()]),
        np.array(["a"]),
        np.datetime64("2020"),
        1j,
        {(1, 2): 3},
        {None: 1},
    ],
)
def test_what_is_not_plain_is_not_sent(value):
    with pytest.raises(TypeError, match="not plain data"):
        encode([value])


def frame(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return PREFIX.pack(MAGIC, len(text), len(body)) + text + body


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"csg1",
        b"\x80\x04\x95" + bytes(20),
        frame(b"{"),
        frame(b"\xff"),
        frame(b"[" * 100_000),
        frame(b"1" * 5000),
        frame({}),
        frame({"a": ["float32", [1]], "b": ""}),
        frame({"z": 1}),
        frame({"d": [[{"d": [[], []]}], [1]]}),
        frame({"d": [[[]], [1]]}),
        frame({"d": [[1], []]}),
        frame({"d": [1]}),
        frame({"d": [[2**60], [1]]}),
        frame({"d": [[None], [1]]}),
        frame({"d": [[{"t": [1]}], [1]]}),
        frame({"r": [10**9, []]}),
        frame({"s": [10**4000, 10**4000]}),
        frame(b"[" * 50 + b"]" * 50),
        frame(b"[" + b"[]," * 600_000 + b"[]]"),
        frame({"d": ["ab", "cd"]}),
        frame({"s": [3]}, bytes(2)),
        frame({"s": [-1, 3]}, bytes(2)),
        frame({"s": [True]}, bytes(1)),
        frame({"s": 3}),
        frame({"r": [2, [1, 2, 3]]}),
        frame({"r": [0, []]}),
        frame({"r": [1, 5]}),
        frame({"b": "\u1234"}),
        frame({"b": 3}),
        frame({"t": 3}),
        frame({"a": ["float32", [2]]}, bytes(4)),
        frame({"a": ["float32", [1]]}, bytes(8)),
        frame({"a": ["float32", [-1]]}, bytes(4)),
        frame({"a": ["float32", [1.0]]}, bytes(4)),
        frame({"a": ["float32", [True]]}, bytes(4)),
        frame({"a": ["float32", [2**40, 2**40, 0]]}),
        frame({"a": ["float32", [1] * 40]}, bytes(4)),
        frame({"a": ["object", [1]]}, bytes(8)),
        frame({"a": ["O", [1]]}, bytes(8)),
        frame({"a": [["f4"], [1]]}, bytes(8)),
        frame({"a": "float32"}, bytes(4)),
        frame({"n": "str"}, bytes(4)),
        frame({"n": "float32"}, bytes(3)),
        frame(1, b"rest"),
    ],
)
def test_a_malformed_frame_is_refused(bad):
    with pytest.raises(WireError):
        decode(bad)


def test_no_frame_costs_much_memory_or_time():
    """Mutated and grown frames under limits of memory and time; the laboratory feeds 100,000."""
    finished = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("fuzz_wire.py")), "--frames", "3000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr[-2000:]
    refused, accepted = map(int, re.findall(r"(\d+) (?:refused|accepted)", finished.stdout))
    assert refused > 1000
    assert accepted > 100


@pytest.fixture
def ends():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def soon():
    return time.monotonic() + 5


def test_a_frame_crosses_a_socket(ends):
    value = {"x": np.arange(500_000)}
    sender = threading.Thread(target=wire.send, args=(ends[0], encode(value), soon()))
    sender.start()
    received = wire.receive(ends[1], soon())
    sender.join()
    assert same(decode(received), value)


def test_a_frame_that_is_too_long_is_not_even_read(ends):
    ends[0].sendall(PREFIX.pack(MAGIC, 2**31, 2**31))
    with pytest.raises(WireError, match="an answer of 4295 MB, more than 34 MB"):
        wire.receive(ends[1], soon())


def test_a_frame_that_breaks_off_is_refused(ends):
    ends[0].sendall(encode(list(range(100)))[:-1])
    ends[0].close()
    with pytest.raises(WireError, match="breaks off"):
        wire.receive(ends[1], soon())


def test_junk_is_refused_at_its_first_bytes(ends):
    ends[0].sendall(struct.pack(">4sII", b"\x80\x04cb", 3, 3) + b"junk")
    with pytest.raises(WireError, match="not an answer"):
        wire.receive(ends[1], soon())


def test_silence_ends(ends):
    with pytest.raises(TimeoutError):
        wire.receive(ends[1], time.monotonic() + 0.05)
    ends[0].sendall(MAGIC)
    with pytest.raises(TimeoutError):
        wire.receive(ends[1], time.monotonic() + 0.05)


def test_a_closed_end_is_no_frame(ends):
    ends[0].close()
    assert wire.receive(ends[1], soon()) is None
