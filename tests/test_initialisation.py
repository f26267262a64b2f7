"""The weights that a fresh module starts from, and what it saves.

Seen as the module's constructor returns, and as an adapter loads its own weights. A layer that
leaves its weights to the model (model.apply) is seen in the model. Code without modules, or whose
constructors take the weights, shows nothing here and passes.
"""

import math

import numpy as np
import pytest
from compare import expect, report
from oracles import model as oracles
from probes.modules import construction
from test_transformer import BLOCK, block_case, model_case
from test_transformer import MODEL as LM

MODEL = {"d_model": 96, "d_ff": 256, "vocab_size": 400, "num_layers": 2, "num_heads": 24}
# A normal distribution cut off at 3 sigma has 0.9866 of its standard deviation.
CUT_OFF = 0.9866


def fresh_weights(observe, function, case, shapes, given):
    """All parameters of these shapes (or transposed) that do not hold the given weights yet.

    Parameters that nothing was written to are left out if there are others.
    """
    modules = observe(construction, function=function, arguments=case)
    parameters = [weight["values"] for module in modules for weight in module["parameters"]]
    fresh = [
        weight
        for weight in parameters
        if weight.shape in shapes or weight.shape[::-1] in shapes
        if not any(np.array_equal(weight, w) or np.array_equal(weight, w.T) for w in given)
    ]
    return [weight for weight in fresh if not np.isnan(weight).any()] or fresh


def is_left_open(fresh):
    """Whether nothing was written to the weights of a layer."""
    return bool(fresh) and bool(np.isnan(fresh[0]).any())


def in_model(observe, rng, name, *shapes):
    """The fresh weights of these shapes in the model, for a layer that leaves them to the model."""
    case = model_case(rng, **MODEL)
    given = list(case["weights"].values())
    fresh = fresh_weights(observe, "run_transformer_lm", case, shapes, given)
    expect(
        not is_left_open(fresh),
        f"{name}: nothing is written to a fresh weight, neither by the layer's constructor nor"
        " in the model of run_transformer_lm: it holds whatever lay in memory",
        "wrong-initialisation",
    )
    return fresh


def causes_of(weight, mistakes):
    """Name the mistakes by which a weight has the standard deviation that it has."""
    std = float(weight.std())
    is_uniform = float(np.abs(weight).max()) < 1.8 * std
    return [
        what
        for what, value in mistakes.items()
        if abs(std / value - 1) < 0.03 and ("uniform" in what) == is_uniform
    ]


def expect_cut_off_normal(weight, sigma, name, mistakes):
    std, mean, largest = float(weight.std()), float(weight.mean()), float(np.abs(weight).max())
    # Of 10,000 normal values, a hundred are larger than 2.5 sigma; of uniform ones, none.
    is_cut_off = 2.5 * sigma < largest <= 3.01 * sigma
    causes = causes_of(weight, mistakes)
    if largest > 3.01 * sigma and abs(std / sigma - 1) < 0.03:
        causes = ["the initial weights are not truncated at 3 standard deviations"]
    if not is_cut_off or abs(std / (CUT_OFF * sigma) - 1) > 0.03:
        finding = (
            f"{name}: a fresh weight has standard deviation {std:.4g} and reaches up to"
            f" {largest:.4g}, expected N(0, {sigma:.4g}^2) truncated at {3 * sigma:.4g}"
        )
        report(finding, causes[:1], "")
    expect(
        abs(mean) < 6 * sigma / math.sqrt(weight.size),
        f"{name}: a fresh weight has mean {mean:.4g}, expected 0",
        "wrong-initialisation",
    )


def expect_all_different(fresh, name, question):
    same = [
        (i, j)
        for j, weight in enumerate(fresh)
        for i in range(j)
        if fresh[i].shape == weight.shape and np.array_equal(fresh[i], weight)
    ]
    expect(not same, f"{name}: two fresh weights are equal: {question}", "wrong-initialisation")


def linear_mistakes(d_in, d_out):
    """The standard deviations of a linear layer's fresh weights under each known mistake."""
    sigma = math.sqrt(2 / (d_in + d_out))
    return {
        "sigma is 2 / (d_in + d_out): that is the variance": sigma**2 * CUT_OFF,
        "sigma is 1": CUT_OFF,
        "sigma is sqrt(1 / d_in)": math.sqrt(1 / d_in) * CUT_OFF,
        "sigma is sqrt(2 / d_in)": math.sqrt(2 / d_in) * CUT_OFF,
        "sigma is sqrt(1 / (d_in + d_out))": sigma / math.sqrt(2) * CUT_OFF,
        "weights are uniform in +-1/sqrt(d_in), as in torch.nn.Linear": 1 / math.sqrt(3 * d_in),
        "weights are uniform (Xavier): draw from a normal distribution": sigma,
    }


