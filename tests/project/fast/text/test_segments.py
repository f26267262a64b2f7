"""Numbered segments: their texts are the text, cut where no token crosses."""

import pytest

from cs_basics.fast.text import segments
from cs_basics.fast.text.segments import SegmentTable


def texts_of(table, data):
    """Texts of the segments; new ones are as they are promised to be."""
    num_known = len(table.texts)
    numbers = table.number(data).tolist()
    texts = [text.decode("utf-8", "surrogateescape") for text in table.texts]
    new = texts[num_known:]
    assert all(text.startswith(" ") for text in new[1:])
    assert not any(text[-1:].isspace() for text in new[:-1])
    return [texts[number] for number in numbers]


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
