"""Odd texts are warned of, and what cannot be trained on is refused, before any preparation."""

import gzip
import json
import subprocess

import pytest

from cs_basics.run import look
from cs_basics.run.look import look_at_text, shared

END = "<|endoftext|>"
STORY = f"Once upon a time there was a cat.\nIt sat on the mat.\n{END}\n"


def story(number):
    """A story that has hardly a window in common with another one."""
    words = [f"{number * 7919 * place % 100_003:x}" for place in range(1, 120)]
    return f"{' '.join(words)}.\n{END}\n"


@pytest.fixture
def said(tmp_path, caplog):
    """Look at a text, given as bytes; return what is said."""

    def look(content, **given):
        path = tmp_path / "text.txt"
        path.write_bytes(content)
        look_at_text(path, **given)
        return caplog.text

    return look


ODD = {
    "Latin-1": (
        STORY.replace("cat", "p\xe2t\xe9").encode("latin-1"),
        "byte 30 is not UTF-8 (iconv -f LATIN1",
    ),
    "NUL": (STORY.encode() + b"\0\0\0", "byte 67 is NUL (tr -d"),
    "no end of a story": (b"One story.\nAnother.\n", f"no {END}: stories never end"),
    "CRLF": (STORY.replace("\n", "\r\n").encode(), "lines end with CRLF"),
    "byte-order mark": (STORY.encode("utf-8-sig"), "tail -c +4 {text} > {text}.txt removes it"),
    "half a character": (STORY.encode() + b"\xe2\x82", "byte 67 is not UTF-8"),
    "JSON Lines": (
        f"{json.dumps({'id': 'a', 'story': STORY})}\n".encode() * 3,
        f"jq -r '.story, \"{END}\"' {{text}} > {{text}}.txt takes the",
    ),
    "a word": (
        b"cat\n" * 9_999 + b"ACGT" * 75_000 + STORY.encode(),
        "a word of 300,004 bytes, fro",
    ),
}


@pytest.mark.parametrize("place", range(6))
def test_a_character_may_lie_across_two_blocks(said, monkeypatch, place):
    monkeypatch.setattr(look, "BLOCK_BYTES", 4)
    assert said(f"{'.' * place}\u20ac\u20ac{END}".encode()) == ""
    assert f"byte {place + 3} is not UTF-8" in said(b"." * place + b"\xe2\x82\xac\xe2\x82")


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_said_in_one_line(said, tmp_path, name):
    content, words = ODD[name]
    told = said(content)
    assert words.replace("{text}", str(tmp_path / "text.txt")) in told
    assert told.count("warning: ") == 1


ORDINARY = {
    "long lines, short words": f"\n{'cat,' * 15_000}\n{'a1' * 15_000}" * 20 + END,
    "one JSON object": f'{{"a": "b"}}\na cat\n{END}\n',
    "plain": STORY,
    "pieces that begin and end within characters": "\u6bcd \u00e9t\u00e9\n" * 120_000 + END,
    "mixed line ends": f"a\nb\r\n{END}",
}


@pytest.mark.parametrize("name", ORDINARY)
def test_nothing_is_said_of_an_ordinary_text(said, name):
    assert said(ORDINARY[name].encode()) == ""


def test_special_tokens_of_one_s_own_separate_stories_too(said):
    assert said(b"a<s>b\n", special_tokens=("<t>", "<s>")) == ""
    assert said(b"ab\n", special_tokens=()) == ""


REFUSED = {
    **{
        f"text in {name}": (
            STORY.encode(name),
            rf"is binary .* text in UTF-8; if it is text in {name}, .*iconv -f {name} -t UTF-8",
        )
        for name in ("UTF-16", "UTF-16BE", "UTF-16LE")
    },
    "other binary data": (bytes(range(16)) * 99, "is binary and has to be text in UTF-8"),
    "gzip": (gzip.compress(STORY.encode(), mtime=0), "is gzip, not text; this makes"),
    "zip": (b"PK\3\4rest", "is a zip archive, not text"),
    "Parquet": (b"PAR1rest", "is Parquet, not text"),
    "NumPy": (b"\x93NUMPYrest", "is an array of NumPy, not text"),
    "blanks": (b" \n\t" * 9, "holds nothing but blanks"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_text_is_refused_with_what_makes_one_of_it(said, name):
    content, words = REFUSED[name]
    with pytest.raises(ValueError, match=rf"text\.txt {words}"):
        said(content)


def test_the_command_that_unpacks_can_be_pasted(tmp_path):
    packed = tmp_path / "my text.txt.gz"
    packed.write_bytes(gzip.compress(STORY.encode()))
    with pytest.raises(ValueError, match="makes a text of it: ") as caught:
        look_at_text(packed)
    subprocess.run(str(caught.value).partition("text of it: ")[2], shell=True, check=True)
    assert packed.with_suffix("").read_text() == STORY


@pytest.mark.parametrize("num_leaked", [0, 50])
@pytest.mark.parametrize("block_bytes", [1 << 20, 999])
def test_the_share_of_validation_text_in_the_training_text_is_that_share(
    said, tmp_path, monkeypatch, num_leaked, block_bytes
):
    monkeypatch.setattr(look, "BLOCK_BYTES", block_bytes)
    train = tmp_path / "train.txt"
    stories = [story(number) for number in range(1, 201)]
    train.write_text("".join([*map(story, range(300, 900)), *stories[:num_leaked]]))
    told = said("".join(stories).encode(), train=train)
    assert shared(tmp_path / "text.txt", train) == pytest.approx(num_leaked / 200, abs=0.03)
    assert ("of what follows its line ends stands in" in told) == (num_leaked > 0)
