"""Causal multi-head self-attention, without and with RoPE."""

import functools

import numpy as np
import pytest
from compare import (
    expect,
    expect_close,
    expect_gradients,
    expect_learned,
    expect_unchanged,
    noting,
    runs,
)
from difficulties import (
    CONTIGUOUS,
    NOT_EMPTY,
    ONE_BATCH_AXIS,
    OTHER_SETTINGS,
    OTHER_SIZES,
    ROWS_OF_POSITIONS,
)
from mistakes import multihead as mistakes
from oracles import model as oracles
from probes.model import (
    AMBIGUOUS,
    attempt,
    backward,
    forward,
    forward_if_supported,
    forward_in_turns,
)
from trials import ask, once

PLAIN = "run_multihead_self_attention"
WITH_ROPE = "run_multihead_self_attention_with_rope"

plain_problem = pytest.mark.problem("multihead_self_attention")
rope_problem = pytest.mark.problem("multihead_self_attention_with_rope")


def multihead_case(rng, leading=(2,), length=5, d_model=12, num_heads=3):
    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "d_model": d_model,
        "num_heads": num_heads,
        **{f"{name}_proj_weight": normal(d_model, d_model) / 2 for name in "qkvo"},
        "in_features": normal(*leading, length, d_model),
    }


def rope_case(rng, positions, theta=100.0, **options):
    return {
        **multihead_case(rng, **options),
        "max_seq_len": 16,
        "theta": theta,
        "token_positions": None if positions is None else np.asarray(positions),
    }


def with_positions(rng, **options):
    return rope_case(rng, np.arange(5), **options)


def weights_of(case):
    return {name: case[f"{name}_proj_weight"] for name in "qkvo"}


@once
def trials(observe, with_rope):
    rng = np.random.default_rng(0)
    for label, options in {
        "one head": {"d_model": 6, "num_heads": 1},
        "three heads": {},
        "two heads": {"d_model": 8, "num_heads": 2},
        "as many heads as features": {"d_model": 6, "num_heads": 6},
        "no batch axis": {"leading": ()},
        "two batch axes": {"leading": (2, 3)},
        "one position": {"length": 1},
        "nine positions": {"length": 9},
    }.items():
        if with_rope and label == "as many heads as features":
            continue  # Pairs need an even d_head.
        if not with_rope:
            yield plain_trial(observe, label, multihead_case(rng, **options))
            continue
        positions = np.arange(options.get("length", 5))
        yield rope_trial(observe, label, rope_case(rng, positions, **options))
    if not with_rope:
        return
    for label, case in {
        "positions 3 to 7": rope_case(rng, np.arange(3, 8)),
        "positions with gaps": rope_case(rng, [0, 2, 4, 9, 15]),
        "positions out of order": rope_case(rng, [7, 3, 3, 0, 8]),
        "theta=10000": with_positions(rng, theta=10000.0),
        "theta=10": with_positions(rng, theta=10.0),
        "positions for each batch row": rope_case(
            rng, [[0, 1, 4, 9, 15], [2, 3, 5, 8, 9]], leading=(2,)
        ),
    }.items():
        yield rope_trial(observe, label, case)


def plain_trial(observe, label, case):
    arguments = case["in_features"], weights_of(case), case["num_heads"]
    return ask(
        observe,
        label,
        oracles.multihead(*arguments),
        mistakes.multihead_attention(*arguments),
        tolerance=2e-5,
        probe=forward,
        function=PLAIN,
        arguments=case,
    )


def rope_trial(observe, label, case):
    arguments = case["in_features"], weights_of(case), case["num_heads"], case["theta"]
    arguments += (case["token_positions"],)
    return ask(
        observe,
        label,
        oracles.multihead_with_rope(*arguments),
        mistakes.multihead_attention_with_rope(*arguments),
        tolerance=2e-5,
        probe=forward,
        function=WITH_ROPE,
        arguments=case,
    )


