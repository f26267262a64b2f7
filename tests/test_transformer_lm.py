"""The Transformer language model."""

import functools
import math

import numpy as np
import pytest
from adapter import Adapter
from alike import (
    follows_its_device,
    keeps_tables_out_of_the_state,
    learns_nothing_else,
    right_in_each_dtype,
    same_each_time,
    takes_a_long_sequence,
)
from cases import calmed, model_case, normal
from compare import AT_LEAST_FLOAT32, expect, expect_close, expect_tensor, noting, report, runs
from difficulties import D_FF_OF_64, OTHER_SETTINGS, OTHER_SIZES
from initialisation import LARGER_MODEL, causes_of, expect_all_different, linear_mistakes
from mistakes import transformer as mistakes
from oracles import model as oracles
from probes.model import forward
from probes.modules import construction

MODEL = "run_transformer_lm"


def values_of(case):
    names = ("in_indices", "weights", "num_layers", "num_heads", "rope_theta")
    return [case[name] for name in names]


def cases(rng):
    return {
        "one layer": model_case(rng, num_layers=1),
        "two layers": model_case(rng),
        "three layers": model_case(rng, num_layers=3),
        "one position": model_case(rng, length=1),
        "as many positions as the context": model_case(rng, length=16),
        "theta=10000": model_case(rng, theta=10000.0),
        "eleven layers": model_case(rng, batch=1, length=3, num_layers=11),
    }


LM = Adapter(
    MODEL,
    model_case,
    lambda case: oracles.transformer_lm(*values_of(case)),
    lambda case: mistakes.transformer_lm(*values_of(case), case["context_length"]),
    cases,
    tolerance=1e-4,
)


def long_case(rng):
    # Here context_length says it; some make a mask for 1,024 whatever it says.
    return model_case(rng, length=1100, num_layers=1, vocab_size=5) | {"context_length": 1100}


@pytest.mark.parametrize("batch", [2, 3, 4])
def test_model_returns_logits_for_every_position(observe, rng, batch):
    LM.examine(observe, model_case(rng, batch))


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_model_runs_its_blocks_in_order(observe, rng, num_layers):
    LM.examine(observe, model_case(rng, num_layers=num_layers))


def test_model_takes_a_vocabulary_smaller_than_d_model(observe, rng):
    LM.examine(observe, model_case(rng, vocab_size=3))


@pytest.mark.parametrize(("d_model", "num_heads"), [(4, 1), (8, 2), (16, 4)])
def test_model_takes_any_number_of_heads(observe, rng, d_model, num_heads):
    LM.examine(observe, model_case(rng, d_model=d_model, num_heads=num_heads))


@pytest.mark.parametrize("d_ff", [5, 8, 20])
def test_model_takes_any_d_ff(observe, rng, d_ff):
    LM.examine_beyond(observe, model_case(rng), D_FF_OF_64, model_case(rng, d_ff=d_ff))


@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (1, 1)])
def test_model_takes_one_row_or_position(observe, rng, batch, length):
    LM.examine_beyond(observe, model_case(rng), OTHER_SIZES, model_case(rng, batch, length))


@pytest.mark.parametrize("length", [2, 9, 16])
def test_model_takes_any_length(observe, rng, length):
    plain, case, whole = (model_case(rng, length=n) for n in (5, length, 16))
    aside = functools.partial(observe, aside=True)
    with noting(
        "with 16 positions, as many as context_length; there may be fewer",
        lambda: LM.examine(aside, whole),
    ):
        LM.examine_beyond(observe, plain, OTHER_SIZES, case)


@pytest.mark.parametrize(("d_model", "num_heads"), [(6, 1), (8, 4), (12, 2)])
def test_model_takes_any_size_of_heads(observe, rng, d_model, num_heads):
    plain, case = model_case(rng), model_case(rng, d_model=d_model, num_heads=num_heads)
    LM.examine_beyond(observe, plain, OTHER_SETTINGS, case)


@pytest.mark.parametrize("theta", [10.0, 10000.0])
def test_model_uses_the_given_theta(observe, rng, theta):
    LM.examine_beyond(observe, model_case(rng), OTHER_SETTINGS, model_case(rng, theta=theta))


def test_model_takes_ids_that_are_not_contiguous(observe, rng):
    LM.examine_strided(observe, model_case(rng), "in_indices")


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


def test_model_passes_gradients_to_every_weight(observe, rng):
    case = model_case(rng)
    LM.examine_slopes(observe, rng, case, normal(rng, 2, 5, case["vocab_size"]))


def test_model_scores_each_row_of_a_batch_on_its_own(observe, rng):
    case = model_case(rng, batch=3)
    case["in_indices"][1] = case["in_indices"][0]
    LM.examine(observe, case)


@pytest.mark.parametrize("num_layers", [4, 12])
def test_model_keeps_its_many_blocks_in_order(observe, rng, num_layers):
    # layers.10 comes before layers.2 where names are sorted.
    LM.examine(observe, model_case(rng, num_layers=num_layers))


