"""AdamW."""

import contextlib
import functools

import numpy as np
import pytest
from compare import expect, expect_close, noting
from mistakes import training as mistakes
from oracles import CHOSEN
from oracles import training as oracles
from probes.devices import step_elsewhere
from probes.training import closure_step, optimize, takes_float64
from trials import ask, once, possible

# Decay before or after the update and either placement of eps stay below 1e-5 with these.
OPTIONS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.3}
TOLERANCE = 1e-5
SHOWN = {"lr": 0.03} if "decay_last" in CHOSEN else {}
"""What shows the order of decay and update, where a contract asks for one."""
HARDLY_ANY = 1e-7
"""A decay that does not show: of 0 another item asks."""

READ_OPTIONS = (
    "If one group with fixed options is right: is every option read from the group, at every step?"
)

FROM_0 = "At t = 0, 1 - beta1^t is 0, and what is divided by it is no number: count steps from 1."
LIKE_A_LIST = {
    "generator": "any iterable may be given, here a generator",
    "groups": 'groups may be given, too: dicts with "params" and options of their own',
}


def draw(rng, shapes, steps, missing=(), size=1.0):
    """Parameters and gradients; `missing` lists (step, parameter) without a gradient."""
    parameters = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    gradients = [
        [
            None
            if (step, place) in missing
            else (size * (1 + step) * away_from_zero(rng.standard_normal(shape))).astype(np.float32)
            for place, shape in enumerate(shapes)
        ]
        for step in range(steps)
    ]
    return parameters, gradients


def away_from_zero(values):
    """Move each value by 0.1: beside a gradient near zero eps would weigh, wherever it stands."""
    return values + np.copysign(0.1, values)


def complete(gradients, groups):
    """Put ones where there is no gradient."""
    parameters = [array for group in groups for array in group["params"]]
    return [
        [np.ones_like(p) if g is None else g for g, p in zip(row, parameters, strict=True)]
        for row in gradients
    ]


@once
def trials(observe):
    rng = np.random.default_rng(0)

    def question(label, shapes, steps, options, missing=(), groups=None, size=1.0, **others):
        parameters, gradients = draw(rng, shapes, steps, missing, size)
        given = {
            "groups": [{"params": parameters}] if groups is None else groups(parameters),
            "options": {**OPTIONS, **options},
            "gradients": gradients,
            **others,
        }
        return label, given

    for label, given in [
        question("one step", [(4,), (2, 3)], 1, {}),
        question("six steps", [(4,), (2, 3)], 6, SHOWN),
        question(
            "betas (0.8, 0.95)",
            [(6,)],
            6,
            {"betas": (0.8, 0.95), "lr": 1e-2, "weight_decay": 0.0},
        ),
        question("no weight decay", [(6,)], 5, {"weight_decay": 0.0}),
        question("weight_decay=1", [(4,), (2, 3)], 5, {"weight_decay": 1.0}),
        # With betas of 0 either placement of eps is the same.
        question(
            "eps=0.1, betas (0, 0)",
            [(6,)],
            3,
            {"eps": 0.1, "betas": (0.0, 0.0), "weight_decay": 0.0},
        ),
        question("gradients far below eps", [(6,)], 3, {"lr": 1e-2}, size=1e-13),
        question("gradients that are missing", [(3,), (4,)], 6, {}, missing={(0, 1), (3, 1)}),
        question("a rate for each step", [(5,)], 4, {}, rates=[1e-3, 5e-3, 0.0, 2e-3]),
        question(
            "two groups",
            [(3,), (4,)],
            4,
            {},
            groups=lambda given: [
                {"params": given[:1], "lr": 2e-3},
                {"params": given[1:], "lr": 5e-3, "weight_decay": 0.0},
            ],
            given_as="groups",
        ),
    ]:
        asked = {name: value for name, value in given.items() if name != "given_as"}
        answers = mistakes.adamw(*(asked.get(name) for name in ARGUMENTS))
        yield ask(
            observe,
            label,
            flat(oracles.adamw(**asked)),
            {what: flat(trail) for what, trail in answers.items()},
            read=lambda seen: flat([[p["values"] for p in row] for row in seen["trail"]]),
            tolerance=2 * TOLERANCE,
            scale=1.0,
            probe=optimize,
            **given,
        )


