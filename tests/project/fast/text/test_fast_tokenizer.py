"""The fast tokenizer: the ids of the book's, for any text, in any amount."""

import pickle

import pytest
from awkward import (
    CLOSED,
    EOT,
    OPEN,
    TEXT,
    all_specials,
    awkward_bytes,
    awkward_text,
    closed_specials,
    texts_of,
    train_on_text,
)
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import merging, pretoken_table, segments
from cs_basics.fast.text import tokenizer as tokenizer_module
from cs_basics.fast.text.pretoken_table import PretokenTable
from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.pretokenize import text_to_bytes
from cs_basics.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_on_text(tmp_path_factory.mktemp("text"))


MACHINERY = {
    "as it is": {},
    "tables that fill up": {
        segments: {"_SLOT_BITS": 2, "MAX_TEXTS": 3},
        pretoken_table: {"MAX_PRETOKENS": 5},
        merging: {"MIN_PRETOKENS": 5},
        tokenizer_module: {"MAX_CACHED_PRETOKENS": 3, "SHORT_TEXT": -1},
    },
    "arrays for a few": {
        merging: {"MIN_PRETOKENS": 1, "_SLOTS_PER_PAIR": 1},
        tokenizer_module: {"SHORT_TEXT": -1},
    },
}
"""What is done for much text only, done for a little."""


@pytest.fixture(params=MACHINERY)
def _machinery(request, monkeypatch):
    for module, values in MACHINERY[request.param].items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


@pytest.fixture(params=[CLOSED, OPEN], ids=["closed", "open"])
def both(trained, request, _machinery):
    """The book's tokenizer and its fast twin, of a vocabulary that lacks most special tokens."""
    vocab, merges = trained
    merges = [*merges, merges[0]]  # Of repeated merges the first counts.
    book, fast = (kind(vocab, merges, request.param) for kind in (Tokenizer, FastTokenizer))
    assert (fast.vocab, fast.merges) == (book.vocab, book.merges)
    assert (fast.special_tokens, fast.vocab_size) == (book.special_tokens, book.vocab_size)
    return book, fast


@given(texts_of("\udcff").map(text_to_bytes) | awkward_bytes)
def test_texts_and_bytes_have_the_ids_of_the_book(both, data):
    book, fast = both
    text = data.decode("utf-8", "surrogateescape")
    expected = book.encode(text)
    assert fast.encode(text) == expected
    assert fast.encode_to_array(text).tolist() == expected
    assert list(fast.encode_iterable(text)) == expected
    assert fast.decode(expected) == book.decode(expected)
    ids = fast.encode_bytes(data)
    assert ids.tolist() == expected
    assert ids.dtype == fast.dtype


@given(st.lists(awkward_text, max_size=5), closed_specials | all_specials, st.integers(1, 40))
def test_files_have_the_ids_of_the_book(
    trained, tmp_path_factory, parts, special_tokens, block_bytes
):
    path = tmp_path_factory.mktemp("blocks") / "text"
    text = "x" + "".join(parts * 2)
    path.write_text(text, "utf-8", newline="")
    fast = FastTokenizer(*trained, special_tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "BLOCK_BYTES", block_bytes)
        blocks = list(fast.encode_blocks(path, 1))
    assert sum(num_bytes for num_bytes, _ in blocks) == path.stat().st_size
    ids = [token_id for _, ids in blocks for token_id in ids.tolist()]
    assert ids == Tokenizer(*trained, special_tokens).encode(text)


# Two words of eight bytes hold a segment: neighbours in length and in one byte are told apart.
ALIKE = " ".join(
    word
    for size in range(20)
    for word in ("a" * size, "a" * size + "\0", "b" + "a" * size, "a" * size + "\xe9")
)


@pytest.mark.parametrize(
    "text",
    [
        "\udcc3\udca9",  # escaped bytes that would be a letter if they were decoded again
        "a" * 200_000,
        "\n" * 200_000,
        "one\n two  three " * 20_000,
        ALIKE * 9,
    ],
    ids=["escaped", "letters", "lines", "runs", "alike"],
)
def test_long_texts_have_the_ids_of_the_book(both, text):
    book, fast = both
    assert fast.encode(text) == book.encode(text)


@pytest.mark.parametrize("offset", [2**21 - 300, 2**21 - 257, 2**31])
def test_large_ids_are_encoded_and_decoded_as_any(offset):
    vocab = {offset + byte: bytes([byte]) for byte in range(256)} | {offset + 256: b"ab"}
    tokenizer = FastTokenizer(vocab, [(b"a", b"b")])
    text = " ".join(f"ab{number}ab" for number in range(100))
    ids = tokenizer.encode_bytes(text.encode())
    assert ids.tolist() == Tokenizer(vocab, [(b"a", b"b")]).encode(text)
    assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == text


@pytest.mark.parametrize(("limit", "value"), [("MAX_TEXTS", 10), ("MAX_BYTES", 99)])
def test_memory_is_bounded_and_changes_nothing(trained, monkeypatch, limit, value):
    text = " ".join(f"word{i}" for i in range(300)) + "x" * 1000
    expected = Tokenizer(*trained, [EOT]).encode(text)
    monkeypatch.setattr(tokenizer_module, "MAX_CACHED_PRETOKENS", 10)
    monkeypatch.setattr(segments, limit, value)
    small = FastTokenizer(*trained, [EOT])
    for _ in range(2):
        assert small.encode(text) == expected
        assert small.encode_bytes(text.encode()).tolist() == expected
    small.encode("a few words")
    assert list(small._cache) == ["a", " few", " words"]
    small.encode_bytes(b"a few words")
    assert small._segments.texts == [b"", b"a", b" few", b" words"]


@pytest.mark.parametrize(("limit", "value"), [("MAX_PRETOKENS", 2), ("MAX_IDS", 100)])
def test_what_is_remembered_of_pretokens_is_bounded(monkeypatch, limit, value):
    monkeypatch.setattr(pretoken_table, limit, value)
    table = PretokenTable(merging.Merger(list(range(256)), {}, []), {"<end>": 7}, "H")
    for number in range(100, 120):
        ids, lengths = table.encode(["b" * number, "<end>"])
        assert ids.tolist() == [98] * number + [7]
        assert lengths.tolist() == [number, 1]
        assert len(table) <= 4


def test_a_text_that_cannot_be_encoded_does_not_harm_the_next():
    no_x = FastTokenizer({i: bytes([i]) for i in range(256) if i != ord("x")}, [])
    for _ in range(2):
        for encode in (no_x.encode_bytes, lambda data: no_x.encode(data.decode())):
            with pytest.raises(ValueError, match="no token for byte b'x'"):
                encode(b"a x b")
        assert no_x.encode_bytes(b"a b").tolist() == no_x.encode("a b") == [97, 32, 98]


def test_copy_for_another_process_encodes_alike(trained):
    fast = FastTokenizer(*trained, OPEN)
    expected = fast.encode(TEXT * 100)
    fast.encode(TEXT)
    copy = pickle.loads(pickle.dumps(fast))
    assert fast._cache
    assert not copy._cache
    assert copy.encode(TEXT * 100) == expected