@pytest.mark.problem("linear")
@pytest.mark.parametrize(("d_in", "d_out"), [(300, 100), (128, 256), (150, 150)])
def test_linear_starts_from_a_truncated_normal(observe, rng, d_in, d_out):
    given = rng.standard_normal((d_out, d_in)).astype(np.float32)
    case = {
        "d_in": d_in,
        "d_out": d_out,
        "weights": given,
        "in_features": np.stack([given[:3], given[3:6]]),
    }
    sigma, mistakes = math.sqrt(2 / (d_in + d_out)), linear_mistakes(d_in, d_out)
    fresh = fresh_weights(observe, "run_linear", case, [(d_out, d_in)], [given])
    if is_left_open(fresh):
        fresh, mistakes = in_model(observe, rng, "run_linear", (256, 96)), {}
        sigma = math.sqrt(2 / 352)
    for weight in fresh:
        expect_cut_off_normal(weight, sigma, "run_linear", mistakes)


@pytest.mark.problem("embedding")
def test_embedding_starts_from_a_truncated_normal(observe, rng):
    given = rng.standard_normal((400, 60)).astype(np.float32)
    case = {
        "vocab_size": 400,
        "d_model": 60,
        "weights": given,
        "token_ids": np.arange(6).reshape(2, 3),
    }
    mistakes = {
        "sigma is sqrt(2 / (vocab_size + d_model)), which is for linear layers": CUT_OFF
        * math.sqrt(2 / 460),
        "sigma is 0.02": 0.02 * CUT_OFF,
        "sigma is 1 / sqrt(d_model)": CUT_OFF / math.sqrt(60),
        "weights are uniform: draw from a normal distribution": 1.0,
    }
    fresh = fresh_weights(observe, "run_embedding", case, [(400, 60)], [given])
    if is_left_open(fresh):
        # The output head has the same shape and another standard deviation.
        head = CUT_OFF * math.sqrt(2 / 496)
        fresh = in_model(observe, rng, "run_embedding", (400, 96))
        fresh = [max(fresh, key=lambda weight: abs(math.log(weight.std() / head)))]
    for weight in fresh:
        expect_cut_off_normal(weight, 1.0, "run_embedding", mistakes)


SWIGLU_SHAPES = {"w1_weight": (256, 96), "w2_weight": (96, 256), "w3_weight": (256, 96)}


def swiglu_case(rng):
    given = {name: rng.standard_normal(s).astype(np.float32) for name, s in SWIGLU_SHAPES.items()}
    x = given["w1_weight"][:6].reshape(2, 3, 96)
    return {"d_model": 96, "d_ff": 256, **given, "in_features": x}


@pytest.mark.problem("positionwise_feedforward")
def test_swiglu_starts_from_truncated_normals(observe, rng):
    case = swiglu_case(rng)
    given = [case[name] for name in SWIGLU_SHAPES]
    fresh = fresh_weights(observe, "run_swiglu", case, SWIGLU_SHAPES.values(), given)
    if is_left_open(fresh):
        fresh = in_model(observe, rng, "run_swiglu", (256, 96))
    for weight in fresh:
        d_out, d_in = weight.shape
        mistakes = linear_mistakes(d_in, d_out)
        expect_cut_off_normal(weight, math.sqrt(2 / 352), "run_swiglu", mistakes)


@pytest.mark.problem("positionwise_feedforward")
def test_swiglu_starts_with_every_weight_drawn_by_itself(observe, rng):
    for module in observe(construction, function="run_swiglu", arguments=swiglu_case(rng)):
        fresh = [weight["values"] for weight in module["parameters"]]
        fresh = [w for w in fresh if w.shape in [(256, 96), (96, 256)]]
        is_empty = [bool(np.isnan(weight).any()) for weight in fresh]
        expect(
            not module["is_loading"] or all(is_empty) or not any(is_empty),
            f"run_swiglu: nothing is written to {sum(is_empty)} of {len(fresh)} fresh weights",
            "wrong-initialisation",
        )
        expect_all_different(fresh, "run_swiglu", "is the generator seeded in a constructor?")