ARGUMENTS = ("groups", "options", "gradients", "rates")


def flat(trail):
    return np.concatenate([np.ravel(p) for row in trail for p in row])


def examine(observe, groups, options, gradients, rates=None, changes=None, **how):
    case = {"groups": groups, "options": options, "gradients": gradients, "rates": rates}
    asked = {**case, "changes": changes, **how}
    given_as, others = how.get("given_as"), {}
    if how.get("added_after") is None and given_as in LIKE_A_LIST:
        others[f"with a list of parameters; {LIKE_A_LIST[given_as]}"] = {"given_as": "list"}
    if how.get("added_after") is not None:
        others["if all groups are given at the start; add_param_group may bring another one"] = {
            "added_after": None
        }
    elif any(g is None for row in gradients for g in row):
        others["if every parameter has a gradient; one without has to be skipped"] = {
            "gradients": complete(gradients, groups)
        }
    with contextlib.ExitStack() as stack:
        for difference, other in others.items():
            control = functools.partial(observe, optimize, **{**asked, **other})
            stack.enter_context(noting(difference, control))
        seen = observe(optimize, **asked)
    expected = oracles.adamw(**case, changes=changes)
    expect(
        not (changes or any(len(group) > 1 for group in groups)) or {*OPTIONS} <= {*seen["names"]},
        f"AdamW keeps the options of a group under the names {', '.join(seen['names'])}: options of"
        f" groups are given, and set later, under the names {', '.join(OPTIONS)}",
        "options-under-other-names",
    )
    starts = [array for group in groups for array in group["params"]]
    usual = READ_OPTIONS if changes or any(len(group) > 1 for group in groups) else ""
    for step, row in enumerate(expected):
        for place, parameter in enumerate(row):

            def wrong(step=step, place=place):
                is_any_left = bool(possible(trials(observe)))
                given = groups, options, gradients, rates, changes
                trails = mistakes.adamw(*given) if is_any_left else {}
                answers = {
                    what: trail[step][place]
                    for what, trail in trails.items()
                    if is_whole(seen["trail"], trail)
                }
                is_first = place < len(groups[0]["params"])
                if not is_first and how.get("added_after") is not None:
                    answers["a group that is added later is not updated"] = starts[place]
                answers |= {
                    what: trail[step][place]
                    for what, trail in restarts(
                        groups, options, gradients, how.get("restart_after")
                    ).items()
                }
                return answers

            expect_close(
                seen["trail"][step][place],
                parameter,
                f"AdamW: {named(groups, place)} after step {step + 1}"
                + (f" at lr={rates[step]}" if rates else ""),
                dtypes=str(starts[place].dtype),
                tolerance=TOLERANCE,
                scale=1.0,
                mistakes=wrong,
                trials=lambda: trials(observe),
                hint=FROM_0 if is_nan_at_once(seen["trail"], gradients) else usual,
            )


def is_nan_at_once(observed, gradients):
    """Whether the first step gives no number where no gradient is 0."""
    first = [parameter["values"] for parameter in observed[0]]
    return all(
        values is not None and np.isnan(values).all() and g is not None and np.all(g)
        for values, g in zip(first, gradients[0], strict=True)
    )


def is_whole(observed, trail):
    """Whether a mistake explains every parameter after every step."""
    got = flat([[parameter["values"] for parameter in row] for row in observed])
    return bool(np.allclose(got, flat(trail), rtol=0, atol=3 * TOLERANCE, equal_nan=True))


