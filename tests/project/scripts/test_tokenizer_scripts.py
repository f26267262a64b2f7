"""The scripts that train a tokenizer and encode a text: results, and what bad inputs get."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cs_basics.bpe import train_bpe
from cs_basics.run.token_file import open_token_file, tokenizer_checksum
from cs_basics.run.tokenizer_folder import load_tokenizer, save_tokenizer
from cs_basics.tokenizer import Tokenizer

ROOT = Path(__file__).parents[3]
EOT = "<|endoftext|>"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def command(script, flags):
    return [sys.executable, str(ROOT / "scripts" / script), *map(str, flags)]


def run(script, *flags, **variables):
    environment = ENVIRONMENT | {name: str(value) for name, value in variables.items()}
    return subprocess.run(command(script, flags), capture_output=True, text=True, env=environment)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(f"the cat sat{EOT}on the mat\r\n".encode() * 50 + b"\xff")
    return path


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "tokenizer"
    save_tokenizer(Tokenizer({i: bytes([i]) for i in range(256)}, [], [EOT]), path)
    return path


def test_trained_tokenizer_is_that_of_the_library(tmp_path, text):
    done = run("train_tokenizer.py", "--text", text, "--vocab-size", 262, "--out", tmp_path / "tok")
    assert done.returncode == 0, done.stderr
    vocab, merges = train_bpe(text, 262, [EOT])
    loaded = load_tokenizer(tmp_path / "tok")
    assert (loaded.vocab, loaded.merges, loaded.special_tokens) == (vocab, merges, [EOT])
    longest = max((vocab[i] for i in range(261)), key=len).decode()
    for line in ("time", "peak memory", f"longest token   {longest!r}", "bytes per token"):
        assert line in done.stdout
    assert "merging: 5 of 5 merges (100%)" in done.stderr


def test_special_tokens_can_be_several_or_none(tmp_path, text):
    flags = ("--text", text, "--vocab-size", 270, "--out", tmp_path / "tok", "--special-tokens")
    assert run("train_tokenizer.py", *flags, "<a>", "b c").returncode == 0
    assert load_tokenizer(tmp_path / "tok").special_tokens == ["<a>", "b c"]
    assert run("train_tokenizer.py", "--overwrite", *flags).returncode == 0
    assert load_tokenizer(tmp_path / "tok").special_tokens == []


def test_encoded_text_decodes_to_its_bytes(tmp_path, text, tokenizer):
    out = tmp_path / "new" / "tokens.bin"
    done = run("encode.py", "--tokenizer", tokenizer, "--text", text, "--out", out)
    assert done.returncode == 0, done.stderr
    loaded = load_tokenizer(tokenizer)
    tokens = open_token_file(out, tokenizer_checksum(loaded)).tokens
    assert loaded.decode_bytes(tokens.tolist()) == text.read_bytes()
    assert f"tokens          {len(tokens)} (uint16)" in done.stdout
    assert "encoding: 0.0 of 0.0 MB (100%)" in done.stderr


NEW = ("--text", "text.txt", "--out", "new", "--no-warn")
TRAIN = ("train_tokenizer.py", "--vocab-size", "300", *NEW)
ENCODE = ("encode.py", "--tokenizer", "tokenizer", *NEW)


def changed(flags, **values):
    """Command line with other values for some flags."""
    flags = list(flags)
    for name, value in values.items():
        flags[flags.index("--" + name.replace("_", "-")) + 1] = value
    return flags


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (changed(TRAIN, text="missing"), "missing does not exist: name a text file"),
        (changed(TRAIN, text="empty"), "empty"),
        (changed(TRAIN, vocab_size="200"), "vocab_size=200"),
        (changed(TRAIN, out="tokenizer"), "--overwrite"),
        (changed(TRAIN, out="text.txt"), "is a file"),
        ([*TRAIN, "--special-tokens", "a", "a"], "more than once"),
        (changed(ENCODE, text="tokenizer"), "folder"),
        (changed(ENCODE, tokenizer="missing"), "missing holds no vocab.json: give the folder"),
        (changed(ENCODE, tokenizer="damaged"), "vocab.json is not a JSON file"),
        (changed(ENCODE, out="text.txt"), "--overwrite"),
        ([*changed(ENCODE, out="text.txt"), "--overwrite"], "is the text itself"),
        (changed(ENCODE, out="text.txt/new"), "not a folder"),
        ([*ENCODE, "--num-workers", "0"], "num_workers=0"),
    ],
    ids=lambda value: "_".join(value).replace("/", "-") if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("text")
def test_bad_input_gets_one_line_and_leaves_nothing(
    script, tmp_path, monkeypatch, tokenizer, flags, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    save_tokenizer(load_tokenizer(tokenizer), tmp_path / "damaged")
    (tmp_path / "damaged" / "vocab.json").write_text("{")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    done = script(flags[0].removesuffix(".py"), *flags[1:])
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("error: ")
    assert message in done.err
    assert before == {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}


def test_a_read_only_folder_is_refused_before_the_work(script, tmp_path, text, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    # The tests may run as root, who may write everywhere.
    monkeypatch.setattr("os.access", lambda path, *_, **__: Path(path) != out)
    done = script("train_tokenizer", "--text", text, "--vocab-size", "262", "--out", out)
    assert (done.code, done.out) == (2, "")
    assert f"{out} is read-only" in done.err


def test_of_several_texts_those_that_are_finished_are_left_as_they_are(tmp_path, tokenizer):
    texts = [tmp_path / f"part{number}.txt" for number in range(2)]
    for path in texts:
        path.write_text("some text")
    flags = ("--tokenizer", tokenizer, "--text", *texts, "--out", tmp_path / "tokens")
    assert run("encode.py", *flags).returncode == 0
    (tmp_path / "tokens" / "part1.bin").unlink()
    before = (tmp_path / "tokens" / "part0.bin").stat().st_mtime_ns
    done = run("encode.py", *flags)
    assert done.returncode == 0, done.stderr
    assert "finished before" in done.stdout
    assert (tmp_path / "tokens" / "part0.bin").stat().st_mtime_ns == before
    assert (tmp_path / "tokens" / "part1.bin").exists()
    texts[0].write_text("another text")
    done = run("encode.py", *flags)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "part0.bin is not of" in done.stderr


def test_shares_of_one_text_are_joined_to_its_ids(tmp_path, text, tokenizer):
    flags = ("--tokenizer", tokenizer, "--text", text, "--out")
    for rank in range(3):
        done = run("encode.py", *flags, tmp_path / "tokens", RANK=rank, WORLD_SIZE=3)
        assert done.returncode == 0, done.stderr
    # After one process has failed, all are started again.
    again = run("encode.py", *flags, tmp_path / "tokens", RANK=1, WORLD_SIZE=3)
    assert again.returncode == 0, again.stderr
    assert "finished before" in again.stdout
    shards = sorted(tmp_path.glob("tokens.*-of-00003"))
    assert len(shards) == 3
    done = run("join_tokens.py", *shards, "--out", tmp_path / "joined")
    assert done.returncode == 0, done.stderr
    assert run("encode.py", *flags, tmp_path / "whole").returncode == 0
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()
    again = run("join_tokens.py", *shards, "--out", tmp_path / "joined")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(("rank", "message"), [("2", "RANK=2"), ("a", "numbers")])
def test_a_place_that_no_process_has_is_refused(
    script, tmp_path, text, tokenizer, monkeypatch, rank, message
):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    flags = ("--tokenizer", tokenizer, "--text", text, "--out", tmp_path / "tokens")
    done = script("encode", *flags)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err


def test_closed_pipe_ends_quietly(tmp_path, text):
    reading, writing = os.pipe()
    os.close(reading)
    flags = ["--text", text, "--vocab-size", 260, "--out", tmp_path / "tokenizer"]
    done = subprocess.run(
        command("train_tokenizer.py", flags),
        stdout=writing, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    os.close(writing)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
