"""The tokenizer: encoding and decoding, and encoding text that arrives in chunks."""

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from compare import expect, expect_equal, noting, runs
from mistakes import encoding as mistakes
from oracles import text as oracles
from probes.text import (
    decode,
    encode,
    encode_chunks,
    encode_in_turns,
    encode_interleaved,
    encode_sources,
    encode_stream,
    encode_times,
    lazy_memory,
    there_and_back,
    tokenizer_arguments,
)
from texts import (
    AWKWARD,
    CORPUS,
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

pytestmark = pytest.mark.usefixtures("rng")

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
        ("line ends", tokenizer(merges=ACROSS), "a\r\nb\r\n\r\n  c\r \nd"),
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


@pytest.mark.parametrize("specials", [[STOP, "PAUSEDOG"], ["PAUSEDOG", STOP]], ids=repr)
def test_encode_takes_the_first_of_special_tokens_that_overlap(observe, specials):
    # STOP begins before the other one, which is longer.
    examine(observe, tokenizer(specials), ["dogSTOPAUSEDOGfox"])


@pytest.mark.parametrize("absent", [None, []], ids=["None", "empty list"])
def test_encode_needs_no_special_tokens(observe, absent):
    given = {**tokenizer([END]), "special_tokens": absent}
    texts = [f"dog{END}fox", END]

    def with_none():
        examine(observe, {**given, "special_tokens": []}, ["dog"])

    def with_one_alone():
        examine(observe, tokenizer([END]), ["dog"])
        assert not runs(with_none)

    with (
        noting(
            "with a special token; without any, the pattern of special tokens is empty and fits"
            " everywhere: do not split by it",
            with_one_alone,
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
        kept = [
            part for part in oracles.split_at_specials(text, [end, pad]) if part not in (end, pad)
        ]
        expect(
            ids != [token for part in kept for token in oracles.encode(part, one)],
            f"encode({text!r}) returned {ids}: special tokens that the vocabulary lacks are left"
            " out, and should be added with ids of their own",
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
    specials = [STOP, "HALTED"]  # None ends as the other begins: which would win is asked above.
    given = tokenizer(specials)
    parts = [*specials, "dog", " fox", "STO", "TED", " ", "halted"]
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


# --- text that arrives in chunks: never wrong, never more than needed in memory ---


def the_end_is_missing(ids, expected):
    """Say so if nothing but the end is missing: what is left when the chunks are used up."""
    if not 0 < len(ids) < len(expected) or ids != expected[: len(ids)]:
        return ""
    return "All ids are right, but the end is missing: encode what is left after the last chunk."


@once
def trials_of_streams(observe):
    given = tokenizer([STOP])
    for label, chunks in {
        "all in one chunk": [f"the dog\n fox's  12{STOP}a \n\nb"],
        "chunks of one letter": list(f"the lazy dog \n\n isn't{STOP} lower"),
        "lines": ["the lazy dog\n", "  jumps over\n", "\n", " the newest\r\n", " fox's"],
        "pre-tokens": ["the", " lazy", " dog", " jumps", "  ", "over", "\n", "\n", "lower", "est"],
        "chunks that end in a space": ["the lazy ", "dog jumps ", "over the ", "low", "er fox "],
        "chunks that end in a line end": ["the dog\n", "\n  fox\n", " the\n", "\nlow", "er"],
        "a special token in two chunks": ["the dogST", "OPfox", f" a{STOP}", "b"],
    }.items():
        expected = oracles.encode("".join(chunks), given)
        yield ask(
            observe,
            label,
            expected,
            mistakes.encoding_in_chunks(chunks, given),
            read=lambda seen: seen[0],
            probe=encode_chunks,
            tokenizer=given,
            chunkings=[chunks],
        )


def chunkings_of(text, rng):
    """One text in chunks: characters, random ones, with empty ones, lines, all in one, pairs."""
    inner = sorted(rng.integers(0, len(text) + 1, 12).tolist())
    bounds = [0, *inner, len(text)]
    return [
        list(text),
        [text[i:j] for i, j in pairwise(bounds)],
        ["", *(chunk for char in text for chunk in (char, "")), ""],
        text.splitlines(keepends=True),
        [text],
        [text[i : i + 2] for i in range(0, len(text), 2)],
    ]


def examine_chunks(observe, given, chunkings, hint=""):
    """Encode one text in chunks of several kinds: what `encode` returns is right, or not its fault.

    Whether `encode` itself is right is asked elsewhere.
    """
    text = "".join(chunkings[0])
    expected = oracles.encode(text, given)
    seen = observe(encode_chunks, tokenizer=given, chunkings=chunkings)
    as_one = expected
    if any(ids != expected for ids in seen):
        (as_one,) = observe(encode, aside=True, tokenizer=given, texts=[text])["ids"]
    for chunks, ids in zip(chunkings, seen, strict=True):
        if ids != as_one:
            expect_equal(
                ids,
                expected,
                "encode_iterable",
                given=chunks,
                mistakes=lambda chunks=chunks: mistakes.encoding_in_chunks(chunks, given),
                trials=lambda: trials_of_streams(observe),
                hint=the_end_is_missing(ids, expected) or hint,
            )


def examine_lines(observe, given, text):
    """Encode lines that may be encoded one by one."""
    given, text = observe.fresh.tokenizer(given), observe.fresh.text(text)
    examine_chunks(observe, given, [text.splitlines(keepends=True)])


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN.keys())
def test_encode_iterable_yields_the_ids_of_each_line(observe, text):
    examine_lines(observe, tokenizer([END]), text)


def test_encode_iterable_keeps_special_tokens_whole(observe):
    examine_lines(observe, tokenizer([STOP]), f"the dog{STOP}\n{STOP}fox {STOP} lower\n{STOP}")


CUT = {**AWKWARD, **WITH_STOP, "corpus": CORPUS, "the longest": f"dog{STOP * 3} a{STOP}\n\n b"}


@pytest.mark.parametrize("text", CUT.values(), ids=CUT.keys())
def test_encode_iterable_does_not_depend_on_the_cuts(observe, rng, text):
    # The longest is listed first: that it wins wherever it is listed is asked elsewhere.
    given = observe.fresh.tokenizer(tokenizer([*OVERLAPPING[::-1], "PAUSE"]))
    examine_chunks(observe, given, chunkings_of(observe.fresh.text(text), rng))


CONTRACTIONS = "it'll we've they're I'm he's can't you'd " * 3


def test_encode_iterable_waits_for_the_end_of_a_contraction(observe):
    # ' and l are two pre-tokens for as long as nothing follows; with one more letter they are one.
    text = observe.fresh.text(CONTRACTIONS)
    merges = oracles.train_bpe(text.encode(), 256 + 40, [])
    chunkings = [[text[:i], text[i:]] for i in range(42)] + [list(text)]
    hint = "Which pre-tokens may still change when a letter follows?"
    examine_chunks(observe, tokenizer([END], merges), chunkings, hint)


def test_encode_iterable_of_nothing_is_nothing(observe):
    seen = observe(encode_chunks, tokenizer=tokenizer([END]), chunkings=[[], [""], ["", ""]])
    expect(seen == [[], [], []], f"encode_iterable of no text at all yields {seen}")


def test_encode_iterable_is_lazy(observe):
    # Without special tokens: there may be none for long.
    lines, line = 5000, observe.fresh.text("The dog isn't 12 years old.\n")
    given = observe.fresh.tokenizer(tokenizer([END]))
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
        "not-lazy",
    )


@pytest.mark.parametrize(
    "text",
    [
        f"dog{STOP}{STOP} fox",
        f"a {STOP}\r\n\n  {STOP[:-1]}b",
        "it's  we'll\r\n\r\n \n x12 3",
        "e\u0301\u4f60\U0001f468\u200d\U0001f469",
    ],
    ids=["specials", "around specials", "white space", "marks"],
)
def test_encode_iterable_may_be_cut_anywhere(observe, text):
    given, text = observe.fresh.tokenizer(tokenizer([STOP])), observe.fresh.text(text)
    examine_chunks(observe, given, [[text[:i], text[i:]] for i in range(len(text) + 1)])


def test_encode_iterable_takes_any_iterable(observe):
    given = observe.fresh.tokenizer(tokenizer([END]))
    text = observe.fresh.text(PROSE)
    for source, ids in observe(encode_sources, tokenizer=given, text=text).items():
        expect_equal(ids, oracles.encode(text, given), f"encode_iterable of {source}")


def test_encode_iterable_keeps_streams_apart(observe):
    given = observe.fresh.tokenizer(tokenizer([END]))
    texts = ["the dog\nfox's\nlazy fox\n", "newer\nnewest ones\nlie\n", "lower\nlowest one"]
    texts = [*map(observe.fresh.text, texts)]
    chunkings = [text.splitlines(keepends=True) for text in texts]
    seen = observe(encode_interleaved, tokenizer=given, chunkings=chunkings)
    for when, name in (
        ("in_turns", "encode_iterable while others of the same tokenizer are going on"),
        ("afterwards", "encode after encode_iterable was given up"),
    ):
        for text, ids in zip(texts, seen[when], strict=True):
            expect_equal(ids, oracles.encode(text, given), name, given=text)


MEGABYTE = 2**20
# Asked here and not of a submission, which could say that nothing can be seen.
SEES_MEMORY = sys.platform == "darwin" or Path("/proc/self/status").exists()


@pytest.mark.skipif(not SEES_MEMORY, reason="how much memory a process held cannot be seen here")
def test_encode_iterable_needs_constant_memory(observe):
    # Long special tokens make much text of few ids, so that even a slow tokenizer is soon done.
    special = "PAUSE" * 60
    given = observe.fresh.tokenizer(tokenizer([special]))
    chunk = observe.fresh.text(special * 20 + "the dog\n")
    num_chunks = 48 * MEGABYTE // len(chunk)
    grown = observe(lazy_memory, tokenizer=given, chunk=chunk, num_chunks=num_chunks)
    expect(
        grown < 16 * MEGABYTE,
        f"encode_iterable of 48 MiB of text took {grown / MEGABYTE:.0f} MiB more memory than for a"
        " little: yield ids as soon as they are certain, and forget text that is done with",
        "not-in-constant-memory",
    )


# --- each boundary between pre-tokens, seen where each pair of neighbouring bytes makes a token ---


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


# --- agreement with tiktoken, on GPT-2's vocabulary and on one that is trained here ---


PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


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
    return pytest.importorskip("tiktoken").Encoding(
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
