"""Finds pieces of the validation text in texts that should not have them.

A piece is PIECE_BYTES bytes at any place of the validation text that the training text does not
have: stories of one author, or of one grammar, share many pieces honestly, and these do not count.
"""

import numpy as np
import numpy.typing as npt

PIECE_BYTES = 32
_BASE = np.uint64(0x9E3779B97F4A7C15)
Hashes = npt.NDArray[np.uint64]


class Overlap:
    """Finds the pieces of a validation text in other texts.

    Args:
        valid: The validation text.
        train: The training text, whose pieces everybody may have.
    """

    def __init__(self, valid: bytes, train: bytes) -> None:
        self.own = np.setdiff1d(pieces(valid), pieces(train))

    def share(self, text: bytes) -> float:
        """Return the share of the validation text's own pieces that stand in a text."""
        return self.count(text) / max(1, len(self.own))

    def count(self, text: bytes) -> int:
        """Return how many of the validation text's own pieces stand in a text."""
        return len(np.intersect1d(self.own, pieces(text)))


def pieces(text: bytes) -> Hashes:
    """Return the hash of the piece that begins at each byte, without repetitions."""
    count = len(text) - PIECE_BYTES + 1
    if count <= 0:
        return np.empty(0, np.uint64)
    # The byte plus one, so that a piece of zeros has another hash than a shorter one.
    values = np.frombuffer(text, np.uint8).astype(np.uint64) + np.uint64(1)
    hashes = np.zeros(count, np.uint64)
    for place in range(PIECE_BYTES):
        # Modulo 2^64: two different pieces collide with probability about 2^-64.
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _BASE + values[place : place + count]
    return np.unique(hashes)
