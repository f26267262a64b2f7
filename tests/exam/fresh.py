"""Other letters for hidden inputs: the same difficulties in a text that nobody has seen.

At home a text is what its test says. In an item on hidden inputs letters and digits change places,
by one rule for text, special tokens, vocabulary and merges; those of contractions ('s, 'll) stay.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

CHANGING = (b"abcfghijknopquwxyz", b"ABCFGHIJKNOPQUWXYZ", b"0123456789")
WORD = b"bcfghkp"


class Fresh:
    """What replaces what, drawn from a seed.

    Args:
        seed: None: everything stays as it is.
    """

    def __init__(self, seed: Sequence[int] | None = None) -> None:
        self.table = bytes(range(256))
        self.word = b""
        self.scale = 1.0
        if seed is not None:
            rng = np.random.default_rng([*seed, 1])
            for letters in CHANGING:
                others = bytes(rng.permutation(list(letters)).tolist())
                self.table = self.table.translate(bytes.maketrans(letters, others))
            self.word = bytes(rng.choice(list(WORD), 3).tolist())
            self.scale = float(rng.uniform(0.5, 2.0))

    def piece(self, data: bytes) -> bytes:
        """Part of a text: a token, one side of a merge."""
        return data.translate(self.table)

    def data(self, data: bytes) -> bytes:
        """A whole text; a word is put before one that has no letter to change."""
        is_drawn = not data or any(byte in letters for byte in data for letters in CHANGING)
        return self.piece(data) if is_drawn else self.word + data

    def text(self, text: str) -> str:
        """A whole text."""
        return self.data(text.encode()).decode()

    def special(self, special: str) -> str:
        """A special token."""
        return self.piece(special.encode()).decode()

    def ids(self, row: Sequence[int]) -> list[int]:
        """A row of ids, of which those below 256 are bytes."""
        return [*self.word, *row]

    def tokenizer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of get_tokenizer."""
        specials = given["special_tokens"]
        return {
            "vocab": {token: self.piece(piece) for token, piece in given["vocab"].items()},
            "merges": [(self.piece(left), self.piece(right)) for left, right in given["merges"]],
            "special_tokens": None if specials is None else [*map(self.special, specials)],
        }

    def rates(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a schedule: all learning rates larger or smaller by one factor."""
        return {
            name: value * self.scale if name.endswith("learning_rate") else value
            for name, value in given.items()
        }
