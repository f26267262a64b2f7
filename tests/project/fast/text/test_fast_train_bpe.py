"""Training on large texts: the vocabulary of the book (merges: book/test_bpe.py), and progress."""

from awkward import all_specials, awkward_bytes, closed_specials
from hypothesis import given
from hypothesis import strategies as st

from cs_basics import bpe
from cs_basics.fast.text import counting
from cs_basics.fast.text.train_bpe import train_bpe


@given(st.lists(awkward_bytes, min_size=1, max_size=4), all_specials | closed_specials)
def test_a_vocabulary_is_that_of_the_book(tmp_path_factory, parts, special_tokens):
    path = tmp_path_factory.mktemp("train") / "text"
    path.write_bytes(b"x" + b"".join(parts * 3))
    expected = bpe.train_bpe(path, 290, special_tokens)
    assert train_bpe(path, 290, special_tokens) == expected


def test_progress_of_both_stages_is_reported(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_text("".join(f"w{i:04} " for i in range(2000)))
    monkeypatch.setattr(counting, "MIN_BLOCK_BYTES", 7_001)
    monkeypatch.setattr(counting, "MAX_BLOCK_BYTES", 7_001)
    seen = []
    train_bpe(path, 256 + 100, [], on_progress=lambda *values: seen.append(values))
    assert seen == [
        *(("counting pre-tokens", "bytes", done, 12_000) for done in (0, 7_001, 12_000)),
        ("merging", "merges", 0, 100),
        ("merging", "merges", 64, 100),
        ("merging", "merges", 100, 100),
    ]
