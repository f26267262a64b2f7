"""Encoding and decoding."""

from collections import Counter

import numpy as np
import pytest
from compare import expect, expect_equal, noting, runs
from mistakes import encoding as mistakes
from oracles import text as oracles
from probes.text import (
    decode,
    encode,
    encode_in_turns,
    encode_stream,
    encode_times,
    there_and_back,
    tokenizer_arguments,
)
from texts import (
    AWKWARD,
    END,
    OVERLAPPING,
    PLAIN,
    PROSE,
    STOP,
    SYMBOLS,
    WITH_STOP,
    WITH_SYMBOLS,
    in_letters,
    tokenizer,
)
from trials import ask, once

pytestmark = [pytest.mark.problem("tokenizer"), pytest.mark.usefixtures("rng")]

# Learnt from text that was not split: merges lie across every border between pre-tokens.
BORDERS = [
    "x1234 12345",
    "I'LL IT'S'S",
    "a.b,c !? ..",
    "e\u0301a\u00e9b \u4f60a",
    "a  b\n\n c \n\td",
]
ACROSS = oracles.train_bpe(b"", 256 + 80, [], counts=Counter(BORDERS))


@once
def trials(observe):
    repeats = tokenizer(merges=[(b"a", b"a"), (b"aa", b"a"), (b"aa", b"aa")])
    by_rank = [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c"), (b"c", b"d"), (b"bc", b"d")]
    specials = f"dog{END}fox{END}{END}a[X]+(?b pad <|end|>"
    rivals = [(b"b", b"c"), (b"a", b"b"), (b"c", b"a")]
    both = [*SYMBOLS, END + END]
    for label, given, text in [
        ("plain words", tokenizer(), PLAIN["words"]),
        ("contractions", tokenizer(merges=ACROSS), f"{AWKWARD['contractions']} {BORDERS[1]}"),
        ("numbers", tokenizer(merges=ACROSS), f"{AWKWARD['numbers']} {BORDERS[0]}"),
        ("runs of white space", tokenizer(merges=ACROSS), "a  b\n\n c \n\td  "),
        ("line ends", tokenizer(merges=ACROSS), "a\r\nb\r\n\r\n  c\n \nd"),
        ("text that is not ASCII", tokenizer(merges=ACROSS), "e\u0301a\u00e9b \u4f60a \ufb01"),
        ("repeated letters", repeats, "a aa aaa aaaa aaaaa aaaaaaa"),
        ("merges out of the order of length", tokenizer(merges=by_rank), "abc abcd bcd abcabcd"),
        ("merges for the same letters", tokenizer(merges=rivals), "abc bca cab"),
        ("special tokens", tokenizer(both), specials),
        ("special tokens, listed the other way round", tokenizer(both[::-1]), specials),
        ("no special tokens", {**tokenizer([END]), "special_tokens": None}, f"the dog{END}fox"),
    ]:
        yield ask(
            observe,
            label,
            oracles.encode(text, given),
            mistakes.encoding(text, given),
            read=lambda seen: seen["ids"][0],
            probe=encode,
            tokenizer=given,
            texts=[text],
        )


def examine(observe, given, texts):
    given, texts = observe.fresh.tokenizer(given), [*map(observe.fresh.text, texts)]
    specials = given["special_tokens"] or []
    letters, rewritten = in_letters(specials)
    has_symbols = any(special != oracles.regex.escape(special) for special in specials)
    with noting(
        "with special tokens of letters only; where they are part of a regular expression, escape"
        " them (regex.escape)",
        control=lambda: (
            observe(
                encode,
                tokenizer=tokenizer(letters, given["merges"]),
                texts=[*map(rewritten, texts)],
            )
            if has_symbols
            else 1 / 0
        ),
    ):
        seen = observe(encode, tokenizer=given, texts=list(texts))
    for text, ids in zip(texts, seen["ids"], strict=True):
        expect_equal(
            ids,
            oracles.encode(text, given),
            "encode",
            given=text,
            mistakes=lambda text=text: mistakes.encoding(text, given),
            trials=lambda: trials(observe),
        )


def test_encode_returns_a_list_of_ints(observe):
    seen = observe(encode, tokenizer=tokenizer(), texts=[PROSE])
    expect(
        seen["container"] == "list",
        f"encode returned a {seen['container']}, expected a list of ints",
        "wrong-type",
    )
    kinds_of = {"encode": seen["kinds"]}

    def stream():
        return observe(encode_stream, tokenizer=tokenizer(), line="dog", num_lines=1)

    if runs(stream):  # Whether it does is asked elsewhere.
        kinds_of["encode_iterable"] = [stream()["kind"]]
    for name, kinds in kinds_of.items():
        strange = [kind for kind in kinds if kind != "int"]
        expect(
            not strange, f"{name} gave ids of type {', '.join(strange)}, expected int", "wrong-type"
        )


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN.keys())
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


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
def test_encode_takes_awkward_text(observe, text):
    examine(observe, tokenizer(), [text])


