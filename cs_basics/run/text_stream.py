"""Streaming detokenization: text never ends within a character or within a stop string."""

from collections.abc import Collection

from cs_basics.tokenizer import Tokenizer


class TextStream:
    """The text of one sequence, returned as soon as no later token can change it.

    An incomplete character at the end, or the beginning of a stop string, is held back until the
    next token.

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
        self._tokenizer, self._stop_strings = tokenizer, stop_strings
        self._ids: list[int] = []  # since the last complete character
        self._num_taken = 0  # characters of their text returned so far
        self._waiting = ""

    def push(self, token_id: int) -> str:
        """Add a token and return the new text that is certain; "" after a stop string."""
        if self.is_finished:
            return ""
        self._ids.append(token_id)
        text = self._tokenizer.decode(self._ids)
        # U+FFFD at the end may be an incomplete character.
        settled = text.removesuffix("\ufffd")
        self._waiting += settled[self._num_taken :]
        self._num_taken = len(settled)
        if settled == text:
            self._ids, self._num_taken = [], 0
        return self._certain()

    def close(self) -> str:
        """Return the text that was held back, when no token follows."""
        if self.is_finished:
            return ""
        self._waiting += self._tokenizer.decode(self._ids)[self._num_taken :]
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
