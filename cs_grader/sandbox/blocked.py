"""Makes the operators that a problem has to be solved without (forbidden.py) raise.

    forbid("rmsnorm", tell)   # in a host, before the submission is imported
    ...                       # torch.nn.functional.rms_norm now raises ForbiddenOperator
                              # and the call is reported, even if the error is swallowed

Runs next to the submission, in a process that is thrown away, and imports nothing but torch. (The
student edition examines many problems in one process, and goes back after each.) The operators of
PyTorch are replaced where its dispatcher looks them up, so that it does not matter by which name
they are called (`F.silu`, `torch.ops.aten.silu`, `nn.SiLU()`, a scripted function). What PyTorch
writes in Python (optimizers, clipping) has no kernel of its own: there the code of the function
itself is replaced, which every reference to it shares.

Whoever wants to undo this can: it is the submission's own process. All that they gain is the use
of the operator, and rules/ reports the attempts.

Tested by tests/project/grader/test_policy_blocked.py.
"""

import ctypes
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn

from cs_grader.sandbox.forbidden import FORBIDDEN, FUNCTIONS, KERNELS
from cs_grader.sandbox.ledger import calling_place

# Wherever a call may be looked up first: by the backends of tensors that live on a CPU, by
# autograd, by the transformations of torch.func (which would take a composite operator apart
# before any backend sees it) and by tracing.
DISPATCH_KEYS = (
    *("CPU", "SparseCPU", "MkldnnCPU", "QuantizedCPU", "NestedTensorCPU", "Meta"),
    *("AutogradCPU", "AutogradMeta", "AutogradNestedTensor", "AutogradFunctionality"),
    *("FuncTorchBatched", "FuncTorchGradWrapper", "FuncTorchDynamicLayerFrontMode"),
    *("Python", "PreDispatch", "Functionalize"),
)


# Parts of PyTorch in which operators are written in Python, for compilers and transformations.
REWRITTEN = ("torch._refs", "torch._decomp", "torch._prims", "torch._inductor")


class ForbiddenOperator(Exception):  # noqa: N818  # It says what was called, not what went wrong.
    """An operator was called that the problem has to be solved without."""

    diagnosis = "forbidden-operator"

    def __init__(self, message: str, operator: str = "") -> None:
        super().__init__(message)
        self.operator = operator


Tell = Callable[[str, str, int], None]
"""Called with an operator's public name, and the file and line of its caller."""


Undo = Callable[[], None]


def forbid(problem: str, tell: Tell, lent: Collection[str] = ()) -> Undo:
    """Make the forbidden operators of a problem raise ForbiddenOperator, from now on.

    It takes some milliseconds.

    Args:
        problem: Its name in the rubric.
        tell: Receives every call.
        lent: Groups (keys of KERNELS) whose use is charged to an earlier problem (rules/).

    Returns:
        What makes them work again.

    Raises:
        ValueError: There is no such problem.
    """
    if problem not in FORBIDDEN:
        raise ValueError(f"problem {problem!r} is unknown: one of {', '.join(FORBIDDEN)}")
    groups = [group for group in FORBIDDEN[problem] if group not in lent]
    undone = _block_rewritten(groups, tell)
    for group in groups:
        undone += _block_kernels(KERNELS[group], tell)
        for name in FUNCTIONS[group]:
            undone += _block_name(name, tell)

    def undo() -> None:
        for each in reversed(undone):
            each()

    return undo


def prepare() -> None:
    """Look up what `forbid` needs, so that processes that are forked from this one need not."""
    for names in FUNCTIONS.values():
        for name in names:
            _look_up(name)
    _rewritten(len(sys.modules))


def _block_kernels(operators: dict[str, str], tell: Tell) -> list[Undo]:
    if not operators:
        return []
    import torch

    registries: dict[str, Any] = {}
    with warnings.catch_warnings():
        # PyTorch warns of each kernel that is replaced; replacing them is the point here.
        warnings.simplefilter("ignore")
        for name, public_name in operators.items():
            # Operators come and go between versions of PyTorch: an unknown one has no schema.
            namespace, _, plain = name.rpartition("::")
            namespace = namespace or "aten"
            if namespace not in registries:
                registries[namespace] = _registry(namespace)
            for schema in torch._C._jit_get_schemas_for_operator(  # pyright: ignore[reportPrivateUsage]
                f"{namespace}::{plain}"
            ):
                overload = f"{plain}.{schema.overload_name}".removesuffix(".")
                _block_kernel(registries[namespace], overload, _raiser(public_name, tell))
    return [registry.reset for registry in registries.values()]


