"""Notices operators of PyTorch that no known solution of a problem uses.

    notice(of_no_problem(), tell)            # in the server, once
    notice(of_other_problems("silu"), tell)  # in a host, for its problem

operators.toml lists what known solutions call, collected by scripts/instructor/operators.py. Any
other operator still does its work, but its caller is reported first, so that a person can see
whether it does what the student was to write. Operators that have to be forbidden are in
forbidden.py; this is for the other ways to the same result, which nobody has thought of.

Only operators that do the work count. If PyTorch takes one apart into others (einsum), only its
parts are looked at; one that PyTorch calls for a gradient is not the student's choice.

A listed operator costs nothing extra: PyTorch's dispatcher calls this module only for the others,
in all threads and in every process that is forked. Operators that are registered later (the
submission's own) are not seen, nor is what runs without the dispatcher (NumPy, C).
"""

import functools
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType
from typing import Any

from cs_grader.sandbox.libraries import Libraries
from cs_grader.sandbox.places import calling_place, is_own

LIST = Path(__file__).with_name("operators.toml")
# A dispatch key that operators on any tensor pass, below gradients and above the kernels.
KEY = "BackendSelect"
# Where PyTorch computes gradients: below this function nothing is of a submission's choosing.
GRADIENTS = "_engine_run_backward"
NUMBERS = (int, float, complex)
# PyTorch calls detach to make a parameter, for a tensor that Python has not seen yet. A data loader
# calls random_ to draw the seed of its workers. Both happen whatever the problem.
# Arithmetic is everybody's: what is written with it is written oneself.
PASSED_OVER = frozenset(
    {
        *("aten::detach", "aten::random_"),
        *(
            f"{namespace}::{name}{ending}"
            for namespace in ("aten", "prims")
            for name in ("add", "sub", "rsub", "mul", "div", "neg", "pow", "reciprocal", "square")
            for ending in ("", "_")
        ),
    }
)

Tell = Callable[[str, str, int], None]
"""Called with an operator, and the file and line of its caller."""


@functools.cache
def listed() -> dict[str, frozenset[str]]:
    """For each operator in the list, the problems that known solutions use it in.

    On some paths PyTorch takes an operator (aten::rsqrt) apart into a primitive of the same name
    (prims::rsqrt), so the primitive is listed with it.
    """
    rows = tomllib.loads(LIST.read_text(encoding="utf-8"))
    found = {name: frozenset(problems.split()) for name, problems in rows.items()}
    for name in [*found]:
        primitive = name.replace("aten::", "prims::")
        found[primitive] = found.get(primitive, frozenset()) | found[name]
    return found


def is_listed(operator: str, problem: str) -> bool:
    """Whether known solutions of this problem use an operator, or those of several problems.

    An operator that serves several problems (a product, a sum) does the work of none of them.
    """
    problems = listed().get(operator, frozenset())
    return problem in problems or len(problems) > 1


def of_no_problem() -> set[str]:
    """Every operator that is not in the list."""
    return operators() - listed().keys()


def of_other_problems(problem: str) -> set[str]:
    """The operators in the list that this problem's known solutions do not use."""
    return {name for name in listed() if not is_listed(name, problem)}


def operators() -> set[str]:
    """The operators of PyTorch that do work, without their overloads, such as aten::mul."""
    return {name.partition(".")[0] for name in _overloads()}


def notice(names: Iterable[str], tell: Tell) -> None:
    """Have these operators report whoever calls them, from now on and for good."""
    wanted = set(names)
    libraries = Libraries()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for overload in _overloads():
            if overload.partition(".")[0] in wanted:
                namespace, _, name = overload.partition("::")
                libraries.get(namespace).impl(name, KEY, _telling(overload, tell), True)


@functools.cache
def _overloads() -> list[str]:
    import torch

    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key  # pyright: ignore
    return [
        name
        for name in torch._C._dispatch_get_all_op_names()  # pyright: ignore
        # Operators that make a tensor from nothing already have a kernel of PyTorch's at this key.
        if not has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, KEY)
        if name.partition(".")[0] not in PASSED_OVER
    ]


def _telling(overload: str, tell: Tell) -> Callable[..., Any]:
    """Make a kernel that reports its caller and then lets the operator do its work."""
    import torch

    key = torch._C.DispatchKey.BackendSelect  # pyright: ignore
    below = torch._C._dispatch_keyset_full_after(key)  # pyright: ignore
    name = overload.partition(".")[0]

    def kernel(keys: Any, *args: object, **kwargs: object) -> object:  # noqa: ANN401
        frame = sys._getframe().f_back  # pyright: ignore[reportPrivateUsage]
        if frame is not None and not _is_for_gradients(frame.f_code):
            tell(name, *calling_place(frame))
        operator, places = _find(overload)
        numbers = [at for at in places if at < len(args) and isinstance(args[at], NUMBERS)]
        if numbers:
            args = tuple(
                _as_tensor(value, args) if at in numbers else value for at, value in enumerate(args)
            )
        return operator.redispatch(keys & below, *args, **kwargs)

    return kernel


def _is_for_gradients(code: CodeType) -> bool:
    """Whether this is PyTorch's own function for gradients, not another one of that name."""
    return code.co_name == GRADIENTS and not is_own(code.co_filename)


@functools.cache
def _find(overload: str) -> tuple[Any, list[int]]:
    """Return an operator and the places of its arguments that are tensors."""
    import torch

    namespace, _, rest = overload.partition("::")
    name, _, variant = rest.partition(".")
    operator = getattr(getattr(getattr(torch.ops, namespace), name), variant or "default")
    arguments = enumerate(operator._schema.arguments)
    return operator, [place for place, argument in arguments if str(argument.type) == "Tensor"]


def _as_tensor(number: Any, args: tuple[object, ...]) -> object:  # noqa: ANN401
    """Put a number back into a tensor: PyTorch takes it out on the way here.

    The tensor's dtype must not change that of the result. A single float64 number among float32
    tensors leaves it alone; among integers it decides.
    """
    import torch

    given = [value for value in args if isinstance(value, torch.Tensor)]
    other = next((tensor for tensor in given if tensor.dtype != torch.bool), given[0])
    exact = torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)
    dtype = torch.result_type(other, number)
    return exact if other.ndim and dtype == other.dtype else exact.to(dtype)
