"""Streaming detokenization: text never ends within a character or within a stop string."""

import codecs
from collections.abc import Collection

from cs_basics.tokenizer import Tokenizer

NO_TOKEN = "\ufffd".encode()


class TextStream:
    """The text of one sequence, returned as soon as no later token can change it.

    An incomplete character at the end, or the beginning of a stop string, is held back until the
    next token. An id without a token is written as U+FFFD, as are bytes that are not UTF-8.

    Args:
        tokenizer: The tokenizer of the tokens.
        stop_strings: The text ends before the first of these, even if it spans several tokens.

    Raises:
        ValueError: A stop string is empty.
    """

    def __init__(self, tokenizer: Tokenizer, stop_strings: Collection[str] = ()) -> None:
        if "" in stop_strings:
            raise ValueError("a stop string is empty: every text would end before it begins")
        self.is_finished = False
        self._vocab, self._stop_strings = tokenizer.vocab, stop_strings
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = ""

    def push(self, token_id: int) -> str:
        """Add a token and return the new text that is certain; "" after a stop string."""
        if self.is_finished:
            return ""
        self._waiting += self._decoder.decode(self._vocab.get(token_id, NO_TOKEN))
        return self._certain()

    def close(self) -> str:
        """Return the text that was held back, when no token follows."""
        if self.is_finished:
            return ""
        self._waiting += self._decoder.decode(b"", final=True)
        rest = self._certain() + self._waiting
        self.is_finished, self._waiting = True, ""
        return rest

    def _certain(self) -> str:
        text = self._waiting
        ends = [end for stop in self._stop_strings if (end := text.find(stop)) >= 0]
        if ends:
            self.is_finished, self._waiting = True, ""
            return text[: min(ends)]
        begun = max((_overlap(text, stop) for stop in self._stop_strings), default=0)
        self._waiting = text[len(text) - begun :]
        return text[: len(text) - begun]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of the text that is a prefix of the stop string."""
    return next(
        (length for length in range(len(stop) - 1, 0, -1) if text.endswith(stop[:length])), 0
    )
