"""Batches: what the examination leaves open, the order of bytes and what is refused."""

import numpy as np
import pytest

from cs_basics.data import get_batch


def test_the_order_of_bytes_of_a_dataset_does_not_matter():
    x, y = get_batch(np.array([5, 6, 700], dtype=">u2"), 2, 2, "cpu")
    assert x.tolist() == [[5, 6]] * 2
    assert y.tolist() == [[6, 700]] * 2


@pytest.mark.parametrize(
    ("dataset", "batch_size", "context_length", "error", "message"),
    [
        (np.arange(5), 2, 5, ValueError, "5 tokens, but context_length=5 needs at least 6"),
        (np.arange(5), 0, 2, ValueError, "batch_size=0"),
        (np.arange(5), 2, 0, ValueError, "context_length=0"),
        (np.zeros((3, 3), int), 2, 1, ValueError, r"\(3, 3\)"),
        (np.arange(5.0), 2, 2, TypeError, "float64|dataset"),
    ],
)
def test_impossible_batches_are_refused(dataset, batch_size, context_length, error, message):
    with pytest.raises(error, match=message):
        get_batch(dataset, batch_size, context_length, "cpu")
