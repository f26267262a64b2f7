"""Pre-tokens: nothing is lost, and neither chunks nor processes change what is found."""

import time
from collections import Counter
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_basics import pretokenize
from cs_basics.fast.text import blocks as block_module
from cs_basics.fast.text import counting
from cs_basics.fast.text.counting import count_pretokens
from cs_basics.fast.text.parallel import default_num_workers, map_in_order
from cs_basics.pretokenize import (
    PRETOKEN,
    check_special_tokens,
    independent_blocks,
    pretokens,
    read_text,
    special_pattern,
    text_to_bytes,
)

EOT = "<|endoftext|>"
SPECIALS = [EOT, EOT + EOT, "aa", "aab", " \n", "'l", "a b"]
# What the pattern treats differently, and what special tokens are made of.
AWKWARD = ["a", "b", "l", "'", "'ll", "'s", " ", "  ", "\n", "\r\n", "\t", "1", "!", "\xe9", "\x85"]
AWKWARD += ["\u4e2d", "\u3002", "\u3000", "\u0301", "\U0001f642", "\udc80", "\ud83d", "\x1c"]
AWKWARD += [EOT, "<|endof", "text|>", "aa"]

awkward_text = st.lists(st.sampled_from(AWKWARD), max_size=30).map("".join) | st.text(max_size=20)
special_lists = st.lists(st.sampled_from(SPECIALS), unique=True)


def pieces(text, special_tokens):
    """Special tokens and pre-tokens of a text, in order: the definition."""
    pattern = special_pattern(special_tokens)
    found = []
    for index, part in enumerate(pattern.split(text) if pattern else [text]):
        found += [part] if index % 2 else PRETOKEN.findall(part)
    return found


def cut_at(text, cuts):
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


plain_text = st.text(
    st.characters(max_codepoint=127) | st.sampled_from([*"\u2010\u2018\u2019\u201c\u2026\u2027"]),
    max_size=30,
)


@given(awkward_text | plain_text | st.text(st.sampled_from("a1' \n!\u2019\u200f\u2028")))
def test_pretokens_are_what_the_pattern_finds(text):
    assert pretokens(text) == PRETOKEN.findall(text)


def test_pretokens_with_any_character_are_what_the_pattern_finds():
    for code in range(0x2100):
        text = f"a{chr(code)}b {chr(code)}1"
        assert pretokens(text) == PRETOKEN.findall(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it's we'll", ["it", "'s", " we", "'ll"]),
        ("a  b", ["a", " ", " b"]),
        ("end \r\n\r\n", ["end", " \r\n\r\n"]),
        ("x\r\ny", ["x", "\r", "\n", "y"]),
        ("in 1984!?", ["in", " 1984", "!?"]),
        ("\u00e9t\u00e9 \u4e2d\u6587\u3002", ["\u00e9t\u00e9", " \u4e2d\u6587", "\u3002"]),
    ],
)
def test_pattern_splits_as_gpt2_does(text, expected):
    assert PRETOKEN.findall(text) == expected


@given(awkward_text)
def test_pattern_covers_every_character(text):
    assert "".join(PRETOKEN.findall(text)) == text


@given(awkward_text, special_lists, st.lists(st.integers(0, 200)))
def test_blocks_have_the_pieces_of_the_whole_text_however_it_is_cut(text, special_tokens, cuts):
    blocks = list(independent_blocks(cut_at(text, cuts), special_tokens))
    assert "".join(blocks) == text
    found = [piece for block in blocks for piece in pieces(block, special_tokens)]
    assert found == pieces(text, special_tokens)


@given(awkward_text, special_lists)
def test_blocks_of_single_characters_have_the_pieces_of_the_whole_text(text, special_tokens):
    found = [
        piece
        for block in independent_blocks(["", *text, ""], special_tokens)
        for piece in pieces(block, special_tokens)
    ]
    assert found == pieces(text, special_tokens)


@given(awkward_text, special_lists, st.integers(0, 60))
def test_a_block_is_final_whatever_follows(text, special_tokens, length):
    head = text[:length]
    settled = list(independent_blocks([head, ""], special_tokens))[:-1]
    found = [piece for block in settled for piece in pieces(block, special_tokens)]
    assert found == pieces(text, special_tokens)[: len(found)]


@pytest.mark.parametrize(
    ("text", "special_tokens"),
    [
        ("x a b y a b", ["a b"]),
        ("1a1b1 a1b", ["a1b"]),
        ("aab aab", ["aa", "aab c"]),
        ("aaaaa", ["aa"]),
        ("we'll 'l l'", ["'l"]),
        ("a \n\r\n  b \n", [" \n"]),
        ("a'll 're\u3000 \u3000b", []),
    ],
)
def test_blocks_are_right_for_every_way_to_cut_in_three(text, special_tokens):
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            chunks = [text[:first], text[first:second], text[second:]]
            blocks = independent_blocks(chunks, special_tokens)
            found = [piece for block in blocks for piece in pieces(block, special_tokens)]
            assert found == pieces(text, special_tokens), chunks


def test_blocks_arrive_as_soon_as_they_are_certain():
    drawn = 0

    def endless():
        nonlocal drawn
        while True:
            drawn += 1
            yield "w" if drawn % 5 else " "

    blocks = independent_blocks(endless(), [EOT])
    for _ in range(1000):
        before = drawn
        next(blocks)
        assert drawn - before < 64


