"""Tokenizers on disk: whole or not there (damaged ones: scripts/test_damaged_files.py)."""

import json
import os
from pathlib import Path

import pytest

from cs_basics.run.atomic import atomic_writer, write_atomically
from cs_basics.run.tokenizer_folder import (
    load_tokenizer,
    save_tokenizer,
)
from cs_basics.tokenizer import Tokenizer

EOT = "<|endoftext|>"


@pytest.fixture
def tokenizer():
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"ab", 257: EOT.encode()}
    return Tokenizer(vocab, [(b"a", b"b")], [EOT])


def test_half_a_new_tokenizer_is_not_read_with_the_vocabulary_of_the_old_one(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    (tmp_path / "merges.txt").unlink()
    (tmp_path / "merges.txt").mkdir()
    with pytest.raises(ValueError, match="not an ordinary file"):
        save_tokenizer(tokenizer, tmp_path)
    assert not (tmp_path / "vocab.json").exists()


def test_merges_that_begin_like_the_header_are_kept(tmp_path):
    singles = [bytes([i]) for i in range(256)]
    merges = [(b"#", b"v"), (b"#v", b"e")]
    save_tokenizer(Tokenizer(dict(enumerate([*singles, b"#v", b"#ve"])), merges), tmp_path)
    assert load_tokenizer(tmp_path).merges == merges
    headless = (tmp_path / "merges.txt").read_text().split("\n", 1)[1]
    (tmp_path / "merges.txt").write_text(headless)
    assert load_tokenizer(tmp_path).merges == merges


def test_the_vocabulary_has_gpt2s_names_of_bytes(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    vocab = json.loads((tmp_path / "vocab.json").read_text())
    assert (vocab["\u0120"], vocab["\u010a"], vocab["!"], vocab["\u00ff"]) == (32, 10, 33, 255)


def test_interrupted_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def write_half():
        with atomic_writer(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="not an ordinary file"), atomic_writer(tmp_path):
        pass


def test_a_file_is_on_the_disk_before_it_has_its_name_and_then_its_name_is(tmp_path, monkeypatch):
    def seen(status):
        return status.st_ino, status.st_size

    fsync, replace, happened = os.fsync, Path.replace, []

    def watch_fsync(descriptor):
        fsync(descriptor)
        happened.append(seen(os.fstat(descriptor)))

    def watch_replace(path, target):
        happened.append("renamed")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(Path, "replace", watch_replace)
    write_atomically(tmp_path / "file", b"whole")
    assert happened == [seen((tmp_path / "file").stat()), "renamed", seen(tmp_path.stat())]