def examine(observe, case, strided=()):
    arguments = case["in_features"], weights_of(case), case["num_heads"]
    seen = observe(forward, function=PLAIN, arguments=case, strided=strided)
    expect_close(
        seen["output"],
        oracles.multihead(*arguments),
        PLAIN,
        mistakes=lambda: mistakes.multihead_attention(*arguments),
        trials=lambda: trials(observe, False),
    )
    expect_unchanged(seen["changed"], PLAIN)


def examine_with_rope(observe, case, strided=()):
    positions = case.get("token_positions")
    if positions is None:
        positions = np.arange(case["in_features"].shape[-2])
    arguments = case["in_features"], weights_of(case), case["num_heads"], case["theta"], positions
    seen = observe(forward, function=WITH_ROPE, arguments=case, strided=strided)
    expect_close(
        seen["output"],
        oracles.multihead_with_rope(*arguments),
        WITH_ROPE,
        mistakes=lambda: mistakes.multihead_attention_with_rope(*arguments),
        trials=lambda: trials(observe, True),
    )
    expect_unchanged(seen["changed"], WITH_ROPE)


@plain_problem
@pytest.mark.parametrize("batch", [2, 3])
def test_multihead_attends_causally_in_each_head(observe, rng, batch):
    examine(observe, multihead_case(rng, (batch,)))


@plain_problem
@pytest.mark.parametrize(("d_model", "num_heads"), [(6, 1), (12, 6), (8, 4), (8, 2)])
def test_multihead_takes_any_number_of_heads(observe, rng, d_model, num_heads):
    examine(observe, multihead_case(rng, d_model=d_model, num_heads=num_heads))


@plain_problem
@pytest.mark.parametrize("leading", [(), (2, 3)], ids=str)
def test_multihead_takes_any_number_of_axes(observe, rng, leading):
    examine(observe, multihead_case(rng))
    with noting(ONE_BATCH_AXIS):
        examine(observe, multihead_case(rng, leading))


@plain_problem
@pytest.mark.parametrize("length", [2, 9, 12])
def test_multihead_takes_any_length(observe, rng, length):
    examine(observe, multihead_case(rng))
    with noting(OTHER_SIZES):
        examine(observe, multihead_case(rng, length=length))


@plain_problem
@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (1, 1)])
def test_multihead_takes_one_row_or_position(observe, rng, batch, length):
    examine(observe, multihead_case(rng))
    with noting(OTHER_SIZES):
        examine(observe, multihead_case(rng, (batch,), length))


@plain_problem
def test_multihead_takes_inputs_that_are_not_contiguous(observe, rng):
    case = multihead_case(rng)
    examine(observe, case)
    with noting(CONTIGUOUS):
        examine(observe, case, strided=["in_features"])


@plain_problem
def test_multihead_refuses_heads_that_do_not_divide_d_model(observe, rng):
    case = multihead_case(rng, d_model=8, num_heads=3)
    possible = {**case, "num_heads": 2}
    examine(observe, possible)  # Who answers nothing rightly refuses nothing.
    raised = observe(attempt, function=PLAIN, arguments=case, possible=possible)
    expect(raised != "", f"{PLAIN} took d_model=8 with num_heads=3 without an error")


def check_gradients(observe, function, case, oracle):
    x = case["in_features"]
    cotangent = np.ones(x.shape) * np.cos(np.arange(x.size)).reshape(x.shape)
    names = [f"{name}_proj_weight" for name in "qkvo"]
    seen = observe(
        backward,
        function=function,
        arguments=case,
        cotangent=cotangent,
        inputs=["in_features"],
        weights=names,
    )
    expect_learned(seen, [case[name] for name in names], function)
    seen = seen["gradients"]
    by_x = oracles.gradient(lambda z: oracle(z, weights_of(case)), x, cotangent)
    expected = {"in_features": by_x}
    for name in names:

        def vary(z, name=name):
            return oracle(x, weights_of({**case, name: z}))

        expected[name] = oracles.gradient(vary, case[name], cotangent)
    expect_gradients(seen, expected, function, tolerance=3e-5)


