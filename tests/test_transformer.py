"""The Transformer block and the language model."""

import numpy as np
import pytest
from compare import (
    AT_LEAST_FLOAT32,
    expect,
    expect_close,
    expect_gradients,
    expect_learned,
    expect_tensor,
    expect_unchanged,
    noting,
)
from difficulties import (
    CONTIGUOUS,
    D_FF_OF_64,
    NOT_EMPTY,
    OTHER_SETTINGS,
    OTHER_SIZES,
)
from mistakes import transformer as mistakes
from oracles import model as oracles
from probes.model import AMBIGUOUS, backward, forward, forward_if_supported
from trials import ask, once

BLOCK = "run_transformer_block"
MODEL = "run_transformer_lm"

block_problem = pytest.mark.problem("transformer_block")
model_problem = pytest.mark.problem("transformer_lm")


def block_weights(rng, d_model, d_ff):
    def normal(*shape):
        return (rng.standard_normal(shape) / 2).astype(np.float32)

    def gain():
        return rng.uniform(0.5, 2.0, d_model).astype(np.float32)

    return {
        **{f"attn.{name}_proj.weight": normal(d_model, d_model) for name in ("q", "k", "v")},
        "attn.output_proj.weight": normal(d_model, d_model),
        "ln1.weight": gain(),
        "ffn.w1.weight": normal(d_ff, d_model),
        "ffn.w2.weight": normal(d_model, d_ff),
        "ffn.w3.weight": normal(d_ff, d_model),
        "ln2.weight": gain(),
    }


def block_case(rng, batch=2, length=5, d_model=8, num_heads=2, d_ff=64, theta=100.0):
    return {
        "d_model": d_model,
        "num_heads": num_heads,
        "d_ff": d_ff,
        "max_seq_len": 16,
        "theta": theta,
        "weights": block_weights(rng, d_model, d_ff),
        "in_features": rng.standard_normal((batch, length, d_model)).astype(np.float32),
    }


def model_case(
    rng,
    batch=2,
    length=5,
    num_layers=2,
    num_heads=2,
    d_model=8,
    d_ff=64,
    vocab_size=11,
    theta=100.0,
):
    weights = {
        f"layers.{layer}.{key}": value
        for layer in range(num_layers)
        for key, value in block_weights(rng, d_model, d_ff).items()
    }
    weights |= {
        "lm_head.weight": rng.standard_normal((vocab_size, d_model)).astype(np.float32),
        "ln_final.weight": rng.uniform(0.5, 2.0, d_model).astype(np.float32),
        "token_embeddings.weight": rng.standard_normal((vocab_size, d_model)).astype(np.float32),
    }
    return {
        "vocab_size": vocab_size,
        "context_length": 16,
        "d_model": d_model,
        "num_layers": num_layers,
        "num_heads": num_heads,
        "d_ff": d_ff,
        "rope_theta": theta,
        "weights": weights,
        "in_indices": rng.integers(0, vocab_size, (batch, length)),
    }


@once
def block_trials(observe):
    rng = np.random.default_rng(0)
    for label, case in {
        "one head": block_case(rng, d_model=6, num_heads=1, d_ff=5),
        "two heads": block_case(rng),
        "four heads": block_case(rng, num_heads=4, d_ff=8),
        "one position": block_case(rng, batch=2, length=1),
        "theta=10000": block_case(rng, theta=10000.0),
        "three rows of nine positions": block_case(rng, 3, 9),
    }.items():
        arguments = case["in_features"], case["weights"], case["num_heads"], case["theta"]
        yield ask(
            observe,
            label,
            oracles.transformer_block(*arguments),
            mistakes.transformer_block(*arguments),
            tolerance=5e-5,
            probe=forward,
            function=BLOCK,
            arguments=case,
        )


@once
def model_trials(observe):
    rng = np.random.default_rng(0)
    for label, case in {
        "one layer": model_case(rng, num_layers=1),
        "two layers": model_case(rng),
        "three layers": model_case(rng, num_layers=3),
        "one position": model_case(rng, length=1),
        "as many positions as the context": model_case(rng, length=16),
        "theta=10000": model_case(rng, theta=10000.0),
        "eleven layers": model_case(rng, batch=1, length=3, num_layers=11),
    }.items():
        yield ask(
            observe,
            label,
            oracles.transformer_lm(*model_arguments(case)),
            mistakes.transformer_lm(*model_arguments(case), case["context_length"]),
            tolerance=1e-4,
            probe=forward,
            function=MODEL,
            arguments=case,
        )


def examine_block(observe, case, strided=()):
    arguments = case["in_features"], case["weights"], case["num_heads"], case["theta"]
    seen = observe(forward, function=BLOCK, arguments=case, strided=strided)
    expect_close(
        seen["output"],
        oracles.transformer_block(*arguments),
        BLOCK,
        tolerance=5e-5,
        mistakes=lambda: mistakes.transformer_block(*arguments),
        trials=lambda: block_trials(observe),
    )
    expect_unchanged(seen["changed"], BLOCK)


