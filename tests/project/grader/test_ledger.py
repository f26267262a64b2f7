"""What is written in the sandbox is known, whatever becomes of the writer."""

import os
import signal

import pytest

from cs_grader.sandbox.ledger import COUNT, SIZE, Entry, Ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the ledger is for forks")


def test_what_a_forked_process_writes_is_there_even_if_it_is_killed():
    ledger = Ledger()
    if (pid := os.fork()) == 0:
        ledger.write("operator", "aten::erf", "/a/b c.py", 3)
        if os.fork() == 0:
            ledger.write("code", "exec", "", 0)
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert ledger.take() == [
        Entry("operator", "aten::erf", "/a/b c.py", 3),
        Entry("code", "exec", "", 0),
    ]
    assert ledger.take() == []


def test_repetitions_and_what_does_not_fit_are_left_out():
    ledger = Ledger()
    for _ in range(3):
        ledger.write("code", "exec", "f", 1)
    assert len(ledger.take()) == 1
    for number in range(SIZE):
        ledger.write("code", "exec", "f" * 1000, number)
    assert 100 < len(ledger.take()) < SIZE / 300


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * SIZE, b"\0\0\0\x09code\texec", b"\0\0\0\x13code\te\tf\tx\nwon\t1\t1\t1\n"],
)
def test_garbage_is_no_entry(garbage):
    ledger = Ledger()
    ledger.memory[: len(garbage)] = garbage
    assert ledger.take() == []
    assert ledger.memory[:COUNT] == bytes(COUNT)


def test_texts_cannot_pose_as_other_entries():
    ledger = Ledger()
    ledger.write("code", "exec\t\ncode", "f\n", 1)
    assert ledger.take() == [Entry("code", "exec code", "f", 1)]
