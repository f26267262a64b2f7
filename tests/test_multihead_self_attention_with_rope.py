"""Causal multi-head self-attention with RoPE on queries and keys."""

import functools

import numpy as np
import pytest
from adapter import Adapter
from alike import follows_its_device, right_in_each_dtype, same_each_time, takes_a_long_sequence
from cases import multihead_case, waves, weights_of
from compare import noting, runs
from difficulties import ONE_BATCH_AXIS, OTHER_SETTINGS, OTHER_SIZES, OTHER_TABLE, ROWS_OF_POSITIONS
from mistakes import multihead as mistakes
from oracles import model as oracles


def rope_case(rng, positions=range(5), theta=100.0, **options):
    return {
        **multihead_case(rng, **options),
        "max_seq_len": 16,
        "theta": theta,
        "token_positions": None if positions is None else np.asarray(positions),
    }


def of_length(rng, length, **options):
    return rope_case(rng, range(length), length=length, **options)


def values_of(case):
    positions = case.get("token_positions")
    if positions is None:
        positions = np.arange(case["in_features"].shape[-2])
    return case["in_features"], weights_of(case), case["num_heads"], case["theta"], positions


def cases(rng):
    return {
        "one head": rope_case(rng, d_model=6, num_heads=1),
        "three heads": rope_case(rng),
        "two heads": rope_case(rng, d_model=8, num_heads=2),
        "no batch axis": rope_case(rng, leading=()),
        "two batch axes": rope_case(rng, leading=(2, 3)),
        "one position": of_length(rng, 1),
        "nine positions": of_length(rng, 9),
        "positions 3 to 7": rope_case(rng, range(3, 8)),
        "positions with gaps": rope_case(rng, [0, 2, 4, 9, 15]),
        "positions out of order": rope_case(rng, [7, 3, 3, 0, 8]),
        "theta=10000": rope_case(rng, theta=10000.0),
        "theta=10": rope_case(rng, theta=10.0),
        "positions for each batch row": rope_case(rng, [[0, 1, 4, 9, 15], [2, 3, 5, 8, 9]]),
    }


ATTENTION = Adapter(
    "run_multihead_self_attention_with_rope",
    rope_case,
    lambda case: oracles.multihead_with_rope(*values_of(case)),
    lambda case: mistakes.multihead_attention_with_rope(*values_of(case)),
    cases,
    of_trials=lambda _: 2e-5,
)


@pytest.mark.parametrize("batch", [2, 3])
def test_multihead_with_rope_turns_queries_and_keys_of_each_head(observe, rng, batch):
    ATTENTION.examine(observe, rope_case(rng, leading=(batch,)))


@pytest.mark.parametrize(("d_model", "num_heads"), [(4, 1), (8, 2), (16, 4)])
def test_multihead_with_rope_takes_any_number_of_heads(observe, rng, d_model, num_heads):
    ATTENTION.examine(observe, rope_case(rng, d_model=d_model, num_heads=num_heads))


@pytest.mark.parametrize("leading", [(), (2, 3)], ids=str)
def test_multihead_with_rope_takes_any_number_of_axes(observe, rng, leading):
    plain, case = rope_case(rng), rope_case(rng, leading=leading)
    ATTENTION.examine_beyond(observe, plain, ONE_BATCH_AXIS, case)


WITHOUT = "with token_positions 0, 1, 2, ..., which is what None means"


def test_multihead_with_rope_counts_from_zero_without_positions(observe, rng):
    ATTENTION.examine_beyond(observe, rope_case(rng), WITHOUT, rope_case(rng, None))


def test_multihead_with_rope_may_be_called_without_positions(observe, rng):
    plain = rope_case(rng)
    case = {name: value for name, value in plain.items() if name != "token_positions"}
    ATTENTION.examine_beyond(observe, plain, f"{WITHOUT}; they may be left out, too", case)


