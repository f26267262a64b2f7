"""Boundaries: found in any window, and near (that no token crosses one: the files beside this)."""

import pytest
from awkward import EOT

from cs_basics.fast.text import boundaries
from cs_basics.fast.text.boundaries import next_boundary
from cs_basics.pretokenize import PRETOKEN


@pytest.mark.parametrize("window_bytes", range(9, 17))
@pytest.mark.parametrize(
    "text", ["a" + "\u4e2d" * 12, "a\u3000 b" * 6, "\u3000" * 9 + " b", "\U0001f642\xa0 " * 6]
)
def test_a_window_that_begins_or_ends_in_a_character_changes_no_cut(
    text, window_bytes, monkeypatch
):
    monkeypatch.setattr(boundaries, "_WINDOW_BYTES", window_bytes)
    data, whole = text.encode(), PRETOKEN.findall(text)
    for at in range(len(data) + 1):
        place = next_boundary(data, at, [])
        parts = [part.decode("utf-8", "surrogateescape") for part in (data[:place], data[place:])]
        assert [token for part in parts for token in PRETOKEN.findall(part)] == whole


def test_the_next_boundary_is_near():
    data = ("word " * 10_000 + EOT + "\u4e2d\u6587\u3002" * 10_000).encode()
    places = [next_boundary(data, at, [EOT.encode()]) - at for at in range(1, len(data) - 20, 997)]
    assert max(places) < 16
