"""Batches: windows and what follows them, sampled without a bias."""

import numpy as np
import pytest
import torch

from cs_basics.data import get_batch


def test_targets_are_the_inputs_shifted_by_one():
    x, y = get_batch(np.arange(100, 200, dtype=np.uint16), 64, 7, "cpu")
    assert x.shape == y.shape == (64, 7)
    assert x.dtype == y.dtype == torch.int64
    assert torch.equal(y, x + 1)
    assert torch.equal(x, x[:, :1] + torch.arange(7))


def test_every_start_is_drawn_equally_often():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x, y = get_batch(np.arange(10), 70_000, 3, "cpu")
    draws = torch.bincount(x[:, 0], minlength=10)
    # Seven starts, 0 to 6; five standard deviations of a binomial around 10,000.
    assert draws[7:].sum() == 0
    assert ((draws[:7] - 10_000).abs() < 5 * 93).all()
    assert y.max() == 9


def test_shortest_possible_dataset_gives_its_only_window():
    x, y = get_batch(np.array([5, 6, 7]), 2, 2, "cpu")
    assert x.tolist() == [[5, 6]] * 2
    assert y.tolist() == [[6, 7]] * 2


@pytest.mark.parametrize("dtype", ["uint8", "<u2", ">u2", "uint32", "int16", "int64"])
def test_any_integer_type_will_do(dtype):
    data = np.arange(50).astype(dtype)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        x, _ = get_batch(data, 8, 4, "cpu")
        torch.manual_seed(1)
        expected, _ = get_batch(np.arange(50), 8, 4, "cpu")
    assert torch.equal(x, expected)


def test_a_memory_map_is_a_dataset(tmp_path):
    np.arange(200, dtype=np.uint16).tofile(tmp_path / "tokens")
    x, y = get_batch(np.memmap(tmp_path / "tokens", np.uint16, "r"), 16, 20, "cpu")
    assert torch.equal(y, x + 1)
    assert x.max() > 20


def test_global_seed_decides_the_batch():
    data = np.arange(1000)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        first = get_batch(data, 8, 4, "cpu")[0]
        second = get_batch(data, 8, 4, "cpu")[0]
        torch.manual_seed(3)
        again = get_batch(data, 8, 4, "cpu")[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("dataset", "batch_size", "context_length", "error", "message"),
    [
        (np.arange(5), 2, 5, ValueError, "5 tokens, but context_length=5 needs at least 6"),
        (np.arange(0), 2, 1, ValueError, "0 tokens"),
        (np.arange(5), 0, 2, ValueError, "batch_size=0"),
        (np.arange(5), 2, 0, ValueError, "context_length=0"),
        (np.zeros((3, 3), int), 2, 1, ValueError, r"\(3, 3\)"),
        (np.arange(5.0), 2, 2, TypeError, "float64|dataset"),
    ],
)
def test_impossible_batches_are_refused(dataset, batch_size, context_length, error, message):
    with pytest.raises(error, match=message):
        get_batch(dataset, batch_size, context_length, "cpu")


def test_bad_devices_raise_the_error_of_torch():
    with pytest.raises(RuntimeError, match="bogus"):
        get_batch(np.arange(9), 2, 2, "bogus")
    with pytest.raises((RuntimeError, AssertionError), match=r"CUDA error|CUDA enabled|NVIDIA"):
        get_batch(np.arange(9), 2, 2, "cuda:99")
