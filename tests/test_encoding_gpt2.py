"""Agreement with GPT-2's own tokenizer, where its files are at hand."""

import json
from functools import cache
from pathlib import Path

import pytest
from compare import expect_equal
from probes.text import encode, encode_chunks
from texts import AWKWARD, CORPUS, END

tiktoken = pytest.importorskip("tiktoken")

DATA = Path(__file__).parents[2] / "shared" / "data"
FILES = [DATA / "gpt2" / "vocab.json", DATA / "gpt2" / "merges.txt"]

pytestmark = [
    pytest.mark.problem("tokenizer"),
    pytest.mark.skipif(
        not all(file.exists() for file in FILES),
        reason="GPT-2's vocabulary is not in ../shared/data/gpt2",
    ),
]


@cache
def gpt2():
    """Undo GPT-2's way of writing bytes as printable characters."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(256 + place): byte for place, byte in enumerate(others)}

    def as_bytes(written):
        return bytes(byte_of[character] for character in written)

    vocab = json.loads(FILES[0].read_text(encoding="utf-8"))
    lines = FILES[1].read_text(encoding="utf-8").split("\n")
    pairs = [line.split(" ") for line in lines if line.count(" ") == 1 and line[:9] != "#version:"]
    return {
        "vocab": {
            token: END.encode() if written == END else as_bytes(written)
            for written, token in vocab.items()
        },
        "merges": [(as_bytes(left), as_bytes(right)) for left, right in pairs],
        "special_tokens": [END],
    }


@cache
def reference():
    vocab = gpt2()["vocab"]
    return tiktoken.Encoding(
        "gpt2",
        pat_str=r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        mergeable_ranks={piece: t for t, piece in vocab.items() if piece != END.encode()},
        special_tokens={END: next(t for t, piece in vocab.items() if piece == END.encode())},
    )


def stories():
    path = DATA / "tinystories" / "valid.txt"
    if not path.exists():
        return [CORPUS]
    return [path.read_text(encoding="utf-8")[:20000]]


def test_encode_agrees_with_tiktoken_on_gpt2(observe):
    texts = [*AWKWARD.values(), CORPUS, f"{END}{CORPUS}{END}{END}\n{END}", *stories()]
    seen = observe(encode, tokenizer=gpt2(), texts=texts)
    for text, ids, decoded in zip(texts, seen["ids"], seen["decoded"], strict=True):
        expected = reference().encode(text, allowed_special="all")
        expect_equal(ids, expected, "encode with GPT-2's vocabulary", given=text)
        expect_equal(decoded, text, "decode(encode(text)) with GPT-2's vocabulary", given=text)


def test_encode_iterable_agrees_with_tiktoken_on_gpt2(observe):
    (text, *_) = stories()
    lines = text.splitlines(keepends=True)
    (ids,) = observe(encode_chunks, tokenizer=gpt2(), chunkings=[lines])
    expected = reference().encode(text, allowed_special="all")
    expect_equal(ids, expected, "encode_iterable with GPT-2's vocabulary", given=text)