def named(groups, place):
    """Name a parameter by its place among those of all groups, with what its group alone has."""
    owners = [group for group in groups for _ in group["params"]]
    own = {name: value for name, value in owners[place].items() if name != "params"}
    return f"parameter {place}" + (f", whose group has {said(own)}," if own else "")


def said(options):
    return ", ".join(f"{name}={value}" for name, value in options.items())


def restarts(groups, options, gradients, restart_after):
    """All parameters after each step if a restart forgets some of the optimizer's state."""
    if restart_after is None:
        return {}
    before = oracles.adamw(groups, options, gradients[:restart_after])
    after = oracles.adamw([{"params": before[-1]}], options, gradients[restart_after:])
    return {
        "state_dict() lacks the moments of a parameter: keep them in self.state[p]": before + after,
        "state_dict() lacks the step count: keep it in self.state": mistakes.recounting_adamw(
            groups, options, gradients, restart_after
        ),
    }


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.8, 0.95)])
def test_adamw_follows_the_algorithm(observe, rng, betas):
    # A model has many parameters: what is right for a single one only is not the algorithm.
    parameters, gradients = draw(rng, [(3, 4), (5,)], steps=6)
    examine(observe, [{"params": parameters}], {**OPTIONS, **SHOWN, "betas": betas}, gradients)


@pytest.mark.parametrize("option", [{"betas": (0.0, 0.9)}, {"weight_decay": 0.0}], ids=str)
def test_adamw_takes_an_option_of_zero(observe, rng, option):
    parameters, gradients = draw(rng, [(5,), (2, 2)], steps=4)
    groups = [{"params": parameters}]
    with noting(
        "if betas and weight_decay are above 0; they may be 0, too",
        lambda: examine(observe, groups, OPTIONS, gradients),
    ):
        examine(observe, groups, {**OPTIONS, **option}, gradients)


@pytest.mark.parametrize("weight_decay", [0.01, 1.0])
def test_adamw_decays_weights_apart_from_the_gradient(observe, rng, weight_decay):
    parameters, gradients = draw(rng, [(5,), (2, 2)], steps=4)
    options = {**OPTIONS, "lr": 5e-4, **SHOWN, "weight_decay": weight_decay}
    examine(observe, [{"params": parameters}], options, gradients)


def test_adamw_leaves_gradients_alone(observe, rng):
    parameters, gradients = draw(rng, [(5,), (2, 2)], steps=2)
    groups = [{"params": parameters}]
    seen = observe(optimize, groups=groups, options=OPTIONS, gradients=gradients)
    expect(
        not seen["gradients_changed"],
        "AdamW.step() changed p.grad; logging and clipping still need it as it was",
        "gradients-changed",
    )
    expect(
        seen["gradients_stay_on"],
        "AdamW.step() leaves gradients switched off, so that the next backward() fails:"
        " write `with torch.no_grad():`, which switches them on again",
        "gradients-stay-off",
    )


def test_adamw_decays_a_parameter_whose_gradient_is_zero(observe, rng):
    parameters, gradients = draw(rng, [(4,)], steps=4, size=0.0)
    examine(observe, [{"params": parameters}], OPTIONS, gradients)


def test_adamw_adds_eps_outside_the_root(observe, rng):
    parameters, gradients = draw(rng, [(6,)], steps=4)
    # Gradients small enough for eps to weigh inside the root, but far above it.
    gradients = [[np.float32(1e-4) * np.sign(g) * (1 + g**2)] for (g,) in gradients]
    options = {**OPTIONS, "eps": 1e-9}
    examine(observe, [{"params": parameters}], options, gradients)


@pytest.mark.parametrize("given_as", ["list", "generator"])
def test_adamw_takes_any_iterable_of_parameters(observe, rng, given_as):
    parameters, gradients = draw(rng, [(3,), (2,)], steps=3)
    groups = [{"params": parameters}]
    examine(observe, groups, OPTIONS, gradients, given_as=given_as)


