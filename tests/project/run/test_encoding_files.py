"""Encoding files: whole or not at all; always the same ids."""

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from processes import until

from cs_basics.fast.text import tokenizer as fast_tokenizer
from cs_basics.fast.text.parallel import map_in_order
from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.run.atomic import lock
from cs_basics.run.encoding import encode_file

EOT = "<|endoftext|>"
TEXT = ("one two  three\r\n four" + EOT + "\u00e9t\u00e9 12 \u4e2d\u6587\u3002\xa0 x").encode() * 99


@pytest.fixture
def tokenizer():
    return FastTokenizer({i: bytes([i]) for i in range(256)} | {256: b"on"}, [(b"o", b"n")], [EOT])


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setattr(fast_tokenizer, "BLOCK_BYTES", 200)
    path = tmp_path / "text"
    path.write_bytes(TEXT)
    return path


def test_a_worker_that_was_killed_is_an_error_and_leaves_nothing(tokenizer, text, tmp_path):
    killed = []

    def kill_a_worker(_stage, _unit, done, _total):
        if done > 2000 and not killed:
            killed.append(multiprocessing.active_children()[0])
            killed[0].kill()
            killed[0].join()
            time.sleep(0.2)  # Otherwise the other worker may have done all before it is noticed.

    with pytest.raises(OSError, match="one of 2 workers was killed"):
        encode_file(tokenizer, text, tmp_path / "out", 2, kill_a_worker)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def is_running(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    # The workers write down who they are; one of them ends its parent.
    def write_down(number):
        (tmp_path / str(os.getpid())).touch()
        if number == 9:
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(0.05)

    context = multiprocessing.get_context("fork")
    parent = context.Process(target=lambda: list(map_in_order(write_down, range(20), 2)))
    parent.start()
    parent.join()
    assert parent.exitcode == -signal.SIGKILL
    workers = [path.name for path in tmp_path.iterdir()]
    assert len(workers) == 2
    until(lambda: not any(map(is_running, workers)))


@pytest.mark.parametrize("let_go", [Path.unlink, lambda path: path.rename(path.with_suffix(".x"))])
def test_a_lock_on_a_file_that_its_last_holder_took_away_is_none(tmp_path, let_go):
    pytest.importorskip("fcntl")
    path = tmp_path / "lock"
    with path.open("ab") as late:
        let_go(path)
        with pytest.raises(ValueError, match="finished by another process just now"):
            lock(late)