def model_arguments(case):
    settings = (case[name] for name in ("num_layers", "num_heads", "rope_theta"))
    return (case["in_indices"], case["weights"], *settings)


def examine_model(observe, case, strided=()):
    arguments = model_arguments(case)
    seen = observe(forward, function=MODEL, arguments=case, strided=strided)
    expect_close(
        seen["output"],
        oracles.transformer_lm(*arguments),
        MODEL,
        tolerance=1e-4,
        mistakes=lambda: mistakes.transformer_lm(*arguments, case["context_length"]),
        trials=lambda: model_trials(observe),
    )
    expect_unchanged(seen["changed"], MODEL)


@block_problem
@pytest.mark.parametrize("batch", [2, 3, 4])
def test_block_is_pre_norm_with_two_residuals(observe, rng, batch):
    examine_block(observe, block_case(rng, batch))


@block_problem
@pytest.mark.parametrize(("d_model", "num_heads"), [(4, 1), (8, 2), (16, 4)])
def test_block_takes_any_number_of_heads(observe, rng, d_model, num_heads):
    examine_block(observe, block_case(rng, d_model=d_model, num_heads=num_heads))


@block_problem
@pytest.mark.parametrize("d_ff", [5, 8, 20])
def test_block_takes_any_d_ff(observe, rng, d_ff):
    examine_block(observe, block_case(rng))
    with noting(D_FF_OF_64):
        examine_block(observe, block_case(rng, d_ff=d_ff))


@block_problem
@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (1, 1)])
def test_block_takes_one_row_or_position(observe, rng, batch, length):
    examine_block(observe, block_case(rng))
    with noting(OTHER_SIZES):
        examine_block(observe, block_case(rng, batch, length))


@block_problem
@pytest.mark.parametrize("length", [2, 9, 16])
def test_block_takes_any_length(observe, rng, length):
    examine_block(observe, block_case(rng))
    with noting(OTHER_SIZES):
        examine_block(observe, block_case(rng, length=length))


@block_problem
@pytest.mark.parametrize(("d_model", "num_heads"), [(6, 1), (8, 4), (12, 2)])
def test_block_takes_any_size_of_heads(observe, rng, d_model, num_heads):
    examine_block(observe, block_case(rng))
    with noting(OTHER_SETTINGS):
        examine_block(observe, block_case(rng, d_model=d_model, num_heads=num_heads))


@block_problem
@pytest.mark.parametrize("theta", [10.0, 10000.0])
def test_block_uses_the_given_theta(observe, rng, theta):
    examine_block(observe, block_case(rng))
    with noting(OTHER_SETTINGS):
        examine_block(observe, block_case(rng, theta=theta))


@block_problem
def test_block_takes_inputs_that_are_not_contiguous(observe, rng):
    case = block_case(rng)
    examine_block(observe, case)
    with noting(CONTIGUOUS):
        examine_block(observe, case, strided=["in_features"])


@block_problem
def test_block_passes_gradients_to_input_and_every_weight(observe, rng):
    case = block_case(rng)
    x, weights = case["in_features"], case["weights"]
    cotangent = rng.standard_normal(x.shape).astype(np.float32)

    def oracle(x, weights):
        return oracles.transformer_block(x, weights, case["num_heads"], case["theta"])

    seen = observe(
        backward,
        function=BLOCK,
        arguments=case,
        cotangent=cotangent,
        inputs=["in_features"],
        weights=list(weights),
    )
    expect_learned(seen, weights.values(), BLOCK)
    seen = seen["gradients"]
    by_x = oracles.gradient(lambda z: oracle(z, weights), x, cotangent)
    expect_gradients(
        seen,
        {"in_features": by_x},
        BLOCK,
        tolerance=5e-5,
        mistakes=lambda: mistakes.block_gradient(
            x, weights, case["num_heads"], case["theta"], cotangent
        ),
        trials=lambda: block_trials(observe),
    )
    check_slopes(rng, seen, BLOCK, weights, lambda some: oracle(x, some), cotangent)


def check_slopes(rng, seen, name, weights, oracle, cotangent):
    """Compare the gradient of every weight along one random direction each.

    Both are divided by the gradient's length and 1 is added, because along a random direction a
    gradient may be near zero.
    """
    observed, expected = {}, {}
    for key, weight in weights.items():
        direction = rng.standard_normal(weight.shape)

        def vary(z, key=key):
            return oracle({**weights, key: z})

        along = oracles.slope(vary, weight, direction, cotangent)
        observed[key], expected[key] = seen[key], np.asarray(along)
        gradient = seen[key]["values"]
        if gradient is not None:
            scale = np.linalg.norm(gradient) * np.linalg.norm(direction) + 1e-30
            got = np.sum(gradient * direction) / scale
            observed[key] = {"dtype": seen[key]["dtype"], "values": np.asarray(1 + got)}
            expected[key] = np.asarray(1 + along / scale)
    expect_gradients(observed, expected, name, tolerance=1e-4)