def test_many_small_chunks_of_one_endless_word_take_linear_time():
    started = time.monotonic()
    (block,) = independent_blocks(("a" for _ in range(400_000)), [EOT])
    assert len(block) == 400_000
    assert time.monotonic() - started < 5  # quadratic: 80 GB to copy


def test_blocks_refuse_chunks_of_bytes():
    with pytest.raises(TypeError):
        list(independent_blocks([b"abc"], []))


@given(st.binary(max_size=200), st.integers(1, 5))
def test_reading_keeps_every_byte(tmp_path_factory, content, block_bytes):
    path = tmp_path_factory.mktemp("read") / "text"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokenize, "BLOCK_BYTES", block_bytes)
        text = "".join(read_text(path))
    assert text == content.decode("utf-8", "surrogateescape")
    assert text_to_bytes(text) == content


def test_surrogates_without_bytes_become_replacement_characters():
    assert text_to_bytes("a\ud800\udc80\udfff") == "a\ufffd".encode() + b"\x80" + "\ufffd".encode()


def test_counts_keep_line_ends_and_invalid_bytes(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\r\nb\xff\xfe \xc3\xa9\xc3")
    assert count_pretokens(path, []) == {
        b"a": 1, b"\r": 1, b"\n": 1, b"b": 1, b"\xff\xfe": 1, b" \xc3\xa9": 1, b"\xc3": 1,
    }  # fmt: skip


def test_special_tokens_are_boundaries_and_not_counted(tmp_path):
    path = tmp_path / "text"
    path.write_text(f"ab{EOT}cd{EOT}{EOT}ef <|end")
    counts = count_pretokens(path, [EOT, EOT + EOT])
    assert counts == {b"ab": 1, b"cd": 1, b"ef": 1, b" <|": 1, b"end": 1}


def test_of_overlapping_special_tokens_the_longest_wins():
    assert pieces("xaab aa", ["aa", "aab"]) == ["x", "aab", " ", "aa"]


@pytest.mark.parametrize("block_bytes", [64, 1000])
@pytest.mark.parametrize("special_tokens", [[], [EOT], SPECIALS])
def test_counts_do_not_depend_on_workers_or_blocks(
    tmp_path, monkeypatch, special_tokens, block_bytes
):
    path = tmp_path / "text"
    words = "".join(AWKWARD * 3).encode("utf-8", "replace") + b"\xff\xe4 caf\xc3\xa9 \r\n"
    path.write_bytes(b"".join(words[i % 50 :] for i in range(100)))
    whole = Counter(
        text_to_bytes(piece)
        for piece in pieces("".join(read_text(path)), special_tokens)
        if piece not in special_tokens
    )
    monkeypatch.setattr(block_module, "PIECE_BYTES", block_bytes)
    monkeypatch.setattr(counting, "MAX_BLOCK_BYTES", 3 * block_bytes)
    for workers in (1, 2, 3):
        assert count_pretokens(path, special_tokens, workers) == whole


def test_progress_ends_at_the_size_of_the_file(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_bytes(b"some words\r\n" * 100_000)
    monkeypatch.setattr(counting, "MAX_BLOCK_BYTES", 100_000)
    seen = []
    count_pretokens(path, [], 1, seen.append)
    assert [report.total for report in seen] == [1_200_000] * len(seen)
    assert seen[-1].done == 1_200_000
    assert all(earlier.done < later.done for earlier, later in pairwise(seen))
    assert seen[-1].remaining_s == 0
    assert seen[-1].rate > 0


@pytest.mark.parametrize(
    ("special_tokens", "error"),
    [
        ([""], ValueError),
        (["a", "b", "a"], ValueError),
        (["\udc80"], ValueError),
        ("abc", TypeError),
        ([b"abc"], TypeError),
    ],
)
def test_impossible_special_tokens_are_refused(special_tokens, error):
    with pytest.raises(error):
        check_special_tokens(special_tokens)


def test_files_without_text_are_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        count_pretokens(tmp_path / "empty", [])
    with pytest.raises(FileNotFoundError):
        count_pretokens(tmp_path / "missing", [])
    with pytest.raises(IsADirectoryError):
        count_pretokens(tmp_path, [])


@pytest.mark.parametrize("num_workers", [1, 2])
def test_tasks_are_drawn_only_a_little_ahead(num_workers):
    drawn = []
    results = map_in_order(abs, (drawn.append(i) or -i for i in range(100)), num_workers)
    taken = [next(results) for _ in range(10)]
    assert taken == list(range(10))
    assert len(drawn) <= 10 + 2 * num_workers + 1
    assert list(accumulate(results, max)) == list(range(10, 100))


def test_an_error_in_a_worker_reaches_the_caller():
    with pytest.raises(TypeError):
        list(map_in_order(abs, ["not a number"] * 3, 2))


def test_number_of_workers_follows_the_text_unless_given():
    assert default_num_workers(None, 1000) == 1
    assert default_num_workers(3, 1000) == 3
    assert default_num_workers(None, 10**12) >= 1
    with pytest.raises(ValueError, match="num_workers=0"):
        default_num_workers(0, 1000)
