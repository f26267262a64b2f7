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
            f"{len(missing)} of {len(leaves)} parameters with a gradient are in no group of the "
            f"optimizer: {_list(missing)}",
            "every parameter of the loss is in one group, or it keeps its initial values",
            "make the optimizer after the model is final, from model.parameters(); blocks in an "
            "nn.ModuleList, not in a list",
        )
    frozen = (names.get(key, "?") for key, p in held.items() if not p.requires_grad)
    if frozen := [name for name in frozen if "pos" not in name]:
        yield no_gradient(frozen, "have requires_grad=False, though the optimizer holds them")


def no_gradient(names: list[str], seen: str) -> Finding:
    """Say which parameters have no gradient."""
    return Finding(
        "no-gradient",
        f"{len(names)} parameters {seen}: {_list(names)}",
        "a gradient for each: without one a parameter is never trained",
        f"loss.backward(); print(dict(model.named_parameters())['{names[0]}'].grad)",
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
    shared = [f"{_list(some)} are one parameter" for some in names.values() if len(some) > 1]
    if seen := [*shared, *_called_again(s)]:
        yield Finding(
            "shared-weights",
            seen[0],
            "each block and norm has weights of its own: [Block()] * n is one block",
            "nn.ModuleList(Block() for _ in range(n))",
        )
    for (name, p), (other_name, other) in itertools.combinations(s.bare.named_parameters(), 2):
        if p.data_ptr() == other.data_ptr() and p.numel():
            yield Finding(
                "tie-broken" if s.vocab in p.shape else "shared-weights",
                f"{name} and {other_name} are two parameters over the same numbers",
                "one parameter: else the optimizer steps these numbers twice, with two states",
                "head.weight = embedding.weight  # without .data and nn.Parameter(...)",
            )
        elif p.dim() == other.dim() == 2 and s.vocab in p.shape and p.std() != 0:
            if not any(p.shape == o.shape and torch.equal(p, o) for o in (other, other.T)):
                continue
            yield Finding(
                "tie-broken",
                f"{name} and {other_name} hold equal numbers in two places",
                "one parameter if they are to be tied; if not, two that are initialised apart",
                "print(head.weight is embedding.weight)",
            )
    held = Counter(map(id, held_by(s.optimizer)))
    if twice := [name for name, p in s.bare.named_parameters() if held[id(p)] > 1]:
        yield Finding(
            "in-optimizer-twice",
            f"{len(twice)} parameters are listed more than once: {_list(twice)}",
            "each once: a parameter that is listed twice takes two steps an update",
            "print(len({id(p) for g in optimizer.param_groups for p in g['params']}))",
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
            yield f"{call.name} is called again in one forward pass"