@plain_problem
def test_multihead_passes_gradients_to_input_and_weights(observe, rng):
    case = multihead_case(rng, d_model=4, num_heads=2)
    check_gradients(observe, PLAIN, case, lambda x, w: oracles.multihead(x, w, 2))


@rope_problem
@pytest.mark.parametrize("batch", [2, 3])
def test_multihead_with_rope_turns_queries_and_keys_of_each_head(observe, rng, batch):
    examine_with_rope(observe, with_positions(rng, leading=(batch,)))


@rope_problem
@pytest.mark.parametrize(("d_model", "num_heads"), [(4, 1), (8, 2), (16, 4)])
def test_multihead_with_rope_takes_any_number_of_heads(observe, rng, d_model, num_heads):
    case = with_positions(rng, d_model=d_model, num_heads=num_heads)
    examine_with_rope(observe, case)


@rope_problem
@pytest.mark.parametrize("leading", [(), (2, 3)], ids=str)
def test_multihead_with_rope_takes_any_number_of_axes(observe, rng, leading):
    examine_with_rope(observe, with_positions(rng))
    with noting(ONE_BATCH_AXIS):
        examine_with_rope(observe, with_positions(rng, leading=leading))


@rope_problem
def test_multihead_with_rope_counts_from_zero_without_positions(observe, rng):
    examine_with_rope(observe, with_positions(rng))
    with noting("with token_positions 0, 1, 2, ..., which is what None means"):
        examine_with_rope(observe, rope_case(rng, None))


@rope_problem
def test_multihead_with_rope_may_be_called_without_positions(observe, rng):
    case = with_positions(rng)
    examine_with_rope(observe, case)
    del case["token_positions"]
    with noting(
        "with token_positions 0, 1, 2, ..., which is what None means; they may be left out, too"
    ):
        examine_with_rope(observe, case)


@rope_problem
@pytest.mark.parametrize("positions", [[0, 2, 4, 9, 15], [0, 0, 1, 1, 2], [7, 3, 3, 0, 8]])
def test_multihead_with_rope_follows_the_token_positions(observe, rng, positions):
    examine_with_rope(observe, rope_case(rng, positions))


@rope_problem
@pytest.mark.parametrize("length", [2, 9, 16])
def test_multihead_with_rope_takes_any_length(observe, rng, length):
    examine_with_rope(observe, with_positions(rng))
    with noting(OTHER_SIZES):
        examine_with_rope(observe, rope_case(rng, np.arange(length), length=length))


@rope_problem
@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (1, 1)])
def test_multihead_with_rope_takes_one_row_or_position(observe, rng, batch, length):
    examine_with_rope(observe, with_positions(rng))
    case = rope_case(rng, np.arange(length), leading=(batch,), length=length)
    with noting(OTHER_SIZES):
        examine_with_rope(observe, case)


@rope_problem
@pytest.mark.parametrize("theta", [10.0, 10000.0])
def test_multihead_with_rope_uses_the_given_theta(observe, rng, theta):
    examine_with_rope(observe, with_positions(rng))
    with noting(OTHER_SETTINGS):
        examine_with_rope(observe, with_positions(rng, theta=theta))


@rope_problem
@pytest.mark.parametrize(("d_model", "num_heads"), [(6, 1), (8, 4), (12, 2)])
def test_multihead_with_rope_takes_any_size_of_heads(observe, rng, d_model, num_heads):
    examine_with_rope(observe, with_positions(rng))
    with noting(OTHER_SETTINGS):
        case = with_positions(rng, d_model=d_model, num_heads=num_heads)
        examine_with_rope(observe, case)


@rope_problem
def test_multihead_with_rope_takes_inputs_that_are_not_contiguous(observe, rng):
    case = with_positions(rng)
    examine_with_rope(observe, case)
    with noting(CONTIGUOUS):
        examine_with_rope(observe, case, strided=["in_features"])