@model_problem
@pytest.mark.parametrize("batch", [2, 3, 4])
def test_model_returns_logits_for_every_position(observe, rng, batch):
    examine_model(observe, model_case(rng, batch))


@model_problem
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_model_runs_its_blocks_in_order(observe, rng, num_layers):
    examine_model(observe, model_case(rng, num_layers=num_layers))


@model_problem
def test_model_takes_a_vocabulary_smaller_than_d_model(observe, rng):
    examine_model(observe, model_case(rng, vocab_size=3))


@model_problem
@pytest.mark.parametrize(("d_model", "num_heads"), [(4, 1), (8, 2), (16, 4)])
def test_model_takes_any_number_of_heads(observe, rng, d_model, num_heads):
    examine_model(observe, model_case(rng, d_model=d_model, num_heads=num_heads))


@model_problem
@pytest.mark.parametrize("d_ff", [5, 8, 20])
def test_model_takes_any_d_ff(observe, rng, d_ff):
    examine_model(observe, model_case(rng))
    with noting(D_FF_OF_64):
        examine_model(observe, model_case(rng, d_ff=d_ff))


@model_problem
@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (1, 1)])
def test_model_takes_one_row_or_position(observe, rng, batch, length):
    examine_model(observe, model_case(rng))
    with noting(OTHER_SIZES):
        examine_model(observe, model_case(rng, batch, length))


@model_problem
@pytest.mark.parametrize("length", [2, 9, 16])
def test_model_takes_any_length(observe, rng, length):
    examine_model(observe, model_case(rng))
    with noting(OTHER_SIZES):
        examine_model(observe, model_case(rng, length=length))


@model_problem
@pytest.mark.parametrize(("d_model", "num_heads"), [(6, 1), (8, 4), (12, 2)])
def test_model_takes_any_size_of_heads(observe, rng, d_model, num_heads):
    examine_model(observe, model_case(rng))
    with noting(OTHER_SETTINGS):
        examine_model(observe, model_case(rng, d_model=d_model, num_heads=num_heads))


@model_problem
@pytest.mark.parametrize("theta", [10.0, 10000.0])
def test_model_uses_the_given_theta(observe, rng, theta):
    examine_model(observe, model_case(rng))
    with noting(OTHER_SETTINGS):
        examine_model(observe, model_case(rng, theta=theta))


@model_problem
def test_model_takes_ids_that_are_not_contiguous(observe, rng):
    case = model_case(rng)
    examine_model(observe, case)
    with noting(CONTIGUOUS):
        examine_model(observe, case, strided=["in_indices"])


@model_problem
def test_model_does_not_see_the_future(observe, rng):
    case = model_case(rng)
    earlier = observe(forward, function=MODEL, arguments=case)["output"]
    case["in_indices"][:, 3:] = (case["in_indices"][:, 3:] + 1) % case["vocab_size"]
    later = observe(forward, function=MODEL, arguments=case)["output"]
    shape = (*case["in_indices"].shape, case["vocab_size"])
    for seen in (earlier, later):
        expect_tensor(seen, shape, MODEL, AT_LEAST_FLOAT32)
        expect(bool(np.isfinite(seen["values"]).all()), f"{MODEL}: not all logits are finite")
    difference = np.abs(earlier["values"][:, :3] - later["values"][:, :3]).max()
    expect(
        bool(difference <= 1e-5),
        f"{MODEL}: logits of positions 0 to 2 change by {difference:.2g} with tokens 3 and 4:"
        " is the mask causal?",
        "sees-the-future",
    )


@model_problem
def test_model_passes_gradients_to_every_weight(observe, rng):
    case = model_case(rng)
    cotangent = rng.standard_normal((2, 5, case["vocab_size"])).astype(np.float32)
    weights = case["weights"]
    seen = observe(
        backward, function=MODEL, arguments=case, cotangent=cotangent, weights=list(weights)
    )
    expect_learned(seen, weights.values(), MODEL)
    seen = seen["gradients"]
    ids, _, *settings = model_arguments(case)
    check_slopes(
        rng,
        seen,
        MODEL,
        weights,
        lambda some: oracles.transformer_lm(ids, some, *settings),
        cotangent,
    )


@block_problem
def test_block_takes_an_empty_batch(observe, rng):
    examine_block(observe, block_case(rng))
    case = block_case(rng, batch=0)
    how = {"function": BLOCK, "complaints": AMBIGUOUS}
    with noting(NOT_EMPTY):
        seen = observe(forward_if_supported, arguments=case, **how)
    if seen is not None:
        expect_close(seen["output"], case["in_features"], BLOCK)


@model_problem
def test_model_scores_each_row_of_a_batch_on_its_own(observe, rng):
    case = model_case(rng, batch=3)
    case["in_indices"][1] = case["in_indices"][0]
    examine_model(observe, case)


@model_problem
@pytest.mark.parametrize("num_layers", [4, 12])
def test_model_keeps_its_many_blocks_in_order(observe, rng, num_layers):
    # layers.10 comes before layers.2 where names are sorted.
    examine_model(observe, model_case(rng, num_layers=num_layers))
