"""The weights that a fresh module starts from.

Seen as the module's constructor returns, and as an adapter loads its own weights. A layer that
leaves its weights to the model (model.apply) is seen in the model. Code without modules, or whose
constructors take the weights, shows nothing here and passes.
"""

import math

import numpy as np
from cases import model_case
from compare import expect, report
from probes.modules import construction

LARGER_MODEL = {"d_model": 96, "d_ff": 256, "vocab_size": 400, "num_layers": 2, "num_heads": 24}
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
    case = model_case(rng, **LARGER_MODEL)
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
        "std is not passed to trunc_normal_, so that weights are nearly uniform": sigma
        * math.sqrt(3)
        * (1 - 0.6 * sigma**2),
        "weights are uniform in +-1/sqrt(d_in), as in torch.nn.Linear": 1 / math.sqrt(3 * d_in),
        "weights are uniform (Xavier): draw from a normal distribution": sigma,
    }
