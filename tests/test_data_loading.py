"""Random batches from a long row of tokens."""

import numpy as np
import pytest
from compare import expect, expect_tensor
from probes.training import batches, mapped_batch, refused_batch

pytestmark = pytest.mark.problem("data_loading")

NAME = "run_get_batch"


def check_windows(seen, dataset, batch_size, context_length):
    """Check shape and dtype of x and y, and that both are windows, y one token later."""
    windows = {
        tuple(dataset[start : start + context_length + 1].tolist())
        for start in range(len(dataset) - context_length)
    }
    for x, y in zip(seen["x"], seen["y"], strict=True):
        for which, observed in (("x", x), ("y", y)):
            expect_tensor(observed, (batch_size, context_length), f"{NAME} ({which})", ["int64"])
        for row, (left, right) in enumerate(zip(x["values"], y["values"], strict=True)):
            window = (*left.tolist(), int(right[-1]))
            expect(
                left[1:].tolist() == right[:-1].tolist(),
                f"{NAME}: y is not x one token later in row {row}: x = {left}, y = {right}"
                + (
                    "\n  This is what comes out when y is not shifted."
                    if (left == right).all()
                    else ""
                ),
                "y-is-not-shifted" if (left == right).all() else None,
            )
            expect(window in windows, f"{NAME}: row {row} is no window of the dataset: {window}")


@pytest.mark.parametrize(("batch_size", "context_length"), [(1, 1), (4, 7), (16, 3)])
def test_batch_is_windows_and_the_same_one_token_later(observe, rng, batch_size, context_length):
    dataset = rng.integers(0, 1000, 60)
    seen = observe(
        batches, dataset=dataset, batch_size=batch_size, context_length=context_length, calls=4
    )
    check_windows(seen, dataset, batch_size, context_length)
    expect(not seen["changed"], f"{NAME} changed the dataset")


@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64", "uint8"])
def test_batch_is_int64_whatever_the_dataset_is(observe, rng, dtype):
    dataset = rng.integers(0, np.iinfo(dtype).max, 40, dtype=dtype, endpoint=True)
    dataset[::3] = np.iinfo(dtype).max
    seen = observe(batches, dataset=dataset, batch_size=8, context_length=5)
    check_windows(seen, dataset, 8, 5)


def test_batch_comes_from_a_memory_map(observe, rng):
    dataset = rng.integers(0, 2**16, 50).astype(np.uint16)
    seen = observe(mapped_batch, dataset=dataset, batch_size=4, context_length=6)
    check_windows({"x": [seen["x"]], "y": [seen["y"]]}, dataset, 4, 6)


@pytest.mark.parametrize("num_starts", [1, 2, 5])
def test_batch_starts_anywhere_that_leaves_room(observe, num_starts):
    context_length = 4
    dataset = np.arange(context_length + num_starts)
    seen = observe(batches, dataset=dataset, batch_size=50, context_length=context_length, calls=4)
    check_windows(seen, dataset, 50, context_length)
    starts = {int(row[0]) for x in seen["x"] for row in x["values"]}
    missing = sorted(set(range(num_starts)) - starts)
    # A start is missed by 200 fair draws with probability 0.8^200 = 4e-20.
    expect(
        not missing,
        f"{NAME} never starts at {missing} of a dataset of {len(dataset)} tokens with"
        f" context_length {context_length}; starts 0 to {num_starts - 1} must be possible."
        + (" The last start is left out." if missing == [num_starts - 1] else ""),
        "the-last-start-is-left-out" if missing == [num_starts - 1] else None,
    )


def test_batch_starts_are_equally_likely(observe):
    seen = observe(batches, dataset=np.arange(14), batch_size=500, context_length=4, calls=4)
    check_windows(seen, np.arange(14), 500, 4)
    starts = np.concatenate([x["values"][:, 0] for x in seen["x"]])
    counts = np.bincount(starts, minlength=10)
    # 200 each on average, standard deviation 13.4: beyond 6 of those lies 1 run in 10^7.
    expect(
        bool(np.all(np.abs(counts - 200) < 80)),
        f"{NAME}: of 2000 rows, starts 0 to 9 were drawn {counts.tolist()} times, expected about"
        " 200 each",
    )


def test_batch_rows_and_calls_differ(observe):
    seen = observe(batches, dataset=np.arange(10000), batch_size=8, context_length=4, calls=3)
    check_windows(seen, np.arange(10000), 8, 4)
    rows = [x["values"][:, 0].tolist() for x in seen["x"]]
    expect(len(set(rows[0])) > 1, f"{NAME}: all rows of a batch start at {rows[0][0]}")
    expect(rows[0] != rows[1], f"{NAME} returns the same batch at every call: draw a new one")


def test_batch_starts_are_drawn_one_by_one(observe):
    seen = observe(batches, dataset=np.arange(10000), batch_size=8, context_length=4)
    check_windows(seen, np.arange(10000), 8, 4)
    starts = seen["x"][0]["values"][:, 0]
    expect(
        len(set(np.diff(starts).tolist())) > 1,
        f"{NAME}: the rows of a batch lie side by side ({starts.tolist()}): draw each start",
    )


def test_batch_goes_to_the_given_device(observe):
    # No machine has a hundred GPUs: code that looks at `device` cannot but complain.
    raised = observe(refused_batch, dataset=np.arange(50), context_length=4, device="cuda:99")
    expect(
        raised != "",
        f"{NAME} ignores device: it took 'cuda:99', which does not exist",
        "device-is-ignored",
    )


def test_batch_refuses_a_dataset_without_a_whole_window(observe):
    raised = observe(refused_batch, dataset=np.arange(8), context_length=8)
    expect(raised != "", f"{NAME} took a dataset of 8 tokens for context_length 8 without an error")
