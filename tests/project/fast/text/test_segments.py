"""Numbered segments: their texts are the text, cut where no token crosses."""

import pytest
from awkward import awkward_bytes
from hypothesis import given
from hypothesis import strategies as st

from cs_basics.fast.text import segments
from cs_basics.fast.text.segments import SegmentTable
from cs_basics.pretokenize import PRETOKEN


def texts_of(table, data):
    """Texts of the segments; new ones are as they are promised to be."""
    num_known = len(table.texts)
    numbers = table.number(data).tolist()
    texts = [text.decode("utf-8", "surrogateescape") for text in table.texts]
    new = texts[num_known:]
    assert all(text.startswith(" ") for text in new[1:])
    assert not any(text[-1:].isspace() for text in new[:-1])
    return [texts[number] for number in numbers]


@pytest.mark.parametrize("slot_bits", [2, 18])
@given(st.lists(awkward_bytes, min_size=1, max_size=6))
def test_texts_of_the_numbers_are_the_text_and_share_no_pretoken(slot_bits, blocks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "_SLOT_BITS", slot_bits)
        table = SegmentTable()
        for data in blocks * 2:  # the second time all are known
            text = data.decode("utf-8", "surrogateescape")
            found = texts_of(table, data)
            assert "".join(found) == text
            each = [pretoken for part in found for pretoken in PRETOKEN.findall(part)]
            assert each == PRETOKEN.findall(text)


@pytest.mark.parametrize("slot_bits", [1, 18])
@pytest.mark.parametrize("size", range(1, 20))
def test_segments_that_differ_in_one_byte_or_in_length_are_told_apart(size, slot_bits, monkeypatch):
    monkeypatch.setattr(segments, "_SLOT_BITS", slot_bits)
    words = [b"a" * size, b"a" * (size + 1), b"a" * size + b"\0", b"b" + b"a" * (size - 1)]
    words += [b"a" * (size - 1) + b"\x01", b"a" * (size - 1) + b"\xc3\xa9"]
    data = b" ".join([b"x", *words, *words, *reversed(words), b"x"])
    table = SegmentTable()
    for _ in range(2):
        assert "".join(texts_of(table, data)).encode("utf-8", "surrogateescape") == data


def test_equal_segments_have_one_number():
    table = SegmentTable()
    numbers = table.number(b"x one two one two x").tolist()
    assert numbers[1:5] == numbers[1:3] * 2
    again = table.number(b"x two one x").tolist()
    assert again[1:3] == [numbers[2], numbers[1]]
    assert len(table.texts) == len(set(table.texts))


@pytest.mark.parametrize("space", ["\n", "\t", "\u3000", "\xa0", "\x1c"])
def test_what_follows_white_space_is_not_cut_off(space):
    table = SegmentTable()
    for _ in range(2):
        assert texts_of(table, f"x a{space} b c".encode()) == ["x", f" a{space} b", "", " c"]


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        ("x one two", "one one two", ["one", " one", " two"]),  # known with a space before it
        ("", "x a    b c", ["x", " a", "    b", "", "", "", " c"]),
        ("x end\n", "x end\n a", ["x", " end\n a", ""]),  # an open end is no segment of the next
        ("x b x", "x a\n b c", ["x", " a\n b", "", " c"]),  # a known one belongs to an open one
    ],
)
def test_a_segment_is_cut_off_where_nothing_before_or_after_belongs_to_it(first, second, texts):
    table = SegmentTable()
    texts_of(table, first.encode())
    assert texts_of(table, second.encode()) == texts


def test_a_full_table_says_so_and_begins_anew(monkeypatch):
    monkeypatch.setattr(segments, "MAX_TEXTS", 10)
    table = SegmentTable()
    table.number(b" ".join(b"%d" % i for i in range(12)))
    assert table.is_full
    table.clear()
    assert not table.is_full
    assert texts_of(table, b"3 4 5") == ["3", " 4", " 5"]
    monkeypatch.setattr(segments, "MAX_BYTES", 3)
    assert table.is_full
