"""Token files: exact (damaged ones: scripts/test_damaged_files.py)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_files import write_token_file

from cs_basics.bpe import train_bpe
from cs_basics.fast.text import blocks
from cs_basics.fast.text import tokenizer as fast_tokenizer
from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.run import encoding
from cs_basics.run.encoding import encode_file
from cs_basics.run.token_file import (
    HEADER_BYTES,
    entropies,
    tokenizer_checksum,
)
from cs_basics.tokenizer import Tokenizer

EOT = "<|endoftext|>"


@pytest.fixture(scope="module", params=[Tokenizer, FastTokenizer])
def tokenizer(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text(f"the cat sat on the mat{EOT}the hat" * 3)
    return request.param(*train_bpe(path, 270, [EOT]), [EOT])


def write(path, ids, vocab_size=300, checksum="abc"):
    return write_token_file(
        path, [(len(ids), ids)], vocab_size=vocab_size, tokenizer_checksum=checksum
    )


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(300, "uint16"), (65_536, "uint16"), (65_537, "uint32")]
)
def test_token_file_survives_a_round_trip(tmp_path, vocab_size, dtype):
    path, ids = tmp_path / "new" / "tokens", [0, 5, vocab_size - 1, 7]
    chunks = [(7, ids[:3]), (0, []), (3, np.array(ids[3:], np.uint8))]
    opened = write_token_file(path, chunks, vocab_size=vocab_size, tokenizer_checksum="abc")
    assert opened.tokens.tolist() == ids
    assert (opened.dtype, opened.num_bytes, opened.vocab_size) == (dtype, 10, vocab_size)
    assert not opened.tokens.flags.writeable
    size = np.dtype(dtype).itemsize
    assert path.read_bytes()[HEADER_BYTES:] == b"".join(i.to_bytes(size, "little") for i in ids)


@pytest.mark.parametrize("ids", [[300], [-1], [0, 70_000]])
def test_ids_outside_the_vocabulary_are_refused_and_leave_nothing(tmp_path, ids):
    with pytest.raises(ValueError, match="vocab_size=300"):
        write(tmp_path / "tokens", ids)
    assert not list(tmp_path.iterdir())


@given(content=st.binary(min_size=1, max_size=300), block_bytes=st.integers(1, 50))
def test_encoded_file_holds_the_ids_of_the_whole_text(
    tokenizer, tmp_path_factory, content, block_bytes
):
    folder = tmp_path_factory.mktemp("encode")
    content += f"the cat{EOT}\r\n".encode()
    (folder / "text").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "CHUNK_BYTES", block_bytes)
        patch.setattr(fast_tokenizer, "BLOCK_BYTES", 3 * block_bytes)
        patch.setattr(encoding, "READ_BYTES", block_bytes)
        patch.setattr(encoding, "IDS_AT_ONCE", block_bytes)
        told = []
        encoded = encode_file(
            *(tokenizer, folder / "text", folder / "tokens"),
            on_progress=lambda *values: told.append(values),
        )
    assert [told[0], told[-1]] == [
        ("encoding", "bytes", n, len(content)) for n in (0, len(content))
    ]
    assert encoded.tokens.tolist() == tokenizer.encode(content.decode("utf-8", "surrogateescape"))
    assert b"".join(tokenizer.vocab[i] for i in encoded.tokens.tolist()) == content
    assert encoded.num_bytes == len(content)
    assert encoded.tokenizer_checksum == tokenizer_checksum(tokenizer)


def test_a_text_that_cannot_be_encoded_leaves_nothing(tokenizer, tmp_path):
    (tmp_path / "text").write_text("cats")
    for workers in (1, 2):
        with pytest.raises(ValueError, match="no token for byte b's'"):
            encode_file(
                type(tokenizer)({0: b"c", 1: b"a", 2: b"t"}, []),
                tmp_path / "text", tmp_path / "out", workers,
            )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text"]


def test_an_id_that_no_token_file_holds_is_refused(tmp_path):
    for huge in (FastTokenizer, lambda *_: write(tmp_path / "tokens", [], (1 << 32) + 1)):
        with pytest.raises(ValueError, match="token id 4294967296 is more than a token file holds"):
            huge({1 << 32: b"a"}, [])


def test_checksum_is_that_of_token_files_written_before():
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"ab", 257: EOT.encode()}
    checksum = tokenizer_checksum(Tokenizer(vocab, [(b"a", b"b")], [EOT]))
    assert checksum == "5619eba23397a35a2109d136f666e718e42d5b912ff4614540039681256de283"


def test_entropies_are_those_of_tokens_and_of_the_next_one():
    tokens = np.array([0, 1, 0, 2] * 500)  # 0 is followed by 1 or 2, each of them by 0.
    single, after_one = entropies(tokens)
    assert single == pytest.approx(1.5 * np.log(2))
    assert after_one == pytest.approx(0.5 * np.log(2), rel=1e-3)