def test_model_adds_an_eps_of_1e_5_in_its_last_norm(observe, rng):
    case = model_case(rng, num_layers=1)
    weights = case["weights"]
    # The mean square of such a stream is 4e-6: below the eps of 1e-5.
    weights["token_embeddings.weight"] *= np.float32(2e-3)
    # A silent block: the stream that reaches the last norm is the embedding, as small as it is.
    weights["layers.0.attn.output_proj.weight"][:] = 0
    weights["layers.0.ffn.w2.weight"][:] = 0
    LM.examine(
        observe,
        case,
        mistakes=lambda: mistakes.last_eps_of_silent_blocks(case["in_indices"], weights),
        trials=tuple,
    )


def test_model_starts_with_all_weights_drawn(observe, rng):
    case = model_case(rng, **LARGER_MODEL)
    modules = observe(construction, function=MODEL, arguments=case)
    given = np.concatenate([weight.ravel() for weight in case["weights"].values()])
    head_sigma = math.sqrt(2 / 496)
    for module in (module for module in modules if module["is_loading"]):
        weights = [parameter["values"] for parameter in module["parameters"]]
        # Some are loaded already, fused perhaps, where an adapter loads them one by one.
        fresh = [weight for weight in weights if not np.isin(weight, given).all()]
        for weight in fresh:
            name = f"{MODEL}: as weights are loaded, a parameter of shape {weight.shape}"
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
            f"{MODEL}: as weights are loaded, the output head has standard deviation"
            f" {min(tables, default=0):.3g}, expected about {head_sigma:.3g}",
            "wrong-initialisation",
        )
        question = "is the generator seeded in a constructor, or a block copied?"
        expect_all_different(list(filter(is_matrix, fresh)), MODEL, question)


def is_matrix(weight):
    """Whether a parameter is a matrix, not the gain of a norm, of shape (1, d_model) perhaps."""
    return weight.ndim == 2 and min(weight.shape) > 1


# A residual stream so small that attention decides, and scores so small that rounding does not.
CALM = [("token_embeddings", 0.05), ("ffn", 0.2), ("q_proj", 0.5), ("k_proj", 0.5)]


def test_model_keeps_its_positions_apart_in_bfloat16(observe, rng):
    """Rounding moves every result a little; rounded angles turn far positions by a radian.

    bfloat16 has no odd numbers from 257 on. The second pair of a head turns by 0.502 for each
    position, which is halfway between two numbers of bfloat16.
    """
    settings = {"num_layers": 1, "num_heads": 8, "d_model": 32, "d_ff": 128, "vocab_size": 16}
    case = model_case(rng, length=500, theta=3.97, **settings) | {"context_length": 500}
    for key, weight in case["weights"].items():
        weight *= np.float32(next((by for part, by in CALM if part in key), 1))
        case["weights"][key] = oracles.rounded(weight, "bfloat16")
    dtypes = dict.fromkeys(case["weights"], "bfloat16")

    def ask(case, dtypes):
        return observe(forward, function=MODEL, arguments=case, dtypes=dtypes)

    short = case | {"in_indices": case["in_indices"][:, :5]}
    try:
        seen = ask(case, dtypes)["output"]
    except Exception:
        if runs(lambda: ask(short, {})) and not runs(lambda: ask(short, dtypes)):
            return  # What runs in float32 alone is asked elsewhere.
        raise
    expected = LM.right(case)
    name = f"{MODEL} in bfloat16 at positions from 257 on"
    expect_tensor(seen, expected.shape, name, ["bfloat16", "float32"])
    far, right = seen["values"][:, 257:], expected[:, 257:]
    # By 0.03 at most where only results are rounded, by 0.29 or more where angles are.
    error = float(np.sqrt(np.mean((far - right) ** 2) / np.mean(right**2)))
    finding = f"{name}: logits are off by {error:.2g} of their size, allowed 0.1"
    if error >= 0.1:
        wide = ask(case, {})["output"]
        expect_close(wide, expected, f"{finding}; in float32, too", tolerance=1e-3)
    expect(
        error < 0.1,
        f"{finding}\n"
        "  Are positions, or the frequencies of RoPE, rounded to bfloat16, as by"
        " torch.arange(..., dtype=x.dtype) or model.to(torch.bfloat16)? Make angles in float32.",
        "angles-in-bfloat16",
    )


test_module_goes_to_another_device_as_a_whole = follows_its_device(LM)
test_module_learns_the_given_weights_and_nothing_else = learns_nothing_else(LM)
test_rope_tables_stay_out_of_the_state_dict = keeps_tables_out_of_the_state(LM, context_length=37)
test_output_is_the_same_each_time = same_each_time(LM)
# Angles of float32 are exact to 6e-5 there.
test_model_takes_a_long_sequence = takes_a_long_sequence(LM, long_case, "in_indices", 1e-3)
test_model_is_right_in_each_dtype = right_in_each_dtype(
    LM, lambda rng: calmed(model_case(rng)), required=["bfloat16"]
)