def _registry(namespace: str) -> Any:  # noqa: ANN401  # No type has a public name.
    """Make a registry of kernels, kept from ever being garbage-collected: they would go with it.

    It is not one of torch.library, which keeps a list of them: once the caller of `forbid` drops
    what undoes it, no module and no frame leads to a registry.
    """
    import torch

    registry = torch._C._dispatch_library("IMPL", namespace, "")  # pyright: ignore
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(registry))
    return registry


def _block_kernel(library: Any, overload: str, kernel: Callable[..., Any]) -> None:  # noqa: ANN401
    for key in DISPATCH_KEYS:
        try:
            library.impl(overload, key, kernel, False)
        except RuntimeError:
            # A composite operator takes no kernel for Meta; the other keys stand before it.
            if key != "Meta":
                raise


def _raiser(operator: str, tell: Tell) -> Callable[..., NoReturn]:
    def raise_forbidden(*_args: object, **_kwargs: object) -> NoReturn:
        refuse(operator, tell)

    return raise_forbidden


def refuse(operator: str, tell: Tell) -> NoReturn:
    """Tell who called an operator that is forbidden here, and raise ForbiddenOperator."""
    file, line = calling_place()
    tell(operator, file, line)
    where = f" ({Path(file).name}, line {line})" if file else ""
    words = f"{operator} is not allowed here: write it yourself{where}"
    raise ForbiddenOperator(words, operator)


def _block_rewritten(groups: Collection[str], tell: Tell) -> list[Undo]:
    """Block operators where PyTorch has them once more in Python, as arithmetic on tensors."""
    names: dict[str, str] = {}
    for group in groups:
        names |= {name.rpartition(".")[2].strip("_"): name for name in FUNCTIONS[group]}
        for kernel, public in KERNELS[group].items():
            names[kernel.rpartition("::")[2].strip("_")] = public
    undone: list[Undo] = []
    functions = _rewritten(len(sys.modules)) if names else {}
    for name, public in names.items():
        for function in functions.get(name, ()):
            undone += _block_code(function, public, tell)
    return undone


@functools.cache
def _rewritten(_num_modules: int) -> dict[str, list[FunctionType]]:
    """The functions, each once, by their names; looked for again when more modules are loaded."""
    functions = {
        id(value): value
        for name, module in list(sys.modules.items())
        if name.startswith(REWRITTEN)
        for value in list(vars(module).values())
        if isinstance(value, FunctionType)
    }
    found: dict[str, list[FunctionType]] = {}
    for function in functions.values():
        found.setdefault(function.__name__.strip("_"), []).append(function)
    return found


def _block_name(name: str, tell: Tell) -> list[Undo]:
    """Block a function, or the making and the use of a class, by its public name."""
    found = _look_up(name)
    if isinstance(found, FunctionType):
        return _block_code(found, name, tell)
    undone: list[Undo] = []
    if isinstance(found, type):
        for method in ("__init__", "forward", "step", "_call"):
            function = vars(found).get(method)
            if isinstance(function, FunctionType):
                undone += _block_code(function, name, tell)
    return undone


def _look_up(name: str) -> object:
    """Return what a dotted name stands for; None where this version of PyTorch does not know it."""
    module_name, _, attribute = name.rpartition(".")
    # Not by attributes: torch.optim, for one, hides its own submodules.
    module = sys.modules.get(module_name)
    if module is None:
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            return None
    return getattr(module, attribute, None)


def _block_code(function: FunctionType, operator: str, tell: Tell) -> list[Undo]:
    # The function stays the object that it is, so that a reference made earlier raises too.
    names = ("__defaults__", "__kwdefaults__", "__code__")
    was = {name: getattr(function, name) for name in names}
    function.__defaults__ = None
    function.__kwdefaults__ = {"_raise": _raiser(operator, tell)}
    function.__code__ = _raising_code(len(function.__code__.co_freevars))

    def undo() -> None:
        for name, value in was.items():
            setattr(function, name, value)

    # A decorated function keeps the one that does the work.
    inner = getattr(function, "__wrapped__", None)
    return [undo, *(_block_code(inner, operator, tell) if isinstance(inner, FunctionType) else [])]


@functools.cache
def _raising_code(num_free: int) -> CodeType:
    """Make code that calls its default and closes over as many variables as what it replaces.

    Python checks the number of these variables. Whoever looks at the frame reads them, so they
    must be real ones.
    """
    free = "".join(f"_{number}, " for number in range(num_free))
    source = f"""
def around({free}):
    def blocked(*_args, _raise, **_kwargs):
        _raise()
        return ({free})
"""
    code = compile(source, __file__, "exec")
    for _ in range(2):
        code = next(const for const in code.co_consts if isinstance(const, CodeType))
    return code