def test_tokenizer_leaves_its_arguments_alone(observe):
    # Neither in the order of their lengths nor in that of the alphabet.
    given = observe.fresh.tokenizer(tokenizer(["SECOND", "LONGEST", "END"]))
    text = observe.fresh.text(f"{PROSE}END and SECOND")
    changed = observe(tokenizer_arguments, tokenizer=given, text=text)["changed"]
    expect(
        not changed,
        f"get_tokenizer changed its argument {' and '.join(changed)}: the caller still"
        " needs it, copy it first",
        "input-changed",
    )


def test_encode_keeps_tokenizers_apart(observe):
    # The third one's special token is what its merges make, too: taken for text, it is the same.
    dog = [(b" ", b"d"), (b"o", b"g"), (b" d", b"og")]
    given = [tokenizer(), tokenizer(merges=ACROSS), tokenizer([" dog"], dog, False)]
    given = [observe.fresh.tokenizer(one) for one in given]
    texts = ["the dog", "the quick dog", "the lazy dog", "the dog"]
    texts = [*map(observe.fresh.text, texts)]
    for one, rows in zip(
        given, observe(encode_in_turns, tokenizers=given, texts=texts), strict=True
    ):
        for text, ids in zip(texts, rows, strict=True):
            expect_equal(
                ids,
                oracles.encode(text, one),
                "encode, by several tokenizers in turns,",
                given=text,
                hint="Is a cache, or are the merges, shared by all tokenizers?",
            )


def test_encode_uses_the_ids_of_the_vocabulary(observe, rng):
    given = tokenizer([END])
    ids = 7 * rng.permutation(len(given["vocab"])) + 3
    given["vocab"] = dict(zip(ids.tolist(), given["vocab"].values(), strict=True))
    examine(observe, given, [PROSE])


def test_encode_works_with_special_tokens_first_in_the_vocabulary(observe):
    given = tokenizer([STOP])
    pieces = sorted(given["vocab"].values(), key=lambda piece: piece != STOP.encode())
    given["vocab"] = dict(enumerate(pieces))
    examine(observe, given, [PROSE, f"dog{STOP}fox{STOP}"])


def test_encode_works_without_merges(observe):
    examine(observe, tokenizer(merges=[]), [PROSE])


@pytest.mark.parametrize("text", WITH_STOP.values(), ids=WITH_STOP.keys())
def test_encode_keeps_special_tokens_whole(observe, text):
    examine(observe, tokenizer([STOP, "PAUSE"]), [text])


@pytest.mark.parametrize("text", WITH_SYMBOLS.values(), ids=WITH_SYMBOLS.keys())
def test_encode_takes_symbols_for_special_tokens(observe, text):
    examine(observe, tokenizer(SYMBOLS), [text])


@pytest.mark.parametrize("specials", [OVERLAPPING, OVERLAPPING[::-1]], ids=repr)
@pytest.mark.parametrize("times", [2, 3])
def test_encode_takes_the_longest_special_token(observe, specials, times):
    examine(observe, tokenizer(specials), [f"dog{STOP * times}fox"])


