"""Text that a submission had a hand in, made harmless to show: no control codes, no floods."""

import re

# Colours, cursor movements, titles (CSI, OSC and the other escape sequences of terminals).
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
# C0, DEL and C1; marks that turn the direction of text around or take no room; separators that
# only some programs take for the end of a line; lone surrogates and noncharacters.
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufdd0-\ufdef\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)

MESSAGE_CHARS = 2_000
OUTPUT_CHARS = 20_000
NAME_CHARS = 200


def plain(text: str, max_chars: int = MESSAGE_CHARS) -> str:
    """Return the text without control characters, its end cut off where it is too long.

    Args:
        text: Anything; lines may end in any way.
        max_chars: The most characters that are kept; what says that some are missing comes on top.
    """
    # What is cut here would be cut below too: at most a few characters in ten are dropped.
    kept = text[: 10 * max_chars]
    kept = kept.replace("\r\n", "\n").replace("\r", "\n")
    kept = _UNSHOWABLE.sub("", _ESCAPE_SEQUENCE.sub("", kept))
    missing = len(kept) - max_chars + max(0, len(text) - 10 * max_chars)
    if missing <= 0:
        return kept
    return f"{kept[:max_chars]} ... ({missing:,} more characters)"


def one_line(text: str, max_chars: int = NAME_CHARS) -> str:
    """The same, with every run of spaces and line ends as one space."""
    return " ".join(plain(text, max_chars).split())
