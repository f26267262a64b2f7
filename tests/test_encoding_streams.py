"""Encoding text that arrives in chunks: never wrong, never more than needed in memory."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest
from compare import expect, expect_equal
from mistakes import encoding as mistakes
from oracles import text as oracles
from probes.text import (
    encode,
    encode_chunks,
    encode_interleaved,
    encode_sources,
    encode_stream,
    lazy_memory,
)
from texts import AWKWARD, CORPUS, END, OVERLAPPING, PLAIN, PROSE, STOP, WITH_STOP, tokenizer
from trials import ask, once

pytestmark = [pytest.mark.problem("tokenizer"), pytest.mark.usefixtures("rng")]


def the_end_is_missing(ids, expected):
    """Say so if nothing but the end is missing: what is left when the chunks are used up."""
    if not 0 < len(ids) < len(expected) or ids != expected[: len(ids)]:
        return ""
    return "All ids are right, but the end is missing: encode what is left after the last chunk."


@once
def trials(observe):
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
                trials=lambda: trials(observe),
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
