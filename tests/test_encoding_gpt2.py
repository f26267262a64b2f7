"""Agreement with tiktoken, on GPT-2's vocabulary and on one that is trained here."""

import json

import pytest
from compare import expect_equal
from probes.text import encode, encode_chunks
from texts import AWKWARD, CORPUS, END, tokenizer

tiktoken = pytest.importorskip("tiktoken")

PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

pytestmark = [pytest.mark.problem("tokenizer"), pytest.mark.usefixtures("rng")]


@pytest.fixture(scope="module", params=["GPT-2", "trained here"])
def given(request):
    """GPT-2's own vocabulary where its files are at hand, and one that is always at hand."""
    if request.param == "trained here":
        return tokenizer([END])
    folder = request.config.getoption("--gpt2-files")
    if not all((folder / name).exists() for name in ("vocab.json", "merges.txt")):
        pytest.skip(f"GPT-2's vocab.json and merges.txt are not in {folder} (see --gpt2-files)")
    return gpt2(folder)


def gpt2(folder):
    """Undo GPT-2's way of writing bytes as printable characters."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(256 + place): byte for place, byte in enumerate(others)}

    def as_bytes(written):
        return bytes(byte_of[character] for character in written)

    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    pairs = [line.split(" ") for line in lines if line.count(" ") == 1 and line[:9] != "#version:"]
    return {
        "vocab": {
            token: END.encode() if written == END else as_bytes(written)
            for written, token in vocab.items()
        },
        "merges": [(as_bytes(left), as_bytes(right)) for left, right in pairs],
        "special_tokens": [END],
    }


@pytest.fixture(scope="module")
def reference(given):
    ids = {piece: token for token, piece in given["vocab"].items()}
    special = {END: ids.pop(END.encode())}
    return tiktoken.Encoding(
        "reference", pat_str=PATTERN, mergeable_ranks=ids, special_tokens=special
    )


@pytest.fixture(scope="module")
def story(request):
    """The beginning of a real text, where there is one."""
    path = request.config.getoption("--gpt2-files").parent / "tinystories" / "valid.txt"
    text = path.read_text(encoding="utf-8")[:2000] if path.exists() else CORPUS
    return text.replace(END, "")  # Special tokens are other items'.


def test_encode_agrees_with_tiktoken(observe, given, reference, story):
    texts = [observe.fresh.text(text) for text in [*AWKWARD.values(), CORPUS, story]]
    seen = observe(encode, tokenizer=given, texts=texts)
    for text, ids in zip(texts, seen["ids"], strict=True):
        expected = reference.encode(text)
        expect_equal(ids, expected, "encode, compared with tiktoken,", given=text)


def test_encode_iterable_agrees_with_tiktoken(observe, given, reference, story):
    story = observe.fresh.text(story)
    lines = story.splitlines(keepends=True)
    (ids,) = observe(encode_chunks, tokenizer=given, chunkings=[lines])
    expected = reference.encode(story)
    expect_equal(ids, expected, "encode_iterable, compared with tiktoken,", given=story)