@pytest.mark.parametrize("absent", [None, []], ids=["None", "empty list"])
def test_encode_needs_no_special_tokens(observe, absent):
    given = {**tokenizer([END]), "special_tokens": absent}
    texts = [f"dog{END}fox", END]

    def with_one():
        examine(observe, tokenizer([END]), ["dog"])

    def with_none():
        examine(observe, {**given, "special_tokens": []}, ["dog"])

    with (
        noting(
            "with a special token; without any, the pattern of special tokens is empty and fits"
            " everywhere: do not split by it",
            lambda: with_one() if not runs(with_none) else 1 / 0,
        ),
        noting(
            "with an empty list; None means the same",
            lambda: examine(observe, {**given, "special_tokens": []}, texts),
        ),
    ):
        examine(observe, given, texts)


@pytest.mark.parametrize("gaps", [False, True], ids=["ids in a row", "ids with gaps"])
def test_encode_appends_special_tokens_that_the_vocabulary_lacks(observe, gaps):
    given = observe.fresh.tokenizer(tokenizer([STOP, "PAUSE"], specials_in_vocab=False))
    if gaps:
        given["vocab"] = {2 * token: piece for token, piece in given["vocab"].items()}
    end, pad = given["special_tokens"]
    texts = [observe.fresh.text(f"dog{STOP}PAUSEfox"), end, pad]
    known = {**given, "vocab": observe.fresh.tokenizer(tokenizer([STOP, "PAUSE"]))["vocab"]}
    one = {**given, "special_tokens": [end]}

    def one_works():
        return observe(encode, tokenizer=one, texts=texts)

    with (
        noting(
            "with one special token that the vocabulary lacks; several need one id of its own each",
            one_works,
        ),
        noting(
            "if the vocabulary holds the special tokens; those that it lacks are added to it",
            lambda: observe(encode, tokenizer=known, texts=texts) if not runs(one_works) else 1 / 0,
        ),
    ):
        seen = observe(encode, tokenizer=given, texts=texts)
    for text, ids in zip(texts, seen["ids"], strict=True):
        expect(
            ids != oracles.encode(text, {**given, "special_tokens": None}),
            f"encode({text!r}) returned {ids}: a special token that the vocabulary lacks is"
            " encoded as ordinary text, and should be added with an id of its own",
            "missing-special-tokens-are-dropped",
        )
        new = [token for token in ids if token not in given["vocab"]]
        specials = text.count(end) + text.count(pad)
        expect(
            len(new) == len(set(new)) == specials,
            f"encode({text!r}) returned {ids}: each special token that the vocabulary lacks"
            " needs one id of its own that no other token has",
            "special-tokens-share-an-id",
        )
    (both, (first,), (second,)) = seen["ids"]
    expect(
        [token for token in both if token in (first, second)] == [first, second]
        and first != second,
        f"encode gave {end!r} the id {first}, {pad!r} the id {second} and the text"
        f" {texts[0]!r} the ids {both}: each special token that the vocabulary lacks needs one id"
        " of its own that no other token has",
        "special-tokens-share-an-id",
    )
    back = observe(there_and_back, tokenizer=given, texts=texts)
    for text, decoded in zip(texts, back, strict=True):
        expect_equal(decoded, text, "decode(encode(text))", given=text)


@pytest.mark.parametrize("text", [*PLAIN.values(), *AWKWARD.values()], ids=[*PLAIN, *AWKWARD])
def test_decode_gives_back_what_was_encoded(observe, text):
    given, text = observe.fresh.tokenizer(tokenizer()), observe.fresh.text(text)
    (decoded,) = observe(there_and_back, tokenizer=given, texts=[text])
    expect_equal(decoded, text, "decode(encode(text))", given=text)