def test_adamw_gives_each_group_its_own_options(observe, rng):
    parameters, gradients = draw(rng, [(3,), (2,), (4,)], steps=5)
    groups = [
        {"params": parameters[:2], "weight_decay": 0.1},
        {"params": parameters[2:], "lr": 2e-3, "betas": (0.7, 0.9), "eps": 1e-7},
    ]
    examine(observe, groups, OPTIONS, gradients, given_as="groups")


def test_adamw_reads_the_learning_rate_at_every_step(observe, rng):
    parameters, gradients = draw(rng, [(3,), (2,)], steps=6)
    rates = [1e-3, 5e-4, 1e-5, 1.5e-3, 2e-3, 1e-4]
    examine(observe, [{"params": parameters}], OPTIONS, gradients, rates)


def test_adamw_reads_every_option_at_every_step(observe, rng):
    parameters, gradients = draw(rng, [(3,), (2,)], steps=5)
    changes = [
        {},
        {"weight_decay": 0.1},
        {"betas": (0.5, 0.9)},
        {"weight_decay": 1.0},
        {"lr": 5e-4},
    ]
    examine(observe, [{"params": parameters}], OPTIONS, gradients, changes=changes)


def test_adamw_reads_eps_at_every_step(observe, rng):
    parameters, gradients = draw(rng, [(3,), (2,)], steps=16)
    gradients = [[far_from_zero(g) / (1 + step) for g in row] for step, row in enumerate(gradients)]
    # Late, when the corrections are almost 1: either placement of eps is the same then.
    changes = [{}] * 13 + [{"eps": 1.0}, {}, {"eps": 1e-8}]
    options = {**OPTIONS, "betas": (0.5, 0.4), "weight_decay": HARDLY_ANY}
    examine(observe, [{"params": parameters}], options, gradients, changes=changes)


def test_adamw_hardly_moves_for_gradients_far_below_eps(observe, rng):
    # So far below that it does not show whether eps meets the corrected moment or the plain one.
    parameters, gradients = draw(rng, [(6,)], steps=4, size=1e-13)
    options = {**OPTIONS, "lr": 1e-2, "weight_decay": HARDLY_ANY}
    examine(observe, [{"params": parameters}], options, gradients)


def test_adamw_calls_the_closure_before_it_looks_at_gradients(observe):
    seen = observe(closure_step, options=OPTIONS)
    if seen is None:
        return  # A step() without a parameter for it promises nothing.
    calls, moved, returned = seen["calls"], seen["moved"], seen["returned"]
    expect(calls == 1, f"AdamW.step(closure) called the closure {calls} times, expected once")
    expect(moved, "AdamW.step(closure) used old gradients: call the closure first")
    expect(returned == 2.5, f"AdamW.step(closure) returned {returned}, expected the loss, 2.5")


def test_adamw_skips_a_parameter_without_a_gradient(observe, rng):
    parameters, gradients = draw(rng, [(3,), (2,)], 5, missing={(step, 1) for step in range(5)})
    examine(observe, [{"params": parameters}], OPTIONS, gradients)


def test_adamw_counts_the_steps_of_each_parameter(observe, rng):
    missing = {(0, 1), (1, 1), (2, 1), (4, 0)}
    parameters, gradients = draw(rng, [(3,), (2,)], 7, missing)
    examine(observe, [{"params": parameters}], OPTIONS, gradients)


@pytest.mark.parametrize("restart_after", [1, 3])
def test_adamw_goes_on_from_its_saved_state(observe, rng, restart_after):
    parameters, gradients = draw(rng, [(3,), (2, 2)], steps=6)
    # A rate so small that the moments need not be exact, but have to be there.
    options = {**OPTIONS, "lr": 5e-4}
    examine(observe, [{"params": parameters}], options, gradients, restart_after=restart_after)