@rope_problem
@pytest.mark.parametrize("rows", [1, 2])
def test_multihead_with_rope_takes_rows_of_positions(observe, rng, rows):
    examine_with_rope(observe, with_positions(rng))
    positions = np.stack([rng.permutation(5) for _ in range(rows)])
    with noting(f"{ROWS_OF_POSITIONS}, for all heads"):
        examine_with_rope(observe, rope_case(rng, positions))


@rope_problem
def test_multihead_with_rope_takes_rows_of_positions_along_two_batch_axes(observe, rng):
    examine_with_rope(observe, with_positions(rng))
    aside = functools.partial(observe, aside=True)
    # Whoever takes exactly one batch axis has rows along that one only.
    if runs(lambda: examine_with_rope(aside, with_positions(rng, leading=(2, 3)))):
        positions = np.stack([rng.permutation(5) for _ in range(6)]).reshape(2, 3, 5)
        with noting(f"{ROWS_OF_POSITIONS}, for all heads"):
            examine_with_rope(observe, rope_case(rng, positions, leading=(2, 3)))


@rope_problem
def test_multihead_with_rope_passes_gradients_to_input_and_weights(observe, rng):
    case = with_positions(rng, d_model=8, num_heads=2)

    def oracle(x, w):
        return oracles.multihead_with_rope(x, w, 2, case["theta"], case["token_positions"])

    check_gradients(observe, WITH_ROPE, case, oracle)


@pytest.mark.parametrize(
    ("function", "ask"),
    [
        pytest.param(PLAIN, examine, marks=plain_problem),
        pytest.param(WITH_ROPE, examine_with_rope, marks=rope_problem),
    ],
    ids=["plain", "rope"],
)
def test_multihead_takes_an_empty_batch(observe, rng, function, ask):
    make_case = multihead_case if function == PLAIN else with_positions
    ask(observe, make_case(rng))
    case = make_case(rng, leading=(0,))
    how = {"function": function, "complaints": AMBIGUOUS}
    with noting(NOT_EMPTY):
        seen = observe(forward_if_supported, arguments=case, **how)
    if seen is not None:
        expect_close(seen["output"], case["in_features"], function)


@plain_problem
def test_multihead_of_one_call_does_not_depend_on_another(observe, rng):
    cases = [
        multihead_case(rng, length=length, d_model=d_model, num_heads=num_heads)
        for length, d_model, num_heads in [(5, 12, 3), (9, 12, 3), (3, 12, 2), (5, 8, 4)]
    ]
    seen = observe(forward_in_turns, function=PLAIN, cases=cases)
    for case, one in zip(cases, seen, strict=True):
        expect_close(
            one["output"],
            oracles.multihead(case["in_features"], weights_of(case), case["num_heads"]),
            f"{PLAIN}, called several times,",
            hint="If a call alone is right: is the mask, or are weights of an earlier one kept?",
        )


@rope_problem
def test_multihead_with_rope_of_one_call_does_not_depend_on_another(observe, rng):
    cases = [
        rope_case(rng, positions, theta=theta, length=len(positions), num_heads=num_heads)
        for positions, theta, num_heads in [
            (np.arange(5), 100.0, 3),
            (np.arange(5), 1000.0, 3),
            (np.arange(5), 1000.0, 2),
            ([3, 4, 5, 6, 7], 100.0, 3),
        ]
    ]
    seen = observe(forward_in_turns, function=WITH_ROPE, cases=cases)
    for case, one in zip(cases, seen, strict=True):
        expect_close(
            one["output"],
            oracles.multihead_with_rope(
                case["in_features"],
                weights_of(case),
                case["num_heads"],
                case["theta"],
                case["token_positions"],
            ),
            f"{WITH_ROPE}, called several times,",
            hint="If a call alone is right: is a table of another theta, d_k or length kept?",
        )
