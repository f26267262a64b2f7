"""Call a function, layer or model; differentiate it; offer it something impossible."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]
Plain = dict[str, Any]


def plain(value: object) -> Plain:
    """Turn a returned object into its dtype's name and its values (None if it is no tensor)."""
    if not isinstance(value, Tensor):
        return {"dtype": type(value).__name__, "values": None}
    dense = Tensor.detach(value).cpu()
    if dense.is_sparse:
        dense = dense.to_dense()
    name = str(dense.dtype).removeprefix("torch.")
    # NumPy has no bfloat16; float32 holds every value of it.
    held = dense.float() if dense.dtype == torch.bfloat16 else dense
    return {"dtype": name, "values": np.array(held.numpy())}


def tensors(
    arguments: Mapping[str, Any], dtypes: Mapping[str, str], strided: Sequence[str] = ()
) -> dict[str, Any]:
    """Make tensors of all arrays; those named in `strided` lie in memory the other way round."""
    made: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, dict):
            made[name] = tensors(value, dtypes, strided)
        elif isinstance(value, np.ndarray):
            tensor = torch.tensor(value.copy(order="C"))  # Contiguous, unless it is asked for.
            if name in dtypes:
                tensor = tensor.to(getattr(torch, dtypes[name]))
            made[name] = placed(reordered(tensor) if name in strided else tensor)
        else:
            made[name] = value
    return made


def placed(tensor: Tensor) -> Tensor:
    """Leave a tensor where it is; the grader puts it where another process sees it instead."""
    return tensor


def reordered(tensor: Tensor) -> Tensor:
    """Keep the values and reverse the order of the axes in memory (one axis: leave gaps)."""
    if tensor.ndim < 2:
        return torch.stack([tensor, tensor], -1)[..., 0]
    back = tuple(reversed(range(tensor.ndim)))
    return tensor.permute(back).contiguous().permute(back)


