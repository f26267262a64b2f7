"""Text that splits in surprising ways, for tests of whatever cuts it."""

from hypothesis import strategies as st

from cs_basics.bpe import train_bpe
from cs_basics.pretokenize import PRETOKEN, special_pattern

EOT = "<|endoftext|>"
# What the pattern treats differently, and what special tokens are made of.
AWKWARD = ["a", "b", "l", "'", "'ll", "'s", " ", "  ", "   ", "\n", "\n ", "\r\n", "\t", "1", "!"]
AWKWARD += ["\xe9", "\x85", "\xa0", "\u4e2d", "\u3002", "\u3000", "\u0301", "\U0001f642", "\0"]
AWKWARD += ["\x1c", "\x1f", "\u2028", EOT, "<|endof", "text|>", "aa", " word", "exceptionally-long"]

awkward_text = st.lists(st.sampled_from(AWKWARD), max_size=40).map("".join) | st.text(max_size=30)
# Also bytes that are no text, and parts of characters.
awkward_bytes = (
    awkward_text.map(lambda text: text.encode("utf-8", "replace"))
    | st.binary(max_size=60)
    | st.lists(st.sampled_from([b" ", b"\xe4", b"\xb8", b"\xad", b"\xff", b"a", b"\xc3\xa9"]))
    .map(b"".join)
)  # fmt: skip
closed_specials = st.lists(
    st.sampled_from([EOT, EOT + EOT, "aa", "aab", "'l", "\n", "\u4e2d\u3002"]), unique=True
)
SPECIALS = [EOT, EOT + EOT, "aa", "aab", " \n", "a b", "'l"]
all_specials = st.lists(st.sampled_from(SPECIALS), unique=True)


TEXT = (
    "#the cat's hat, # the caf\u00e9; we'll see 1984 \u4e2d\u6587 \U0001f642\r\n\r\n  end #version"
)
CLOSED = [EOT, EOT + EOT, "\u4e2d\u6587", "'l", "#"]  # without a space
OPEN = [*CLOSED, "<a b>\n", "\u00e9 \u0120"]
_PIECES = [*OPEN, *TEXT, "<|endof", "text|>", "<a", " b>", "\n", "'", "'ll", "  "]


def texts_of(*others):
    """Texts of special tokens, of parts of them, of what the vocabulary of TEXT has, of others."""
    pieces = st.lists(st.sampled_from([*_PIECES, *others]), max_size=30).map("".join)
    return pieces | awkward_text


def train_on_text(folder):
    """Return a vocabulary and merges that lack most of the special tokens."""
    path = folder / "text"
    path.write_text((TEXT + EOT) * 3, newline="")
    return train_bpe(path, 300, [EOT])


def tokens_of(text, special_tokens):
    """Return special tokens and pre-tokens of a text, in order: the definition."""
    found = []
    for index, part in enumerate(special_pattern(special_tokens).split(text)):
        found += [part] if index % 2 else PRETOKEN.findall(part)
    return found
