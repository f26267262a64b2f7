"""The scripts that train a tokenizer and encode a text: results, and what bad inputs get."""

import pytest

from cs_basics.bpe import train_bpe
from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.run.token_file import open_token_file, tokenizer_checksum
from cs_basics.run.tokenizer_folder import load_tokenizer, save_tokenizer
from cs_basics.tokenizer import Tokenizer

EOT = "<|endoftext|>"


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


def test_a_trained_tokenizer_is_that_of_the_library_and_is_replaced_if_told_to(
    succeeds, tmp_path, text
):
    flags = ("--text", text, "--vocab-size", 262, "--out", tmp_path / "tok")
    done = succeeds("train_tokenizer", *flags)
    vocab, merges = train_bpe(text, 262, [EOT])
    loaded = load_tokenizer(tmp_path / "tok")
    assert (loaded.vocab, loaded.merges, loaded.special_tokens) == (vocab, merges, [EOT])
    assert isinstance(loaded, FastTokenizer)
    longest = max((vocab[i] for i in range(261)), key=len).decode()
    for line in ("time", "peak memory", f"longest token   {longest!r}", "bytes per token"):
        assert line in done.out
    assert "merging: 5 of 5 merges (100%)" in done.err
    for names in (["<a>", "b c"], []):
        done = succeeds("train_tokenizer", *flags, "--overwrite", "--special-tokens", *names)
        assert load_tokenizer(tmp_path / "tok").special_tokens == names


def test_of_several_texts_those_that_are_finished_are_left_as_they_are(
    script, succeeds, refused, tmp_path, tokenizer
):
    texts = [tmp_path / f"part{number}.txt" for number in range(2)]
    for path in texts:
        path.write_text("some text")
    out = tmp_path / "tokens"
    command = ("encode", "--tokenizer", tokenizer, "--text", *texts, "--out", out)
    succeeds(*command)
    (out / "part1.bin").unlink()
    before = (out / "part0.bin").stat().st_mtime_ns
    assert "finished before" in script(*command).out
    assert (out / "part0.bin").stat().st_mtime_ns == before
    assert (out / "part1.bin").exists()
    texts[0].write_text("another text")
    assert "part0.bin is not of" in refused(*command)


def test_a_text_is_encoded_to_its_ids(succeeds, tmp_path, text, tokenizer):
    whole = tmp_path / "new" / "whole"
    command = ("encode", "--tokenizer", tokenizer, "--text", text, "--out", whole)
    done = succeeds(*command)
    encoded = open_token_file(whole, tokenizer_checksum(load_tokenizer(tokenizer)))
    assert f"tokens          {encoded.num_tokens} (uint16)" in done.out
    assert "encoding: 0.0 of 0.0 MB (100%)" in done.err