@pytest.mark.parametrize("positions", [[0, 2, 4, 9, 15], [0, 0, 1, 1, 2], [7, 3, 3, 0, 8]])
def test_multihead_with_rope_follows_the_token_positions(observe, rng, positions):
    ATTENTION.examine(observe, rope_case(rng, positions))


@pytest.mark.parametrize("length", [2, 9, 16])
def test_multihead_with_rope_takes_any_length(observe, rng, length):
    ATTENTION.examine_beyond(observe, rope_case(rng), OTHER_SIZES, of_length(rng, length))


@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (1, 1)])
def test_multihead_with_rope_takes_one_row_or_position(observe, rng, batch, length):
    plain, case = rope_case(rng), of_length(rng, length, leading=(batch,))
    ATTENTION.examine_beyond(observe, plain, OTHER_SIZES, case)


@pytest.mark.parametrize("theta", [10.0, 10000.0])
def test_multihead_with_rope_uses_the_given_theta(observe, rng, theta):
    plain, case = rope_case(rng), rope_case(rng, theta=theta)
    ATTENTION.examine_beyond(observe, plain, OTHER_SETTINGS, case)


@pytest.mark.parametrize(("d_model", "num_heads"), [(6, 1), (8, 4), (12, 2)])
def test_multihead_with_rope_takes_any_size_of_heads(observe, rng, d_model, num_heads):
    plain, case = rope_case(rng), rope_case(rng, d_model=d_model, num_heads=num_heads)
    ATTENTION.examine_beyond(observe, plain, OTHER_SETTINGS, case)


def test_multihead_with_rope_takes_inputs_that_are_not_contiguous(observe, rng):
    ATTENTION.examine_strided(observe, rope_case(rng), "in_features")


FOR_ALL_HEADS = f"{ROWS_OF_POSITIONS}, for all heads"


@pytest.mark.parametrize("rows", [1, 2])
def test_multihead_with_rope_takes_rows_of_positions(observe, rng, rows):
    plain, case = (
        rope_case(rng),
        rope_case(rng, np.stack([rng.permutation(5) for _ in range(rows)])),
    )
    ATTENTION.examine_beyond(observe, plain, FOR_ALL_HEADS, case)


def test_multihead_with_rope_takes_rows_of_positions_along_two_batch_axes(observe, rng):
    ATTENTION.examine(observe, rope_case(rng))
    aside = functools.partial(observe, aside=True)
    # Whoever takes exactly one batch axis has rows along that one only.
    if runs(lambda: ATTENTION.examine(aside, rope_case(rng, leading=(2, 3)))):
        positions = np.stack([rng.permutation(5) for _ in range(6)]).reshape(2, 3, 5)
        with noting(FOR_ALL_HEADS):
            ATTENTION.examine(observe, rope_case(rng, positions, leading=(2, 3)))


def test_multihead_with_rope_passes_gradients_to_input_and_weights(observe, rng):
    case = rope_case(rng, d_model=8, num_heads=2)
    ATTENTION.examine_gradients(observe, case, *waves(case), tolerance=3e-5)


def test_multihead_with_rope_of_one_call_does_not_depend_on_another(observe, rng):
    cases = [
        rope_case(rng, positions, theta, num_heads=num_heads)
        for positions, theta, num_heads in [
            (range(5), 100.0, 3),
            (range(5), 1000.0, 3),
            (range(5), 1000.0, 2),
            (range(3, 8), 100.0, 3),
        ]
    ]
    ATTENTION.examine_in_turns(observe, cases, OTHER_TABLE)


test_output_is_the_same_each_time = same_each_time(ATTENTION)
test_module_goes_to_another_device_as_a_whole = follows_its_device(ATTENTION)
test_multihead_with_rope_takes_a_long_sequence = takes_a_long_sequence(
    ATTENTION, lambda rng: of_length(rng, 40) | {"max_seq_len": 40}
)
test_multihead_with_rope_is_right_in_each_dtype = right_in_each_dtype(
    ATTENTION, lambda rng: rope_case(rng, d_model=8, num_heads=2)
)