def examine_decoding(observe, given, rows):
    given, rows = observe.fresh.tokenizer(given), [*map(observe.fresh.ids, rows)]
    valid = [next(token for token, piece in given["vocab"].items() if piece == b"d")]
    with noting(
        "with ids of whole characters; malformed bytes are replaced by U+FFFD",
        control=lambda: observe(decode, tokenizer=given, rows=[valid]),
    ):
        seen = observe(decode, tokenizer=given, rows=rows)
    specials = given["special_tokens"] or []
    for row, text in zip(rows, seen, strict=True):
        pieces = [given["vocab"][token] for token in row]

        def wrong(pieces=pieces):
            joined = b"".join(pieces)
            return {
                "each token is decoded on its own: a character may span several": "".join(
                    piece.decode("utf-8", "replace") for piece in pieces
                ),
                "malformed bytes are dropped instead of replaced by U+FFFD": joined.decode(
                    "utf-8", "ignore"
                ),
                "malformed bytes are replaced by a question mark": joined.decode(
                    "utf-8", "replace"
                ).replace("\ufffd", "?"),
                "malformed bytes are written as \\x..": joined.decode("utf-8", "backslashreplace"),
                "malformed bytes become surrogates (surrogateescape)": joined.decode(
                    "utf-8", "surrogateescape"
                ),
                "bytes are decoded as Latin-1, not as UTF-8": joined.decode("latin-1"),
                "special tokens are left out": b"".join(
                    piece for piece in pieces if piece.decode("utf-8", "replace") not in specials
                ).decode("utf-8", "replace"),
                "the text is stripped": joined.decode("utf-8", "replace").strip(),
                "spaces are put between tokens": " ".join(
                    piece.decode("utf-8", "replace") for piece in pieces
                ),
            }

        expect_equal(text, oracles.decode(row, given["vocab"]), "decode", given=row, mistakes=wrong)


def test_decode_joins_bytes_before_decoding_them(observe):
    given = tokenizer([STOP])
    whole = [b for text in AWKWARD.values() for b in text.encode()]  # Ids of bytes are the bytes.
    rows = [[], [0xC3, 0xA9], [0xF0, 0x9F, 0x99, 0x83], whole]
    rows += [oracles.encode(text, given) for text in [*AWKWARD.values(), f" dog{STOP}fox\n"]]
    examine_decoding(observe, given, rows)


@pytest.mark.parametrize(
    "row", [[0xFF], [0xC3], [0xE4, 0xBD], [0x61, 0x80, 0x62], [0xF0, 0x9F, 0x61]]
)
def test_decode_replaces_malformed_bytes(observe, row):
    given = tokenizer()
    examine_decoding(observe, given, [row])


def test_special_tokens_may_be_next_to_each_other_in_random_text(observe, rng):
    specials = [STOP, "PAUSE"]
    given = tokenizer(specials)
    parts = [*specials, "dog", " fox", "STO", "USE", " ", "pause"]
    texts = ["".join(rng.choice(np.array(parts, object), 12)) for _ in range(15)]
    examine(observe, given, texts)


@pytest.mark.parametrize("lazily", [False, True], ids=["encode", "encode_iterable"])
def test_encoding_time_grows_with_the_text_not_with_its_square(observe, rng, lazily):
    words = [f" {word}" for word in PROSE.split()] + ["\n", "  ", " 1984", STOP]
    picks = rng.choice(np.array(words, object), 12_000)
    # And more words in a row than functions of Python may call each other.
    row = rng.choice(np.array(words[:-1], object), 12_000)
    texts = ["".join(picks[:1500]), "".join([*picks, *row])]
    given = {"tokenizer": tokenizer([STOP]), "texts": texts, "lazily": lazily}
    few, many = observe(encode_times, **given)
    name = "encode_iterable" if lazily else "encode"
    # 16 times the text takes 16 times as long, or less where words are remembered; 256 if each
    # step goes over all that was read or written.
    expect(
        many < 40 * few,
        f"{name}: {len(texts[1])} characters took {many / few:.0f} times the CPU time of"
        f" {len(texts[0])} characters, expected about {len(texts[1]) / len(texts[0]):.0f}: is"
        " something copied or searched from the start for each token?",
        "too-slow-for-long-texts",
    )
