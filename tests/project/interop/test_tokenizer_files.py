"""Other libraries' formats: what is written gives our ids there, and what is read theirs here."""

import json
from itertools import pairwise

import pytest
from awkward import EOT, awkward_text
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.bpe import train_bpe
from cs_basics.interop.tokenizer_files import (
    load_tiktoken,
    load_tokenizer_json,
    save_tiktoken,
    save_tokenizer_json,
    tiktoken_arguments,
)
from cs_basics.pretokenize import PRETOKEN
from cs_basics.run.token_file import tokenizer_checksum
from cs_basics.run.tokenizer_folder import (
    load_tokenizer,
    save_tokenizer,
)
from cs_basics.tokenizer import Tokenizer

# Libraries know different versions of Unicode: no characters that older ones lack.
assigned_text = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=30)
texts = awkward_text.filter(lambda text: text.isascii()) | assigned_text


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text(f"the caf\u00e9's cats sat, 12 \u4e2d\u6587\n  and more{EOT}" * 3)
    vocab, merges = train_bpe(path, 300, [EOT])
    # As in GPT-2's vocabulary, the id of a byte is another number.
    vocab = {i if i > 255 else 255 - i: token for i, token in vocab.items()}
    return Tokenizer(vocab, merges, [EOT, "<a b>", "\u4e2d\u3002", "\n"])


@pytest.fixture(scope="module")
def in_tokenizers(trained, tmp_path_factory):
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("json") / "tokenizer.json"
    save_tokenizer_json(trained, path)
    return tokenizers.Tokenizer.from_file(str(path))


@pytest.fixture(scope="module")
def in_tiktoken(trained):
    tiktoken = pytest.importorskip("tiktoken")
    return tiktoken.Encoding(**tiktoken_arguments(trained))


@given(texts)
def test_tokenizers_gives_our_ids(trained, in_tokenizers, text):
    ids = trained.encode(text)
    assert in_tokenizers.encode(text).ids == ids
    assert in_tokenizers.decode(ids, skip_special_tokens=False) == text


@given(texts)
def test_tiktoken_gives_our_ids(trained, in_tiktoken, text):
    assert in_tiktoken.encode(text, allowed_special="all") == trained.encode(text)


def test_what_tokenizers_has_trained_and_saved_is_read(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=[EOT], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    text = "some words and some more words, 1984\n" * 20
    theirs.train_from_iterator([text], trainer)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer_json(tmp_path / "tokenizer.json")
    assert ours.encode(text + EOT) == theirs.encode(text + EOT).ids


def test_ranks_are_read_as_they_were_written_here_and_by_tiktoken(trained, tmp_path):
    tiktoken_load = pytest.importorskip("tiktoken.load")
    save_tiktoken(trained, tmp_path / "ranks")
    arguments = tiktoken_arguments(trained)
    ranks = tiktoken_load.load_tiktoken_bpe(str(tmp_path / "ranks"))
    assert ranks == arguments["mergeable_ranks"]
    specials = arguments["special_tokens"]
    specials.pop("\n")  # a byte, and so among the ranks
    loaded = load_tiktoken(tmp_path / "ranks", specials)
    assert loaded.vocab == trained.vocab
    assert loaded.merges == trained.merges


SINGLES = {i: bytes([i]) for i in range(256)}
AB, BC = (b"a", b"b"), (b"b", b"c")


def test_special_tokens_of_which_one_begins_with_another_are_not_for_tiktoken():
    """tiktoken joins them without order, and gives other ids."""
    specials = ["<a>", "<b>", "<a>b"]
    with pytest.raises(ValueError, match="token '<a>b' begins with '<a>'"):
        tiktoken_arguments(
            Tokenizer(SINGLES | {256: b"<a>", 257: b"<b>", 258: b"<a>b"}, [], specials)
        )


@pytest.mark.parametrize(
    ("vocab", "merges", "message"),
    [
        (SINGLES | {256: b"bc", 257: b"ab"}, [AB, BC], "do not ascend"),
        (SINGLES | {256: b"ab"}, [], "not every token"),
        ({0: b"a", 1: b"b", 2: b"ab"}, [AB], "no token for byte"),
    ],
)
def test_what_ranks_cannot_say_is_refused(vocab, merges, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save_tiktoken(Tokenizer(vocab, merges), tmp_path / "ranks")
    assert not list(tmp_path.iterdir())


GPT2 = {
    "type": "Split", "pattern": {"Regex": PRETOKEN.pattern}, "behavior": "Isolated", "invert": False
}  # fmt: skip


def steps(*before, use_regex=True):
    """Return the pre-tokenizer of these steps and the bytes as letters after them."""
    last = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": use_regex}
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*before, last]}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "NFC"}}, "normalizer"),
        ({"model": {"type": "WordPiece"}}, "WordPiece"),
        ({"model": None}, "is not a tokenizer.json"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer"),
        ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, "pre_tokenizer"),
        (
            steps({"type": "Split", "pattern": {"Regex": "\\w+"}}, use_regex=False),
            "another pattern",
        ),
        (steps({"type": "Digits", "individual_digits": True}), "another pattern"),
        (steps(GPT2 | {"behavior": "Removed"}, use_regex=False), "another pattern"),
        (steps(GPT2), "another pattern"),
        (steps(use_regex=False), "another pattern"),
        ({"post_processor": {"type": "TemplateProcessing"}}, "post_processor"),
        *(
            ({"added_tokens": [{"id": 256, "content": EOT, flag: True}]}, f"beside .*{flag}")
            for flag in ("lstrip", "single_word")
        ),
        (
            {"added_tokens": [{"id": 256, "content": EOT}, {"id": 256, "content": "<pad>"}]},
            "one id to two tokens",
        ),
        (
            {"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}},
            "one id to two tokens",
        ),
    ],
)
def test_a_tokenizer_json_of_another_kind_is_refused(trained, tmp_path, change, message):
    path = tmp_path / "tokenizer.json"
    save_tokenizer_json(trained, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=message) as refused:
        load_tokenizer_json(path)
    assert "tokenizer.json" in str(refused.value)


@pytest.mark.parametrize("content", [b"YQ==", b"? 0", b"YQ== 0\n"])
def test_damaged_ranks_are_refused(tmp_path, content):
    (tmp_path / "ranks").write_bytes(content)
    with pytest.raises(ValueError, match=r"line 1|single byte"):
        load_tiktoken(tmp_path / "ranks")


def test_the_script_converts_to_tokenizer_json_and_back_and_to_ranks(succeeds, trained, tmp_path):
    save_tokenizer(trained, tmp_path / "tokenizer")
    names = ["tokenizer", "tokenizer.json", "again", "ranks.tiktoken"]
    for source, target in pairwise(names):
        done = succeeds("convert_tokenizer", tmp_path / source, "--out", tmp_path / target)
    assert tokenizer_checksum(load_tokenizer(tmp_path / "again")) == tokenizer_checksum(trained)
    assert (tmp_path / "ranks.tiktoken").is_file()
    assert "It holds no special tokens. To read it back here, add" in done.out


@pytest.mark.parametrize("change", [steps(), steps(GPT2, use_regex=False)])
def test_gpt2s_pattern_may_be_said_in_two_ways(trained, tmp_path, change):
    path = tmp_path / "tokenizer.json"
    save_tokenizer_json(trained, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert load_tokenizer_json(path).merges == trained.merges
