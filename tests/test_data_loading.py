"""Random batches from a long row of tokens."""

import numpy as np
import pytest
from compare import expect, expect_tensor, fail, id_of, noting, sentence
from probes.training import (
    batch_devices,
    batches,
    mapped_batch,
    pages_of_a_batch,
    refused_batch,
)

NAME = "run_get_batch"


def windows_of(dataset, length, later=0):
    """All windows of a length, each as a tuple; `later` leaves out that many at the start."""
    return [
        tuple(dataset[start : start + length].tolist())
        for start in range(later, len(dataset) - length + 1)
    ]


def check_windows(seen, dataset, batch_size, context_length, dtypes=()):
    """Check the shape of x and y, and that both are windows, y one token later.

    Any dtype will do where none is asked for.
    """
    both = windows_of(dataset, context_length + 1)
    right = {(window[:-1], window[1:]) for window in both}
    for x, y in zip(seen["x"], seen["y"], strict=True):
        for which, observed in (("x", x), ("y", y)):
            kinds = dtypes or [observed["dtype"]]
            expect_tensor(observed, (batch_size, context_length), f"{NAME} ({which})", kinds)
        rows = [
            (tuple(left.tolist()), tuple(target.tolist()))
            for left, target in zip(x["values"], y["values"], strict=True)
        ]
        wrong = [place for place, pair in enumerate(rows) if pair not in right]
        if not wrong:
            continue
        left, target = rows[wrong[0]]
        causes = [
            what for what, pairs in mistakes(dataset, context_length).items() if set(rows) <= pairs
        ]
        causes = causes if len(causes) == 1 and batch_size * context_length > 2 else []
        fail(
            f"{NAME}: {len(wrong)} of {batch_size} rows of x and y are not a window of the dataset"
            f" and the same window one token later\n  first in row {wrong[0]}: x = {list(left)},"
            f" y = {list(target)}\n  {sentence(causes) or each_alone(rows, dataset)}",
            id_of(causes[0]) if causes else None,
        )


def each_alone(rows, dataset):
    """Say of x and y by themselves whether they are windows."""
    windows = set(windows_of(dataset, len(rows[0][0])))
    x_is, y_is = (all(row[place] in windows for row in rows) for place in (0, 1))
    if x_is and y_is:
        return "Each of the two is a window, but y does not begin one token after x."
    if not x_is and not y_is:
        return "Neither of the two is a window."
    return f"{'x' if x_is else 'y'} is a window, {'y' if x_is else 'x'} is none."


def mistakes(dataset, context_length):
    """All pairs of x and y that a mistake may return."""

    def pairs(tokens, shift):
        windows = windows_of(tokens, context_length)
        return set(zip(windows[max(-shift, 0) :], windows[max(shift, 0) :], strict=False))

    answers = {
        "y is not shifted": pairs(dataset, 0),
        "y is two tokens later": pairs(dataset, 2),
        "y is one token earlier (or x and y are swapped)": pairs(dataset, -1),
        "y is x rolled, so its last token is the first of x: take one token more": {
            (x, x[1:] + x[:1]) for x in windows_of(dataset, context_length)
        },
        "the dataset is sorted": pairs(np.sort(dataset), 1),
        "y is one token later than the end of x": pairs(dataset, context_length),
    }
    for narrow in ("int8", "uint8", "int16", "uint16", "int32", "float16"):
        with np.errstate(over="ignore"):
            passed = dataset.astype(narrow).astype(np.float64)
        if not np.array_equal(passed, dataset):
            answers[f"ids pass through {narrow}, which cannot hold them"] = pairs(passed, 1)
    return answers


@pytest.mark.parametrize(("batch_size", "context_length"), [(4, 7), (16, 3), (5, 8)])
def test_batch_is_windows_and_the_same_one_token_later(observe, rng, batch_size, context_length):
    examine(observe, rng, batch_size, context_length)


def examine(observe, rng, batch_size, context_length):
    # So long that a start beyond the end, which other items are about, is hardly ever drawn.
    dataset = rng.integers(0, 30_000, 3000)
    seen = observe(
        batches, dataset=dataset, batch_size=batch_size, context_length=context_length, calls=4
    )
    check_windows(seen, dataset, batch_size, context_length)
    return seen


@pytest.mark.parametrize(("batch_size", "context_length"), [(1, 7), (4, 1), (1, 1)])
def test_batch_may_have_one_row_or_one_token(observe, rng, batch_size, context_length):
    examine(observe, rng, 4, 7)
    with noting("with 4 rows of 7 tokens; one of either may be asked for"):
        examine(observe, rng, batch_size, context_length)