def named_tensors(made: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, value in made.items():
        if isinstance(value, dict):
            yield from named_tensors(value)
        elif isinstance(value, Tensor):
            yield name, value


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Name the tensors that are not what they were."""
    old = dict(named_tensors(before))
    new = dict(named_tensors(after))
    return [
        name
        for name in old
        if name not in new or not torch.equal(old[name].nan_to_num(), new[name].nan_to_num())
    ]


def forward(
    adapters: Any,
    function: str,
    arguments: Plain,
    dtypes: Mapping[str, str] | None = None,
    strided: Sequence[str] = (),
) -> Plain:
    """Call one adapter; see what it returns and which of its inputs it changed."""
    made = tensors(arguments, dtypes or {}, strided)
    before = copy.deepcopy(made)
    output = getattr(adapters, function)(**made)
    return {"output": plain(output), "changed": changed(before, made)}


# How PyTorch, or a check of the submission's own, complains of tensors of different types and of
# types that it cannot compute in.
UNSUITABLE = ("dtype", "scalar type", "not implemented for", "can't be cast", "float", "Half")
# What checks of a type raise; the names are of errors of beartype and typeguard.
REFUSALS = (TypeError, ValueError, RuntimeError, AssertionError, LookupError)
NAMES_OF_REFUSALS = ("BeartypeCallHintViolation", "TypeCheckError")


def forward_if_supported(
    adapters: Any,
    function: str,
    arguments: Plain,
    dtypes: Mapping[str, str] | None = None,
) -> Plain | None:
    """Call one adapter with types that it need not take; None if it refuses them.

    Adapters may load any weights into modules of float32. Whatever a check of a type may raise is a
    refusal, too, if the same works in float32.
    """
    try:
        return forward(adapters, function, arguments, dtypes)
    except Exception as error:
        if has_run_out(error):
            raise
        # PyTorch raises NotImplementedError for a type, too; that of a blank to fill in is empty.
        if any(complaint in str(error) for complaint in UNSUITABLE):
            return None
        if not dtypes or not is_refusal(error):
            raise
    forward(adapters, function, arguments)  # What runs in float32 was refused for its type.
    return None


def is_refusal(error: Exception) -> bool:
    """Whether a check of a type may raise this."""
    if has_run_out(error):
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    return (
        isinstance(error, REFUSALS)
        or not names.isdisjoint(NAMES_OF_REFUSALS)
        or any(complaint in str(error) for complaint in UNSUITABLE)
    )


def has_run_out(error: Exception) -> bool:
    """Whether there was no memory or no stack left, which refuses nothing."""
    if isinstance(error, MemoryError | RecursionError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def forward_in_turns(adapters: Any, function: str, cases: Sequence[Plain]) -> list[Plain]:
    """Call one adapter several times with different arguments."""
    return [forward(adapters, function, arguments) for arguments in cases]


def backward(
    adapters: Any,
    function: str,
    arguments: Plain,
    cotangent: Array,
    inputs: Sequence[str] = (),
    weights: Sequence[str] = (),
) -> Plain:
    """Differentiate one adapter's output, weighted by `cotangent`, by inputs and by weights."""
    made = tensors(arguments, {})
    given = dict(named_tensors(made))
    for name in (*inputs, *weights):
        given[name].requires_grad_()
    # No leaf, like anything that a layer computed: whether it is changed in place is asked apart.
    given_on = {name: value.clone() if name in inputs else value for name, value in made.items()}
    output = getattr(adapters, function)(**given_on)
    leaves = leaves_of(output)
    for leaf in leaves:
        leaf.grad = None  # A module that serves several calls holds what the last one left.
    if leaves:
        weight = torch.tensor(cotangent, dtype=output.dtype)
        # A number may have axes of size 1.
        output.backward(weight.reshape(output.shape) if output.numel() == 1 else weight)
    gradients = {name: plain_gradient(given[name].grad) for name in inputs}
    others = [leaf for leaf in leaves if all(leaf is not given[name] for name in inputs)]
    gradients |= weight_gradients({name: given[name] for name in weights}, others)
    return {
        "output": plain(output),
        "gradients": gradients,
        "learned": len(others),
        "learned_numbers": sum(leaf.numel() for leaf in others),
    }


def leaves_of(output: object) -> list[Tensor]:
    """Find every tensor that a backward pass from `output` would give a gradient to."""
    leaves: list[Tensor] = []
    seen = set()
    # An adapter that returns nothing has None here, and the comparison says so.
    stack = [getattr(output, "grad_fn", None)]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        stack += [following for following, _ in node.next_functions]
    return leaves


def plain_gradient(gradient: Tensor | None) -> Plain:
    return {"dtype": "missing", "values": None} if gradient is None else plain(gradient)


def weight_gradients(weights: Mapping[str, Tensor], leaves: Sequence[Tensor]) -> Plain:
    """Find the parameters that weights were copied into, by their values; take their gradients.

    A weight may be kept transposed, stacked with others (a fused QKV projection), or in pieces
    (a projection for each head).
    "unrecognised" means that a parameter with a gradient looks like none of the weights.
    """
    found: Plain = {}
    recognised = set()
    for name, weight in weights.items():
        for leaf in leaves:
            part = part_holding(weight, leaf)
            if part is not None and leaf.grad is not None:
                found[name] = plain(part(leaf.grad))
                recognised.add(leaf)
                break
        if name not in found and (pieces := pieces_of(weight, leaves)):
            found[name] = plain(torch.cat([p.grad for p in pieces if p.grad is not None]))
            recognised |= set(pieces)
    # Together: a weight may be kept in pieces, such as columns for each head.
    strangers = sum(leaf.numel() for leaf in leaves if leaf not in recognised)
    for name, weight in weights.items():
        known = "unrecognised" if strangers >= weight.numel() else "missing"
        found.setdefault(name, {"dtype": known, "values": None})
    return found


def part_holding(weight: Tensor, leaf: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Say where in `leaf` the values of `weight` are."""
    if leaf.shape == weight.shape and torch.equal(leaf, weight):
        return lambda gradient: gradient
    if weight.ndim != 2 or leaf.ndim != 2:
        return None
    if leaf.shape == weight.T.shape and torch.equal(leaf, weight.T):
        return lambda gradient: gradient.T
    rows = len(weight)
    for start in range(0, len(leaf) - rows + 1, rows):
        if torch.equal(leaf[start : start + rows], weight):
            return lambda gradient: gradient[start : start + rows]
    return None


def pieces_of(weight: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Find parameters that hold the rows of a weight one after the other; none if there are not."""
    pieces: list[Tensor] = []
    rest = weight
    while len(rest):
        fits = (
            leaf
            for leaf in leaves
            if leaf.grad is not None and leaf.ndim == weight.ndim == 2 and len(leaf)
            if torch.equal(leaf, rest[: len(leaf)])
        )
        if (piece := next(fits, None)) is None:
            return []
        pieces.append(piece)
        rest = rest[len(piece) :]
    return pieces


def attempt(adapters: Any, function: str, arguments: Plain, possible: Plain) -> str:
    """Call one adapter with something impossible and name what it raises ("" if nothing).

    First the possible call must work, so that code which raises at everything refuses nothing.
    """
    adapter = getattr(adapters, function)
    adapter(**tensors(possible, {}))
    try:
        adapter(**tensors(arguments, {}))
    except Exception as error:
        return type(error).__name__
    return ""
