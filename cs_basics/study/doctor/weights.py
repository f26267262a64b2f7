"""Checks of the parameters: does a gradient reach each, and does the optimizer hold each once?"""

import itertools
from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

from cs_basics.study.doctor.finding import Finding, Findings
from cs_basics.study.doctor.subject import Call, Subject, held_by, leaves_of, undisturbed


def graph(s: Subject) -> Findings:
    """Compare what the loss depends on with what the model has and what the optimizer holds."""
    names = {id(p): name for name, p in s.bare.named_parameters()}
    with undisturbed(s.bare):
        leaves = leaves_of(s.loss_of(s.bare, s.cut(8)))
    held = {id(p): p for p in held_by(s.optimizer)}
    if not leaves or not held.keys() & leaves.keys():
        yield Finding(
            "no-step" if leaves else "no-gradient",
            f"the loss depends on {len(leaves)} parameters, of which the optimizer holds none",
            "the optimizer holds the parameters of the model that is trained",
            "optimizer = type(optimizer)(model.parameters(), lr=...)  # after the model is final",
            "",
        )
        return
    if missing := [
        names.get(key, f"one {tuple(leaves[key].shape)} in no registered module")
        for key in leaves
        if key not in held
    ]:
        yield Finding(
            "not-in-optimizer",
            f"the optimizer does not hold {len(missing)} of the {len(leaves)} parameters that the "
            f"loss depends on: {_list(missing)}",
            "all of them in the optimizer, or they keep their initial values",
            "make the optimizer from model.parameters(), once the model is final; keep blocks in "
            "an nn.ModuleList, not in a list",
        )
    frozen = (names.get(key, "?") for key, p in held.items() if not p.requires_grad)
    if frozen := [name for name in frozen if "pos" not in name]:
        yield no_gradient(frozen, "the optimizer holds parameters with requires_grad=False")


def no_gradient(names: list[str], seen: str) -> Finding:
    """Say which parameters have no gradient."""
    return Finding(
        "no-gradient",
        f"{seen} ({len(names)}): {_list(names)}",
        "a gradient for each: without one a parameter is never trained",
        f"loss.backward(); print(model.get_parameter('{names[0]}').grad)",
    )


def _list(names: list[str]) -> str:
    return ", ".join(names[:3]) + ", ..." * (len(names) > 3)


def sharing(s: Subject) -> Findings:
    """Look for a parameter under several names, two over one storage, a tie that is a copy.

    An embedding table that is the output head, too, is a tie. So only such tables may be shared.
    """
    names = dict[int, list[str]]()
    for name, p in s.bare.named_parameters(remove_duplicate=False):
        if s.vocab not in p.shape:
            names.setdefault(id(p), []).append(name)
    shared = [f"{_list(some)} are the same parameter" for some in names.values() if len(some) > 1]
    if seen := [*shared, *_called_again(s)]:
        yield Finding(
            "shared-weights",
            seen[0],
            "weights of its own for each block and norm: [Block()] * n is one block n times",
            "nn.ModuleList(Block() for _ in range(n)); a, b = Norm(), Norm(), not a = b = Norm()",
        )
    for (name, p), (other_name, other) in itertools.combinations(s.bare.named_parameters(), 2):
        if p.data_ptr() == other.data_ptr() and p.numel():
            yield Finding(
                "tie-broken" if s.vocab in p.shape else "shared-weights",
                f"{name} and {other_name} are two parameters in the same memory",
                "one parameter: else the optimizer steps these numbers twice, with two states",
                "head.weight = embedding.weight  # without .data and nn.Parameter(...)",
            )
        elif p.dim() == other.dim() == 2 and s.vocab in p.shape and p.std() != 0:
            if not any(p.shape == o.shape and torch.equal(p, o) for o in (other, other.T)):
                continue
            yield Finding(
                "tie-broken",
                f"{name} and {other_name} are two parameters with equal values",
                "one parameter if they are meant to be tied, else two with values of their own",
                "head.weight = embedding.weight ties them; a clone or .data only copies the values",
            )
    held = Counter(map(id, held_by(s.optimizer)))
    if twice := [name for name, p in s.bare.named_parameters() if held[id(p)] > 1]:
        yield Finding(
            "in-optimizer-twice",
            f"listed more than once in the optimizer ({len(twice)}): {_list(twice)}",
            "each once: a parameter that is listed twice takes two steps an update",
            "give the optimizer model.parameters() alone, or dict.fromkeys(params): each once",
            "",
        )


def _called_again(s: Subject) -> Iterator[str]:
    """Name the modules with weights that one forward pass calls again, on other data."""
    first = dict[str, Call]()
    for call in s.calls(s.inputs[:1]):
        known = first.setdefault(call.name, call)
        has_own = any(s.vocab not in p.shape for p in call.module.parameters(recurse=False))
        if has_own and any(
            isinstance(x, Tensor) and not torch.equal(x, y)
            for x, y in zip(known.args, call.args, strict=False)
        ):
            yield f"{call.name} is called more than once in a forward pass"
