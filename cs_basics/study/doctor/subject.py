"""What is examined, called without a trace: weights, gradients, generators and modes stay."""

import inspect
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from cs_basics.run.random_state import random_states, restore_random_states
from cs_basics.study.doctor.report import Finding, Findings

HOUSE = Path(__file__).parents[2]
FOREIGN = (
    *(path for path in (*HOUSE.glob("*/"), HOUSE.parent / "scripts")),
    *(Path(module.__file__ or "/").parents[level] for module, level in ((torch, 1), (os, 0))),
)
"""Folders whose files are nobody's to mend: of this project around the book, and of libraries."""


@dataclass
class Call:
    """A call of a module in a forward pass."""

    name: str
    module: nn.Module
    args: tuple[Any, ...]
    output: Tensor
    """What it returned; of a tuple the first."""

    def ends(self) -> list[Tensor]:
        """Return what it read first, if that is a tensor, and what it returned."""
        return [x for x in (*self.args[:1], self.output) if isinstance(x, Tensor)]


@dataclass
class Subject:
    """A model with its loss, its optimizer and one batch."""

    model: nn.Module
    loss_of: Callable[[Any, Any], Tensor]
    optimizer: Optimizer
    batch: Any = None
    batches: Any = None
    """This and the following are the options of `Doctor`."""
    tokens: Any = None
    evaluate: Any = None
    schedule: Any = None
    clip: float | None = None
    accumulate: int = 1
    rank: int = 0
    world_size: int = 1
    vocab: int = 0
    """Logits of a position; `text.readable` finds it, and the two below."""
    has_dropout: bool = False
    is_random: bool = False
    """Whether evaluation mode gives other logits each time."""
    findings: list[Finding] = field(default_factory=list)
    could_not: list[str] = field(default_factory=list)
    """Checks that could not be made, and why."""
    start: list[Tensor] = field(default_factory=list)
    """Weights and buffers before the first update, as `weights_of` returns them."""

    def __post_init__(self) -> None:
        # Probes have nothing to share out over processes.
        is_wrapped = type(self.model).__name__ == "DistributedDataParallel"
        self.bare: nn.Module = getattr(self.model, "module") if is_wrapped else self.model  # noqa: B009

    @property
    def inputs(self) -> Tensor:
        """The ids that the model reads, (batch, time)."""
        return parts_of(self.batch)[0]

    @property
    def time(self) -> int:
        """How many ids a row has."""
        return self.inputs.shape[1]

    def logits(self, ids: Tensor) -> Tensor:
        """Call the model on ids; return its logits, (batch, time, vocab)."""
        logits = first_of(self.bare(ids))
        # Some models without targets return the last position's alone, and with them also a loss.
        return logits if logits.shape[1] == ids.shape[1] else first_of(self.bare(ids, ids))

    def trained(self) -> list[Tensor]:
        """Return the parameters of the optimizer that are trained, each once."""
        return list({id(p): p for p in held_by(self.optimizer) if p.requires_grad}.values())

    def run(self, check: Callable[..., Findings]) -> None:
        """Make a check, and place what it finds; what it cannot do with this program is kept, too.

        A finding without a place is one of the model.
        """
        try:
            for found in check(self):
                place = self._place_of(self.bare if found.place is None else found.place)
                self.findings.append(replace(found, place=place))
        except Exception as error:
            what = getattr(check, "__name__", "rates").replace("_", " ")
            self.could_not.append(f"{what}: {type(error).__name__}: {error}")

    def _place_of(self, place: Any) -> str:  # noqa: ANN401
        """Return the reader's line: of a library's module, that of the module around it."""
        names = {module: name for name, module in self.bare.named_modules()}
        while not line_of(place) and names.get(place):
            place = self.bare.get_submodule(names[place].rpartition(".")[0])
        return line_of(place)

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Leave the model undisturbed by what is computed, without gradients."""
        with undisturbed(self.bare), torch.no_grad():
            yield

    def calls(self, ids: Tensor) -> list[Call]:
        """Return the calls that give tensors, in the order of their ends, for these ids."""
        found = list[Call]()
        names = {module: name for name, module in self.bare.named_modules()}

        def note(module: nn.Module, args: Any, output: Any) -> None:  # noqa: ANN401
            if isinstance(output := first_of(output), Tensor):
                found.append(Call(names[module], module, args, output))

        with self.quiet(), ExitStack() as hooks:
            self.bare.eval()
            for module in names:
                hooks.enter_context(module.register_forward_hook(note))
            self.logits(ids)
        return found

    def cut(self, rows: int) -> Any:  # noqa: ANN401
        """Return the first rows of the batch."""

        def first(part: Any) -> Any:  # noqa: ANN401
            return part[:rows] if isinstance(part, Tensor) and part.dim() else part

        return tree_map(first, self.batch)


def parts_of(batch: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """Return inputs and targets of a batch."""
    if isinstance(batch, Tensor):
        return batch, batch
    if "input_ids" in batch:
        return batch["input_ids"], batch.get("labels", batch["input_ids"])
    return batch[0], batch[1]


def padding(ids: Tensor) -> Tensor:
    """Return which positions are in a run of one id at the end of a row, at least 3 long."""
    same = (ids == ids[:, -1:]).flip(1).cumprod(1).flip(1).bool()
    return same & (same.sum(1, keepdim=True) > 2) & ~same.all(1, keepdim=True)


def first_of(output: Any) -> Any:  # noqa: ANN401
    """Return the logits of whatever a model returns, or the like of another module."""
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    return getattr(output, "logits", output)


def with_logits(output: Any, logits: Tensor) -> Any:  # noqa: ANN401
    """Return what a model returned with other logits in it."""
    if isinstance(output, Tensor):
        return logits
    if isinstance(output, (tuple, list)):
        return type(output)([with_logits(output[0], logits), *output[1:]])
    output.logits = logits
    return output


@contextmanager
def undisturbed(model: nn.Module, optimizer: Optimizer | None = None) -> Generator[None]:
    """Put everything back at the end: weights, gradients, generators, modes and the optimizer.

    Meanwhile gradients are computed.

    Args:
        model: The model that will be called. What its modules keep as attributes is put back, too.
        optimizer: If it will make steps: it makes them with a copy of its state and settings.
    """
    objects: list[Any] = [*model.modules()]
    tensors = weights_of(model)
    if optimizer is not None:
        objects.append(optimizer)
        tensors += held_by(optimizer)
    random, kept = random_states(), [(t, t.detach().clone()) for t in dict.fromkeys(tensors)]
    grads = [(tensor, tensor.grad) for tensor, _ in kept if tensor.is_leaf]
    attributes = [(vars(one), dict(vars(one))) for one in objects]
    for tensor, _ in grads:
        tensor.grad = None
    if optimizer is not None:
        copies = {p: deepcopy(state) for p, state in optimizer.state.items()}
        optimizer.state = defaultdict(dict, copies)
        optimizer.param_groups = [dict(group) for group in optimizer.param_groups]
    # What was compiled is run as it is written, so that hooks see all of it.
    is_compiled = "torch._dynamo" in sys.modules
    eager = torch.compiler.set_stance("force_eager") if is_compiled else nullcontext()
    try:
        with eager, torch.enable_grad():
            yield
    finally:
        with torch.no_grad():
            for tensor, value in kept:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
        for tensor, grad in grads:
            tensor.grad = grad
        for now, before in attributes:
            now.clear()
            now.update(before)
        restore_random_states(random)


def weights_of(model: nn.Module) -> list[Tensor]:
    """Return parameters and buffers, each once."""
    return [*model.parameters(), *model.buffers()]


def held_by(optimizer: Optimizer) -> list[Tensor]:
    """Return the parameters that an optimizer holds, as often as it does."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def line_of(thing: Any) -> str:  # noqa: ANN401
    """Return the reader's file and line of a function, a generator or a module's forward.

    Returns:
        "" for what stands in a file of ours or of a library; a text as it is.
    """
    if isinstance(thing, str):
        return thing
    if isinstance(thing, nn.Module):
        thing = type(thing).forward
    thing = inspect.unwrap(thing)  # What a decorator such as torch.no_grad() has wrapped.
    code: Any = getattr(thing, "__code__", None) or getattr(thing, "gi_code", None)
    is_own = code and is_readers(code.co_filename)
    return f"{code.co_filename}:{code.co_firstlineno}" if is_own else ""


def is_readers(file: str) -> bool:
    """Tell whether a file is the reader's own."""
    return file[0] != "<" and not any(path in Path(file).parents for path in FOREIGN)


def caller() -> str:
    """Return the line of the reader's that has called the doctor."""
    frame: Any = inspect.currentframe()
    while frame and not is_readers(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