def test_adamw_does_not_mind_another_optimizer(observe, rng):
    parameters, gradients = draw(rng, [(3,), (2,)], steps=4)
    # Beta2 so near to 1 that the bias correction tells the hundredth step from the first.
    options = {**OPTIONS, "lr": 0.1, "betas": (0.9, 0.9999)}
    asked = {"groups": [{"params": parameters}], "options": options, "gradients": gradients}
    first, second = (
        flat([[p["values"] for p in row] for row in observe(optimize, **asked)["trail"]])
        for _ in range(2)
    )
    expect(
        np.allclose(first, second, rtol=0, atol=1e-5, equal_nan=True),
        "AdamW: two optimizers were given the same parameters and gradients, one after the other,"
        " and took different steps. Steps and moments start anew with each optimizer: keep them in"
        " self.state, not in the class",
        "state-outlives-the-optimizer",
    )
    examine(observe, [{"params": parameters}], OPTIONS, gradients, rival=2)


def test_adamw_keeps_parameters_small_after_many_steps(observe, rng):
    parameters, gradients = draw(rng, [(4,)], steps=1)
    gradients = [[np.ones(4, np.float32) * (-1) ** (step // 3)] for step in range(60)]
    options = {**OPTIONS, "lr": 1e-4}
    examine(observe, [{"params": parameters}], options, gradients)


@pytest.mark.parametrize("options_of_its_own", [{}, {"lr": 2e-3, "weight_decay": 0.1}], ids=len)
def test_adamw_updates_a_group_that_is_added_later(observe, rng, options_of_its_own):
    missing = {(0, 1), (1, 1)}
    parameters, gradients = draw(rng, [(3,), (2,)], 5, missing)
    groups = [{"params": parameters[:1]}, {"params": parameters[1:], **options_of_its_own}]
    examine(observe, groups, OPTIONS, gradients, given_as="groups", added_after=2)


def test_adamw_keeps_float64(observe, rng):
    parameters, gradients = draw(rng, [(3,), (2, 2)], steps=4)
    parameters = [array.astype(np.float64) for array in parameters]
    gradients = [[array.astype(np.float64) for array in row] for row in gradients]
    inputs = {"groups": [{"params": parameters}], "options": OPTIONS, "gradients": gradients}
    if observe(takes_float64, kind="optimize", inputs=inputs):
        examine(observe, [{"params": parameters}], OPTIONS, gradients)


def test_adamw_gives_every_parameter_of_many_its_own_state(observe, rng):
    shapes = [(2,)] * 12 + [(2, 2)] * 4 + [(1,), (), (1, 4)]
    parameters, gradients = draw(rng, shapes, steps=5)
    examine(observe, [{"params": parameters}], OPTIONS, gradients)


def far_from_zero(gradient):
    """Where a gradient is near zero, the place of eps decides the step."""
    return np.float32(np.sign(gradient) * (np.abs(gradient).max() + np.abs(gradient)) / 2)


def test_adamw_is_exact_with_a_large_rate(observe, rng):
    # Nothing that may be done in either order weighs here, but the moments do.
    parameters, gradients = draw(rng, [(8,), (3, 4)], steps=5)
    gradients = [[far_from_zero(g) for g in row] for row in gradients]
    options = {**OPTIONS, "lr": 0.1, "weight_decay": HARDLY_ANY}
    examine(observe, [{"params": parameters}], options, gradients)


def test_adamw_forgets_large_gradients(observe, rng):
    parameters, gradients = draw(rng, [(6,)], steps=6)
    gradients = [[far_from_zero(g * 0.3**step)] for step, (g,) in enumerate(gradients)]
    options = {**OPTIONS, "lr": 0.02, "betas": (0.5, 0.8), "weight_decay": HARDLY_ANY}
    examine(observe, [{"params": parameters}], options, gradients)


def test_adamw_keeps_its_state_on_the_device_of_the_parameter(observe):
    options = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1}
    complaint = observe(step_elsewhere, options=options)
    expect(
        complaint == "",
        f"AdamW: its parameter is on another device, and something is not ({complaint})\n"
        "  torch.zeros(p.shape) is made on the CPU: use torch.zeros_like(p).",
        "something-stays-behind",
    )
