"""Every boundary between pre-tokens shows if each pair of neighbouring bytes makes a token."""

from itertools import pairwise

import pytest
from compare import expect_equal
from mistakes import encoding as mistakes
from oracles import text as oracles
from probes.text import encode
from test_encoding import trials
from test_encoding_streams import examine_chunks
from texts import AWKWARD, END, tokenizer

pytestmark = [pytest.mark.problem("tokenizer"), pytest.mark.usefixtures("rng")]

TEXTS = {
    **AWKWARD,
    "contractions": "it'll we've they're I'M he's 'tis 's'll'l d'd''ll 12'll !'ve \u2019s",
    "white space": "a\u00a0b \u3000\u3000c\x0b\x0bd \x0c e\u2028\u2028f\x85g \u00a0 h\t i \r\n j",
    "letters and numbers": "x12y \u00b2\u00bdz\u2167w \u0661\u0662 e\u0301a_b 3.14 \u4e00\u4e09",
}


def pairs_of(text):
    """Each two bytes that are neighbours in the text, across pre-tokens as well, in any order."""
    data = text.encode()
    found = dict.fromkeys((data[i : i + 1], data[j : j + 1]) for i, j in pairwise(range(len(data))))
    return list(reversed(found))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_encode_cuts_words_where_gpt2_does(observe, text):
    text = observe.fresh.text(text)
    given = tokenizer([END], pairs_of(text))
    seen = observe(encode, tokenizer=given, texts=[text])["ids"][0]
    expect_equal(
        seen,
        oracles.encode(text, given),
        "encode",
        given=text,
        mistakes=lambda: mistakes.encoding(text, given),
        trials=lambda: trials(observe),
        hint="Is the text split into pre-tokens by exactly the handout's pattern?",
    )


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_encode_iterable_cuts_words_where_gpt2_does(observe, text):
    text = observe.fresh.text(text)
    given = tokenizer([END], pairs_of(text))
    chunkings = [list(text), *([text[:i], text[i:]] for i in range(1, len(text)))]
    hint = "Which pre-tokens may still change when more text follows?"
    examine_chunks(observe, given, chunkings, hint)


@pytest.mark.parametrize(
    ("word", "times"),
    [
        ("banana", 100),
        ("lower", 100),
        ("\U0001f643", 100),
        ("12", 100),
        ("!?", 100),
        ("lower", 800),
    ],
)
def test_encode_merges_words_of_any_length(observe, word, times):
    word = observe.fresh.text(word)
    text = times * word
    given = tokenizer(merges=oracles.train_bpe(f"{text} {word}".encode(), 256 + 12, []))
    seen = observe(encode, tokenizer=given, texts=[text])["ids"][0]
    raw = list(text.encode())
    expect_equal(
        seen,
        oracles.encode(text, given),
        "encode",
        given=text,
        mistakes=lambda: {"long pre-tokens are not merged": raw, "the merges are not applied": raw},
        trials=lambda: trials(observe),
    )
