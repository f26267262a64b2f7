"""The tokenizer: round trips, streams, awkward text, and agreement with tiktoken."""

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from awkward import awkward_text
from hypothesis import given
from hypothesis import strategies as st
from oracles import text as oracles

from cs_basics.bpe import train_bpe
from cs_basics.pretokenize import PRETOKEN
from cs_basics.run.tokenizer_folder import read_merges, read_vocab
from cs_basics.tokenizer import Tokenizer

EOT = "<|endoftext|>"
SPECIALS = [EOT, EOT + EOT, "<a b>\n", "\u4e2d\u6587", "'l", "#", "\u00e9 \u0120"]
ROOT = Path(__file__).parents[3]
TEXT = (
    "#the cat's hat, # the caf\u00e9; we'll see 1984 \u4e2d\u6587 \U0001f642\r\n\r\n  end #version"
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text((TEXT + EOT) * 3, newline="")
    vocab, merges = train_bpe(path, 300, [EOT])
    return Tokenizer(vocab, merges, SPECIALS)


AWKWARD = [*SPECIALS, *TEXT, "<|endof", "text|>", "<a", " b>", "\n", "'", "'ll", "  ", "\udcff"]
texts = st.lists(st.sampled_from(AWKWARD), max_size=30).map("".join) | st.text(max_size=30)


@given(texts)
def test_text_survives_a_round_trip(tokenizer, text):
    if "\udcff" not in text:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(awkward_text | texts)
def test_ids_are_those_of_applying_each_merge_in_turn(tokenizer, text):
    if text.isascii() or text.encode("utf-8", "ignore").decode() == text:
        given = {"vocab": tokenizer.vocab, "merges": tokenizer.merges, "special_tokens": SPECIALS}
        assert tokenizer.encode(text) == oracles.encode(text, given)


def test_a_surrogate_that_stands_for_no_byte_is_refused(tokenizer):
    with pytest.raises(ValueError, match="surrogates not allowed"):
        tokenizer.encode("a\ud83d")


@given(texts, st.lists(st.integers(0, 200)))
def test_stream_gives_the_ids_of_the_whole_text_however_it_is_cut(tokenizer, text, cuts):
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    chunks = [text[start:end] for start, end in pairwise(places)]
    assert list(tokenizer.encode_iterable(chunks)) == tokenizer.encode(text)
    assert list(tokenizer.encode_iterable(text)) == tokenizer.encode(text)


def test_stream_is_lazy(tokenizer):
    def endless():
        while True:
            yield "the cat"

    stream = tokenizer.encode_iterable(endless())
    assert tokenizer.decode(next(stream) for _ in range(1000)).startswith("the catthe cat")


STREAM_MEMORY = """
import sys
from pathlib import Path
from cs_basics.run.tokenizer_folder import read_merges, read_vocab
from cs_basics.tokenizer import Tokenizer

def peak_mb():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

def lines():
    for i in range(180_000):
        yield f"line {i % 1000} of a text that is never held as a whole\\n"

tokenizer = Tokenizer({i: bytes([i]) for i in range(256)}, [], ["<|endoftext|>"])
for _ in tokenizer.encode_iterable(["warm up " * 1000]):
    pass
before = peak_mb()
chunks = lines() if sys.argv[1] == "stream" else ["".join(lines())]
if sys.argv[1] == "stream":
    num_tokens = sum(1 for _ in tokenizer.encode_iterable(chunks))
    assert num_tokens > 8_000_000, num_tokens
print(peak_mb() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("way", "at_least", "below"), [("stream", 0, 4), ("join", 6, 500)])
def test_stream_of_8_mb_needs_little_memory(way, at_least, below):
    # "join" shows that the measurement would notice a tokenizer that collects the text.
    done = subprocess.run(
        [sys.executable, "-c", STREAM_MEMORY, way],
        capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert at_least <= float(done.stdout) < below


def test_longest_special_token_wins(tokenizer):
    ids = tokenizer.encode(EOT * 3)
    assert [tokenizer.vocab[i] for i in ids] == [(EOT * 2).encode(), EOT.encode()]


def test_missing_special_tokens_are_appended_to_a_copy():
    vocab = {i: bytes([i]) for i in range(256)}
    tokenizer = Tokenizer(vocab, [], [EOT, "a"])
    assert len(vocab) == 256
    assert tokenizer.vocab_size == 257
    assert tokenizer.encode(f"b{EOT}a") == [98, 256, 97]


def test_foreign_order_of_ids_is_accepted():
    vocab = {0: EOT.encode(), 1: b"ab", 2: b"b", 3: b"a", 10: b"c"}
    tokenizer = Tokenizer(vocab, [(b"a", b"b")], [EOT, "<new>"])
    assert tokenizer.encode(f"abc{EOT}<new>ba") == [1, 10, 0, 11, 2, 3]
    assert tokenizer.vocab_size == 12


def test_of_repeated_merges_the_first_counts():
    vocab = {0: b"a", 1: b"b", 2: b"c", 3: b"ab", 4: b"bc"}
    merges = [(b"a", b"b"), (b"b", b"c"), (b"a", b"b")]
    assert Tokenizer(vocab, merges).encode("abc") == [3, 2]


def test_unfit_vocabularies_are_refused():
    vocab = {0: b"a", 1: b"b"}
    with pytest.raises(ValueError, match="needs b'ab'"):
        Tokenizer(vocab, [(b"a", b"b")])
    with pytest.raises(ValueError, match="needs b'c'"):
        Tokenizer(vocab, [(b"a", b"c")])
    with pytest.raises(ValueError, match="negative token id -1"):
        Tokenizer({-1: b"a"}, [])
    with pytest.raises(TypeError, match=r"int to bytes|Mapping"):
        Tokenizer({"a": 0}, [])
    with pytest.raises(ValueError, match="more than once"):
        Tokenizer(vocab, [], [EOT, EOT])
    with pytest.raises(ValueError, match="no token for byte b'c'"):
        Tokenizer(vocab, []).encode("abc")


@pytest.mark.parametrize("token_id", [-1, 10_000])
def test_unknown_ids_are_refused(tokenizer, token_id):
    with pytest.raises(ValueError, match=f"token id {token_id} is not in the vocabulary"):
        tokenizer.decode([token_id])


def test_malformed_bytes_decode_to_replacement_characters(tokenizer):
    assert tokenizer.decode([0xC3, 0x28, 0xFF]) == "\ufffd(\ufffd"


def test_of_several_ids_with_the_same_bytes_the_lowest_is_used():
    tokenizer = Tokenizer({0: b"a", 1: b"a"}, [])
    assert tokenizer.encode("aa") == [0, 0]
    assert tokenizer.decode([0, 1]) == "aa"


def test_result_may_be_changed_without_harm(tokenizer):
    tokenizer.encode("the").append(0)
    assert tokenizer.encode("the") == tokenizer.encode("the")
    tokenizer.encode("cat").clear()
    assert tokenizer.decode(tokenizer.encode("cat")) == "cat"


def test_word_of_100_kilobytes_takes_seconds(tokenizer):
    started = time.monotonic()
    assert tokenizer.decode(tokenizer.encode("the" * 33_000)) == "the" * 33_000
    assert time.monotonic() - started < 5  # a merge at a time: hours


@pytest.fixture(scope="module")
def gpt2():
    """GPT-2's tokenizer here and in tiktoken."""
    files = ROOT.parent / "shared" / "data" / "gpt2"
    if not files.is_dir():
        pytest.skip("GPT-2's vocabulary is not at ../shared/data/gpt2")
    tiktoken = pytest.importorskip("tiktoken")
    ours = Tokenizer(read_vocab(files / "vocab.json"), read_merges(files / "merges.txt"), [EOT])
    end = ours.encode(EOT)[0]
    theirs = tiktoken.Encoding(
        "gpt2",
        pat_str=PRETOKEN.pattern,
        mergeable_ranks={token: i for i, token in ours.vocab.items() if i != end},
        special_tokens={EOT: end},
    )
    return ours, theirs


@pytest.mark.parametrize(
    "name", ["books/alice_in_wonderland.txt", "books/sherlock.txt", "tinystories/valid.txt"]
)
def test_gpt2_ids_of_real_text_are_those_of_tiktoken(gpt2, name):
    path = ROOT.parent / "shared" / "data" / name
    if not path.is_file():
        pytest.skip(f"no text at ../shared/data/{name}")
    ours, theirs = gpt2
    text = path.read_bytes()[:300_000].decode("utf-8", "replace")
    ids = ours.encode(text)
    assert ids == theirs.encode(text, allowed_special="all")
    assert ours.decode(ids) == text


@given(st.text(max_size=40) | texts.map(lambda text: text.replace("\udcff", "")))
def test_gpt2_ids_of_awkward_text_are_those_of_tiktoken(gpt2, text):
    ours, theirs = gpt2
    assert ours.encode(text) == theirs.encode(text, allowed_special="all")


def test_gpt2_ids_of_a_long_word_are_those_of_tiktoken(gpt2):
    ours, theirs = gpt2
    text = "supercalifragilistic" * 500 + "-=" * 3000
    assert ours.encode(text) == theirs.encode(text)