def test_batch_leaves_the_dataset_alone(observe, rng):
    changed = examine(observe, rng, 4, 7)["changed"]
    expect(not changed, f"{NAME} changed the dataset, which the next call still needs")


@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64", "uint8"])
def test_batch_is_int64_whatever_the_dataset_is(observe, rng, dtype):
    dataset = rng.integers(0, np.iinfo(dtype).max, 2000, dtype=dtype, endpoint=True)
    dataset[::3] = np.iinfo(dtype).max
    seen = observe(batches, dataset=dataset, batch_size=8, context_length=5)
    check_windows(seen, dataset, 8, 5, ["int64"])


def test_batch_comes_from_a_memory_map(observe, rng):
    dataset = rng.integers(0, 2**16, 2000).astype(np.uint16)
    seen = observe(mapped_batch, dataset=dataset, batch_size=4, context_length=6)
    check_windows({"x": [seen["x"]], "y": [seen["y"]]}, dataset, 4, 6)


def test_batch_reads_only_its_windows_of_a_memory_map(observe):
    megabytes = 64
    read = observe(pages_of_a_batch, megabytes=megabytes)
    if read is None:
        pytest.skip("this system does not tell which parts of a file a process has read")
    expect(
        read < megabytes / 2,
        f"{NAME} read {read:.0f} of {megabytes} MiB of a memory-mapped file for 2 windows of 4"
        " tokens: index the map first, and convert what comes out",
        "the-whole-file-is-read",
    )


def test_batch_reaches_past_what_a_token_can_count(observe):
    dataset = np.repeat(np.arange(2, dtype=np.uint8), 300)
    seen = observe(batches, dataset=dataset, batch_size=50, context_length=4)
    check_windows(seen, dataset, 50, 4)
    expect(
        seen["x"][0]["values"].any(),
        f"{NAME}: on a dataset of 600 tokens of uint8, none of 50 windows starts past token 299: do"
        " starts get the dtype of the dataset, which cannot count so far?",
        "starts-wrap-around",
    )


@pytest.mark.parametrize("num_starts", [9, 5, 2, 1])
def test_batch_starts_anywhere_that_leaves_room(observe, num_starts):
    context_length = 4
    dataset = np.arange(context_length + num_starts)
    how = {"batch_size": 50, "context_length": context_length, "calls": 8}
    with noting(
        f"on a dataset of 100000 tokens; this one has {len(dataset)}, so that starts 0 to"
        f" {num_starts - 1} leave room for a window and the token after it",
        control=lambda: observe(batches, dataset=np.arange(100_000), **{**how, "calls": 1}),
    ):
        seen = observe(batches, dataset=dataset, **how)
    check_windows(seen, dataset, 50, context_length)
    starts = {int(row[0]) for x in seen["x"] for row in x["values"]}
    missing = sorted(set(range(num_starts)) - starts)
    causes = {
        "the last start is left out": missing == [num_starts - 1],
        "the first start is left out": missing == [0],
        "the last context_length starts are left out": missing
        == list(range(num_starts - context_length, num_starts)),
        "starts are multiples of context_length": all(
            start % context_length == 0 for start in starts
        ),
    }
    # A single start that is left may have any of these causes.
    named = [what for what, fits in causes.items() if fits and len(starts) > 1]
    named = named if len(named) == 1 else []
    # A start is missed by 400 fair draws with probability 0.89^400 = 4e-21.
    if missing:
        fail(
            f"{NAME} never starts at {missing} of a dataset of {len(dataset)} tokens with"
            f" context_length {context_length}; starts 0 to {num_starts - 1} must be possible."
            f"\n  {sentence(named)}",
            id_of(named[0]) if named else None,
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


def test_batch_goes_to_the_given_device_as_a_whole(observe):
    devices = observe(batch_devices, dataset=np.arange(50), context_length=4)
    expect(
        set(devices) <= {"meta"},
        f"{NAME}(device='meta') returned x and y on {' and '.join(devices)}: both go to the device",
        "device-is-ignored",
    )


def test_batch_refuses_a_dataset_without_a_whole_window(observe):
    raised = observe(refused_batch, dataset=np.arange(8), context_length=8)
    expect(raised != "", f"{NAME} took a dataset of 8 tokens for context_length 8 without an error")
