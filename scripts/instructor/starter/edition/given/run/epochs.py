"""Batches that read a text from end to end: not in the student edition."""

from typing import Any, NoReturn


def epoch_batch(*_: Any) -> NoReturn:  # noqa: ANN401  as the real one's
    """Refuse.

    Raises:
        ValueError: Always.
    """
    raise ValueError("order=epochs: the student edition draws batches with get_batch only, random")
