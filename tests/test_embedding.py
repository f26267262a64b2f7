"""The embedding."""

import math

import numpy as np
import pytest
from adapter import Adapter
from alike import follows_its_device, right_in_each_dtype, same_each_time
from cases import normal
from compare import expect
from difficulties import TWO_AXES
from initialisation import (
    CUT_OFF,
    expect_cut_off_normal,
    fresh_weights,
    in_model,
    is_left_open,
)
from mistakes import functions as mistakes
from oracles import model as oracles
from probes.model import attempt


def embedding_case(rng, shape=(2, 6)):
    # The first and the last id have an item of their own.
    return case_of(normal(rng, 9, 4), rng.integers(1, 8, shape))


def case_of(table, ids):
    vocab_size, d_model = table.shape
    ids = np.asarray(ids)
    return {"vocab_size": vocab_size, "d_model": d_model, "weights": table, "token_ids": ids}


def cases(rng):
    return {
        label: case_of(normal(rng, 9, 4), ids)
        for label, ids in {
            "one id": 3,
            "a row of ids": rng.integers(1, 8, 6),
            "two axes of ids": rng.integers(1, 8, (3, 4)),
            "id 0": [0, 3, 0],
            "the last id": [8, 2, 8],
        }.items()
    }


EMBEDDING = Adapter(
    "run_embedding",
    embedding_case,
    lambda case: oracles.embedding(case["token_ids"], case["weights"]),
    lambda case: mistakes.embedding(case["token_ids"], case["weights"]),
    cases,
    tolerance=1e-7,
    of_trials=lambda _: 1e-6,
)


@pytest.mark.parametrize("shape", [(2, 6), (4, 5)], ids=str)
def test_embedding_looks_up_one_row_per_id(observe, rng, shape):
    EMBEDDING.examine(observe, embedding_case(rng, shape))


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4)], ids=str)
def test_embedding_takes_ids_of_any_number_of_axes(observe, rng, shape):
    plain, case = embedding_case(rng), embedding_case(rng, shape)
    EMBEDDING.examine_beyond(observe, plain, TWO_AXES, case)


def test_embedding_takes_ids_that_are_not_contiguous(observe, rng):
    EMBEDDING.examine_strided(observe, embedding_case(rng), "token_ids")


@pytest.mark.parametrize("vocab_size", [9, 40_000])
def test_embedding_reaches_the_first_and_the_last_id(observe, rng, vocab_size):
    ids = [[0, vocab_size - 1], [vocab_size - 1, 0]]
    EMBEDDING.examine(observe, case_of(normal(rng, vocab_size, 4), ids))


def test_embedding_adds_up_the_gradients_of_a_repeated_id(observe, rng):
    ids = np.array([[1, 3, 1], [1, 2, 3]])
    case, cotangent = case_of(normal(rng, 5, 3), ids), normal(rng, 2, 3, 3)
    expected = oracles.gradient(lambda z: oracles.embedding(ids, z), case["weights"], cotangent)
    often = np.maximum(np.bincount(ids.flatten(), minlength=5), 1)[:, None]
    last = np.zeros_like(expected)
    last[ids] = cotangent  # Of several writes to a row the last one stays.
    EMBEDDING.examine_gradients(
        observe,
        case,
        cotangent,
        weights=["weights"],
        mistakes=lambda: {
            "gradients are divided by how often an id occurs": expected / often,
            "only the last occurrence of an id has a gradient": last,
            "token 0 is taken for padding, it has no gradient": expected
            * (np.arange(5) > 0)[:, None],
        },
        trials=lambda: EMBEDDING.trials(observe),
    )


def test_embedding_refuses_an_id_past_the_vocabulary(observe, rng):
    possible = embedding_case(rng)
    EMBEDDING.examine(observe, possible)  # Who answers nothing rightly refuses nothing.
    case = {**possible, "token_ids": np.full((2, 6), 9)}
    raised = observe(attempt, function="run_embedding", arguments=case, possible=possible)
    expect(raised != "", "run_embedding took id 9 of a vocabulary of 9 without an error")


def test_embedding_starts_from_a_truncated_normal(observe, rng):
    case = case_of(normal(rng, 400, 60), np.arange(6).reshape(2, 3))
    mistakes = {
        "sigma is sqrt(2 / (vocab_size + d_model)), which is for linear layers": CUT_OFF
        * math.sqrt(2 / 460),
        "sigma is 0.02": 0.02 * CUT_OFF,
        "sigma is 1 / sqrt(d_model)": CUT_OFF / math.sqrt(60),
        "weights are uniform: draw from a normal distribution": 1.0,
    }
    fresh = fresh_weights(observe, "run_embedding", case, [(400, 60)], [case["weights"]])
    if is_left_open(fresh):
        # The output head has the same shape and another standard deviation.
        head = CUT_OFF * math.sqrt(2 / 496)
        fresh = in_model(observe, rng, "run_embedding", (400, 96))
        fresh = [max(fresh, key=lambda weight: abs(math.log(weight.std() / head)))]
    for weight in fresh:
        expect_cut_off_normal(weight, 1.0, "run_embedding", mistakes)


test_output_is_the_same_each_time = same_each_time(EMBEDDING)
test_module_goes_to_another_device_as_a_whole = follows_its_device(EMBEDDING)
test_embedding_is_right_in_each_dtype = right_in_each_dtype(EMBEDDING, is_small=True)
