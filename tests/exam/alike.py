"""What is asked alike of many adapters: each function makes a test of one of them.

test_output_is_the_same_each_time = same_each_time(LINEAR)
"""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
from adapter import Adapter, Case
from compare import (
    Array,
    expect,
    expect_close,
    expect_settled,
    expect_unchanged,
    in_either_form,
    noting,
)
from oracles import model as oracles
from probes.devices import follow
from probes.model import forward, forward_if_supported, forward_in_turns
from probes.modules import construction
from trials import is_alike

Test = Callable[..., None]
# Relative to the largest value. Some keep single results in 16 bits, others only the last one.
TOLERANCES = {"float32": 1e-4, "float64": 1e-4, "bfloat16": 0.1, "float16": 2e-2}
OF_SMALL_PARTS = {"float32": 1e-5, "float64": 1e-6, "bfloat16": 2e-2, "float16": 3e-3}


def as_number(output: Case) -> Case:
    """The loss as a tensor without axes; which shape it has is examined by itself."""
    values = output["values"]
    is_number = values is not None and values.size == 1
    return output | {"values": values.reshape(())} if is_number else output


def same_each_time(
    adapter: Adapter, other_form: Callable[[Case, Array], list[Any]] = lambda *form: [*form]
) -> Test:
    """The same inputs give the same output, however often they are given, and stay as they are.

    Args:
        adapter: What is asked.
        other_form: Makes the form of a question and its answer that some take alone.
    """

    def ask(observe: Callable[..., Any], case: Case, expected: Array) -> None:
        seen = observe(forward_in_turns, function=adapter.name, cases=[case] * 3)
        first, *others = [np.asarray(one["output"]["values"], float) for one in seen]
        is_settled = all(is_alike(first, other) for other in others)
        expect_settled(adapter.name, [] if is_settled else ["this call"])
        expect_unchanged(seen[0]["changed"], adapter.name)
        # The shape of a loss is examined elsewhere.
        output = seen[0]["output"] if expected.ndim else as_number(seen[0]["output"])
        expect_close(output, expected, adapter.name, tolerance=1e-4)

    def test(observe, rng):
        case = adapter.draw(rng)
        usual = [case, adapter.right(case)]
        in_either_form(ask, observe, usual, other_form(*usual))

    return test


def follows_its_device(adapter: Adapter) -> Test:
    """A module goes to another device with all that belongs to it.

    Only what an adapter calls as a module can be moved; a function that needs no module passes.
    """

    def test(observe, rng):
        complaint = observe(follow, function=adapter.name, arguments=adapter.draw(rng))
        expect(
            complaint == "",
            f"{adapter.name}: the module that answers was moved to another device with .to(device),"
            f" and something stayed behind ({complaint})\n"
            "  Tables that are plain tensors stay, and masks or positions that are made without"
            " device=x.device: use register_buffer, and make tensors where x is.",
            "something-stays-behind",
        )

    return test


def right_in_each_dtype(
    adapter: Adapter,
    draw: Callable[..., Case] | None = None,
    required: Collection[str] = (),
    is_small: bool = False,
) -> Test:
    """Each float type is answered rightly, as far as it is supported.

    Args:
        adapter: What is asked.
        draw: Draws the case, if not as the adapter does.
        required: Types that may not be refused.
        is_small: Whether the answer has to be of that type and about as exact. What is built from
            such parts would pay for the same once more.
    """

    @pytest.mark.parametrize("dtype", TOLERANCES)
    def test(observe, rng, dtype):
        dtypes: dict[str, str] = {}

        def in_dtype(values: Case) -> Case:
            """Round all floats, and note their names."""
            rounded = dict(values)
            for name, value in values.items():
                if isinstance(value, dict):
                    rounded[name] = in_dtype(value)
                elif isinstance(value, np.ndarray) and value.dtype == np.float32:
                    rounded[name], dtypes[name] = oracles.rounded(value, dtype), dtype
            return rounded

        case = in_dtype((draw or adapter.draw)(rng))
        probe = forward if dtype in required else forward_if_supported
        with noting(
            f"in float32; {dtype} has to work, too",
            lambda: observe(forward, function=adapter.name, arguments=case),
        ):
            seen = observe(probe, function=adapter.name, arguments=case, dtypes=dtypes)
        if seen is None:
            return
        expect_close(
            seen["output"],
            adapter.right(case),
            f"{adapter.name} in {dtype}",
            dtypes=dtype if is_small else [dtype, "float32"],
            tolerance=(OF_SMALL_PARTS if is_small else TOLERANCES)[dtype],
        )

    return test


def takes_a_long_sequence(
    adapter: Adapter, draw: Callable[..., Case], key: str = "in_features", tolerance: float = 1e-4
) -> Test:
    """A sequence may be longer than whatever a mask or a table might have been made for."""

    def test(observe, rng):
        case = draw(rng)
        length = case[key].shape[1]
        short = {**case, key: case[key][:, :5]}
        if "token_positions" in case:
            short["token_positions"] = case["token_positions"][:5]
        with noting(
            f"with 5 positions; here there are {length}, which is allowed",
            control=lambda: observe(forward, function=adapter.name, arguments=short),
        ):
            seen = observe(forward, function=adapter.name, arguments=case)
        name = f"{adapter.name} of {length} positions"
        expect_close(seen["output"], adapter.right(case), name, tolerance=tolerance)

    return test


def learns_nothing_else(adapter: Adapter) -> Test:
    """A module learns the given weights, all of them and nothing else."""

    def test(observe, rng):
        case = adapter.draw(rng)
        given = sum(weight.size for weight in case["weights"].values())
        modules = observe(construction, function=adapter.name, arguments=case)
        hidden = max((module["num_hidden"] for module in modules), default=0)
        expect(
            hidden == 0,
            f"{adapter.name}: a module holds others in a plain list, tuple or dict, with {hidden}"
            " parameters that parameters(), state_dict() and to(device) do not see: use"
            " nn.ModuleList or nn.ModuleDict",
            "modules-in-a-plain-list",
        )
        learned = max((module["num_learned"] for module in modules), default=0)
        expect(
            learned <= given,
            f"{adapter.name}: a module has {learned} learned numbers, expected the {given} of the"
            " given weights: there are no biases and no other parameters",
            "extra-parameters",
        )

    return test


def keeps_tables_out_of_the_state(adapter: Adapter, **length_of_37: int) -> Test:
    """The tables of RoPE can be computed again.

    Args:
        adapter: What is asked.
        length_of_37: The argument that says how long tables are; no other size is 37.
    """

    def test(observe, rng):
        case = adapter.draw(rng) | length_of_37
        for module in observe(construction, function=adapter.name, arguments=case):
            tables = [buffer["values"].shape for buffer in module["saved_buffers"]]
            expect(
                not any(len(shape) > 1 and shape.count(37) == 1 for shape in tables),
                f"{adapter.name}: the state dict holds tables of shape {tables}: they can be"
                " computed again, so register them with persistent=False",
                "tables-in-state-dict",
            )

    return test
