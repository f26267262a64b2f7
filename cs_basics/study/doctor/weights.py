"""Checks of the parameters: does the loss depend on each, and does the optimizer hold each once?"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from cs_basics.study.doctor.report import Finding, Findings
from cs_basics.study.doctor.subject import Call, Subject, held_by, undisturbed


def parameters(s: Subject) -> Findings:
    """Compare what the loss depends on with what the model has and what the optimizer holds."""
    names: dict[Tensor, str] = {p: name for name, p in s.bare.named_parameters()}
    with undisturbed(s.bare):
        leaves = leaves_of(s.loss_of(s.bare, s.cut(8)))
    held = Counter(held_by(s.optimizer))
    if not held.keys() & leaves.keys():
        seen = f"the loss depends on {len(leaves)} parameters; the optimizer holds none of them"
        yield Finding("no-step" if leaves else "no-gradient", seen, "")
        return
    if missing := [
        names.get(p, f"one {tuple(p.shape)} in no registered module")
        for p in leaves
        if p not in held
    ]:
        seen = f"the optimizer does not hold {len(missing)} of {len(leaves)} parameters that the"
        yield Finding("not-in-optimizer", f"{seen} loss depends on: {listed(missing)}")
    frozen = [names.get(p, "?") for p in held if not p.requires_grad]
    if frozen := [name for name in frozen if "pos" not in name]:
        seen = f"the optimizer holds parameters with requires_grad=False: {listed(frozen)}"
        yield Finding("no-gradient", seen)
    # What the model does not call, such as an expert, waits for its turn.
    called = {call.name for call in s.calls(s.inputs[:8]) if call.output.numel()}
    if cut_off := [
        name
        for p, name in names.items()
        if p.requires_grad and p in held and p not in leaves
        and called & {name.rpartition(".")[0], ".".join(name.split(".")[:-2])}
    ]:  # fmt: skip
        seen = f"the loss does not depend on {len(cut_off)} parameters of modules that are called"
        yield Finding("no-gradient", f"{seen}: {listed(cut_off)}")
    if twice := [names.get(p, "?") for p, times in held.items() if times > 1]:
        seen = f"{len(twice)} parameters are listed more than once in the optimizer"
        yield Finding("in-optimizer-twice", f"{seen}: {listed(twice)}", "")


def leaves_of(loss: Tensor) -> dict[Tensor, None]:
    """Return the tensors that a backward pass gives gradients to, registered or not."""
    found, seen, left = dict[Tensor, None](), set[Any](), [loss.grad_fn]
    for node in left:
        if node is None or node in seen:
            continue
        seen.add(node)
        if (leaf := getattr(node, "variable", None)) is not None:
            found[leaf] = None
        left += [before for before, _ in node.next_functions]
    return found


def listed(names: list[str]) -> str:
    """Return the first of some names."""
    return ", ".join(names[:3]) + ", ..." * (len(names) > 3)


def shared_weights(s: Subject) -> Findings:
    """Look for a module that is called twice on other data.

    An embedding table that is the output head, too, is a tie. So only such tables may be shared.
    """
    first = dict[str, Call]()
    for call in s.calls(s.inputs[:1]):
        known = first.setdefault(call.name, call)
        has_own = any(s.vocab not in p.shape for p in call.module.parameters(recurse=False))
        inputs = [c.args[0] for c in (known, call) if c.args and isinstance(c.args[0], Tensor)]
        if has_own and len(inputs) == 2 and not torch.equal(*inputs):
            seen = f"{call.name} is called more than once in a forward pass, on other data"
            yield Finding("shared-weights", seen)
            return
