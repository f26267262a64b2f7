"""Encoding and decoding."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from compare import expect, expect_equal
from mistakes import text as mistakes
from oracles import text as oracles
from probes.text import decode, encode, encode_chunks, encode_stream
from texts import AWKWARD, CORPUS, END, SPECIALS, WITH_SPECIALS

pytestmark = pytest.mark.problem("tokenizer")

MERGES = oracles.train_bpe(CORPUS.encode(), 256 + 90, [])

# Learnt from text that was not split: merges lie across every border between pre-tokens.
BORDERS = [
    "x1234 12345",
    "I'LL IT'S'S",
    "a.b,c !? ..",
    "e\u0301a\u00e9b \u4f60a",
    "a  b\n\n c \n\td",
]
ACROSS = oracles.train_bpe(b"", 256 + 80, [], words=Counter(BORDERS))


def tokenizer(special_tokens=None, merges=MERGES, specials_in_vocab=True):
    known = special_tokens if special_tokens and specials_in_vocab else []
    return {
        "vocab": oracles.vocab_of(merges, known),
        "merges": list(merges),
        "special_tokens": special_tokens,
    }


def examine(observe, given, texts):
    seen = observe(encode, tokenizer=given, texts=list(texts))
    expect(
        seen["container"] == "list",
        f"encode returned a {seen['container']}, expected a list of ints",
    )
    strange = [kind for kind in seen["kinds"] if kind != "int"]
    expect(not strange, f"encode returned ids of type {', '.join(strange)}, expected int")
    for text, ids in zip(texts, seen["ids"], strict=True):
        expect_equal(
            ids,
            oracles.encode(text, given),
            "encode",
            given=text,
            mistakes=lambda text=text: mistakes.encoding(text, given),
        )
    for text, decoded in zip(texts, seen["decoded"], strict=True):
        expect_equal(decoded, text, "decode(encode(text))", given=text)


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
def test_encode_applies_the_merges_in_order(observe, text):
    examine(observe, tokenizer(), [text])


def test_encode_takes_any_text(observe, rng):
    alphabet = [*"aeinrst TWl'1 \n\r\t.,", "\u00e9", "\u4f60", "\U0001f643", "ll", "the", " d"]
    texts = ["".join(rng.choice(alphabet, rng.integers(1, 80))) for _ in range(20)]
    examine(observe, tokenizer(), texts)


def test_encode_merges_by_rank_not_by_length(observe):
    merges = [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c"), (b"c", b"d"), (b"bc", b"d")]
    examine(
        observe, tokenizer(merges=merges), ["abc", "abcd", "bcd", "ab", "abab", "cdcd", "abcabcd"]
    )


def test_encode_merges_repeats_from_the_left(observe):
    merges = [(b"a", b"a"), (b"aa", b"a"), (b"aa", b"aa")]
    examine(observe, tokenizer(merges=merges), ["a" * n for n in range(1, 12)])


@pytest.mark.parametrize("text", [*BORDERS, *AWKWARD.values()], ids=repr)
def test_encode_does_not_merge_across_pretokens(observe, text):
    examine(observe, tokenizer(merges=ACROSS), [text])


def test_encode_uses_the_ids_of_the_vocabulary(observe, rng):
    given = tokenizer([END])
    ids = 7 * rng.permutation(len(given["vocab"])) + 3
    given["vocab"] = dict(zip(ids.tolist(), given["vocab"].values(), strict=True))
    examine(observe, given, [CORPUS, f"dog{END}fox"])


def test_encode_works_with_special_tokens_first_in_the_vocabulary(observe):
    given = tokenizer([END])
    pieces = sorted(given["vocab"].values(), key=lambda piece: piece != END.encode())
    given["vocab"] = dict(enumerate(pieces))
    examine(observe, given, [CORPUS, f"dog{END}fox{END}"])


def test_encode_works_without_merges(observe):
    examine(observe, tokenizer(merges=[]), [CORPUS])


@pytest.mark.parametrize("text", WITH_SPECIALS.values(), ids=WITH_SPECIALS.keys())
@pytest.mark.parametrize("order", ["as listed", "reversed"])
def test_encode_keeps_special_tokens_whole_and_takes_the_longest(observe, order, text):
    specials = SPECIALS if order == "as listed" else SPECIALS[::-1]
    examine(observe, tokenizer(list(specials)), [text])


@pytest.mark.parametrize("absent", [None, []], ids=["None", "empty list"])
def test_encode_treats_special_tokens_as_text_unless_told(observe, absent):
    given = tokenizer([END])
    given["special_tokens"] = absent
    examine(observe, given, [f"dog{END}fox", END])


def test_encode_appends_special_tokens_that_the_vocabulary_lacks(observe):
    given = tokenizer([END, "<|pad|>"], specials_in_vocab=False)
    texts = [f"dog{END}<|pad|>fox", END, "<|pad|>"]
    seen = observe(encode, tokenizer=given, texts=texts)
    for text, ids, decoded in zip(texts, seen["ids"], seen["decoded"], strict=True):
        expect_equal(decoded, text, "decode(encode(text))", given=text)
        new = [token for token in ids if token not in given["vocab"]]
        specials = text.count(END) + text.count("<|pad|>")
        expect(
            len(new) == len(set(new)) == specials,
            f"encode({text!r}) returned {ids}: each special token that the vocabulary lacks"
            " needs one id of its own that no other token has",
        )


@pytest.mark.parametrize("special_tokens", [None, SPECIALS], ids=["no specials", "specials"])
def test_decode_joins_bytes_before_decoding_them(observe, rng, special_tokens):
    given = tokenizer(special_tokens)
    whole = [b for text in AWKWARD.values() for b in text.encode()]  # Ids of bytes are the bytes.
    rows = [[], [0xC3, 0xA9], [0xF0, 0x9F, 0x99, 0x83], whole]
    rows += [rng.integers(0, len(given["vocab"]), 30).tolist() for _ in range(10)]
    seen = observe(decode, tokenizer=given, rows=rows)
    for row, text in zip(rows, seen, strict=True):
        wanted = oracles.decode(row, given["vocab"])
        apart = "".join(given["vocab"][token].decode("utf-8", "replace") for token in row)
        ignored = b"".join(given["vocab"][token] for token in row).decode("utf-8", "ignore")
        expect_equal(
            text,
            wanted,
            "decode",
            given=row,
            mistakes=lambda apart=apart, ignored=ignored: {
                "each token is decoded on its own: a character may span several": apart,
                "malformed bytes are dropped instead of replaced by U+FFFD": ignored,
            },
        )


@pytest.mark.parametrize(
    "row", [[0xFF], [0xC3], [0xE4, 0xBD], [0x61, 0x80, 0x62], [0xF0, 0x9F, 0x61]]
)
def test_decode_replaces_malformed_bytes(observe, row):
    given = tokenizer()
    (text,) = observe(decode, tokenizer=given, rows=[row])
    expect_equal(text, oracles.decode(row, given["vocab"]), "decode", given=row)


def cuts(text, rng):
    """One text in pieces: characters, halves, random pieces, empty pieces, lines, all at once."""
    places = sorted(rng.integers(0, len(text) + 1, 12).tolist())
    bounds = [0, *places, len(text)]
    return {
        "characters": list(text),
        "random pieces": [text[i:j] for i, j in pairwise(bounds)],
        "with empty pieces": ["", *(piece for char in text for piece in (char, "")), ""],
        "lines": text.splitlines(keepends=True),
        "one piece": [text],
        "pairs": [text[i : i + 2] for i in range(0, len(text), 2)],
    }


@pytest.mark.parametrize(
    "text",
    [*AWKWARD.values(), *WITH_SPECIALS.values(), CORPUS],
    ids=[*AWKWARD.keys(), *WITH_SPECIALS.keys(), "corpus"],
)
def test_encode_iterable_does_not_depend_on_the_cuts(observe, rng, text):
    given = tokenizer(SPECIALS)
    chunkings = cuts(text, rng)
    seen = observe(encode_chunks, tokenizer=given, chunkings=list(chunkings.values()))
    expected = oracles.encode(text, given)
    for (how, chunks), ids in zip(chunkings.items(), seen, strict=True):
        expect_equal(
            ids,
            expected,
            f"encode_iterable, text cut into {how},",
            given=text,
            mistakes=lambda chunks=chunks: mistakes.encoding_in_chunks(chunks, given),
        )


def test_encode_iterable_of_nothing_is_nothing(observe):
    seen = observe(encode_chunks, tokenizer=tokenizer([END]), chunkings=[[], [""], ["", ""]])
    expect(seen == [[], [], []], f"encode_iterable of no text at all yields {seen}")


@pytest.mark.parametrize("special_tokens", [None, [END]], ids=["no specials", "specials"])
def test_encode_iterable_is_lazy(observe, special_tokens):
    lines, line = 5000, "The dog isn't 12 years old.\n"
    given = tokenizer(special_tokens)
    seen = observe(encode_stream, tokenizer=given, line=line, num_lines=lines)
    expect(seen["is_iterator"], "encode_iterable returns no iterator: yield ids one by one")
    expect(
        seen["read_at_call"] == 0,
        f"encode_iterable reads {seen['read_at_call']} chunks before the first id is asked for",
    )
    expect(
        seen["written"] == lines * len(oracles.encode(line, given)),
        f"encode_iterable yields {seen['written']} ids for {lines} lines",
    )
    expect(
        seen["lines_ahead"] < lines // 2,
        f"encode_iterable had read {seen['lines_ahead']} of {lines} lines more than it had encoded:"
        " it must work in constant memory, so yield ids as soon as they are certain",
    )


def test_special_tokens_may_be_next_to_each_other_in_random_text(observe, rng):
    given = tokenizer(SPECIALS)
    parts = [*SPECIALS, "dog", " fox", "<|", "|>", "\n", " ", "end", "[X]"]
    texts = ["".join(rng.choice(np.array(parts, object), 12)) for _ in range(15)]
    examine(observe, given, texts)