@pytest.mark.problem("transformer_lm")
def test_model_starts_with_all_weights_drawn(observe, rng):
    case = model_case(rng, **MODEL)
    modules = observe(construction, function=LM, arguments=case)
    given = np.concatenate([weight.ravel() for weight in case["weights"].values()])
    head_sigma = math.sqrt(2 / 496)
    for module in (module for module in modules if module["is_loading"]):
        weights = [parameter["values"] for parameter in module["parameters"]]
        # Some are loaded already, fused perhaps, where an adapter loads them one by one.
        fresh = [weight for weight in weights if not np.isin(weight, given).all()]
        for weight in fresh:
            name = f"{LM}: as weights are loaded, a parameter of shape {weight.shape}"
            expect(
                not np.isnan(weight).any(),
                f"{name} holds whatever lay in memory: nothing was written to it",
                "wrong-initialisation",
            )
            is_table = 400 in weight.shape
            sigma = math.sqrt(2 / sum(weight.shape))
            least, most, asked = sigma / 3, 3 * sigma, f"{sigma:.3g}"
            if is_table:
                # The embedding or the output head; which sigma the former has is asked elsewhere.
                least, most = 0.015, 3.0
                asked = f"1 (embedding) or {head_sigma:.3g} (output head)"
            if is_matrix(weight) and not least <= weight.std() <= most:
                finding = f"{name} has standard deviation {weight.std():.3g}, expected about"
                d_out, d_in = weight.shape
                mistakes = {} if is_table else linear_mistakes(d_in, d_out)
                report(f"{finding} {asked}", causes_of(weight, mistakes)[:1], "")
        # Embedding and output head have one shape, and the head is a linear layer.
        tables = [weight.std() for weight in fresh if 400 in weight.shape]
        expect(
            len(tables) < 2 or min(tables) <= 3 * head_sigma,
            f"{LM}: as weights are loaded, the output head has standard deviation"
            f" {min(tables, default=0):.3g}, expected about {head_sigma:.3g}",
            "wrong-initialisation",
        )
        question = "is the generator seeded in a constructor, or a block copied?"
        expect_all_different(list(filter(is_matrix, fresh)), LM, question)


def is_matrix(weight):
    """Whether a parameter is a matrix, not the gain of a norm, of shape (1, d_model) perhaps."""
    return weight.ndim == 2 and min(weight.shape) > 1


@pytest.mark.problem("rmsnorm")
def test_rmsnorm_starts_from_a_gain_of_one(observe, rng):
    given = rng.uniform(0.5, 2, 48).astype(np.float32)
    case = {
        "d_model": 48,
        "eps": 1e-5,
        "weights": given,
        "in_features": rng.standard_normal((2, 3, 48)).astype(np.float32),
    }
    fresh = fresh_weights(observe, "run_rmsnorm", case, [(48,)], [given])
    if is_left_open(fresh):
        fresh = in_model(observe, rng, "run_rmsnorm", (96,))
    for weight in fresh:
        expect(
            bool(np.all(weight == oracles.fresh_weight())),
            f"run_rmsnorm: a fresh weight is {weight[:3].tolist()} ..., expected"
            f" {oracles.fresh_weight():g}",
            "wrong-initialisation",
        )


@pytest.mark.parametrize(
    ("function", "make_case"),
    [
        pytest.param(BLOCK, block_case, marks=pytest.mark.problem("transformer_block")),
        pytest.param(LM, model_case, marks=pytest.mark.problem("transformer_lm")),
    ],
    ids=["block", "model"],
)
def test_module_learns_the_given_weights_and_nothing_else(observe, rng, function, make_case):
    case = make_case(rng)
    given = sum(weight.size for weight in case["weights"].values())
    modules = observe(construction, function=function, arguments=case)
    learned = max((module["num_learned"] for module in modules), default=0)
    expect(
        learned <= given,
        f"{function}: a module has {learned} learned numbers, expected the {given} of the given"
        " weights: there are no biases and no other parameters",
        "extra-parameters",
    )


def rotation_case(rng):
    return {
        "d_k": 4,
        "theta": 100.0,
        "max_seq_len": 37,
        "in_query_or_key": rng.standard_normal((2, 3, 4)).astype(np.float32),
        "token_positions": np.arange(3),
    }


def long_model_case(rng):
    return model_case(rng) | {"context_length": 37}


@pytest.mark.parametrize(
    ("function", "make_case"),
    [
        pytest.param("run_rope", rotation_case, marks=pytest.mark.problem("rope")),
        pytest.param(LM, long_model_case, marks=pytest.mark.problem("transformer_lm")),
    ],
    ids=["rope", "model"],
)
def test_rope_tables_stay_out_of_the_state_dict(observe, rng, function, make_case):
    for module in observe(construction, function=function, arguments=make_case(rng)):
        tables = [buffer["values"].shape for buffer in module["saved_buffers"]]
        expect(
            not any(len(shape) > 1 and shape.count(37) == 1 for shape in tables),
            f"{function}: the state dict holds tables of shape {tables}: they can be computed"
            " again, so register them with persistent=False",
            "tables-in-state-dict",
        )
