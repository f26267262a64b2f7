"""A compiled model in a process without a compiler.

torch.compile makes its code where the model is trained, and stays there: the compiler, what it
imports and what it leaves behind are 350 MB for as long as the process lives. Here another process
compiles (`ahead_of_time_compiler.py`), leaves shared libraries in a folder and ends; this one loads
them (AOTInductor). Another run of the same configuration finds them there and starts at once.

The code is made for one shape, one configuration, one number of threads. Where anything of it does
not work, the caller is told so and compiles as usual.

Tested by `make test ARGS=tests/project/fast/test_ahead_of_time.py`.
"""

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cs_basics.fast.compilation import compiled_code_folder, processor
from cs_basics.fast.loss import LossFunction

logger = logging.getLogger(__name__)

COMPILER = "cs_basics.fast.native.ahead_of_time_compiler"
BOOK_FILES = (
    "functional.py", "layers.py", "norms.py", "rope.py", "attention.py", "transformer.py",
    "optim.py",
)  # fmt: skip
"""The files of the book that compiled code depends on."""

Library = Callable[[list[Tensor]], list[Tensor]]
Job = dict[str, Any]
"""What is to be compiled: config (fields of ModelConfig), dtype, num_rows, num_threads,
checkpoints_activations."""


class NotCompiledError(RuntimeError):
    """It does not work on this machine, or with this version of torch; says why in one line."""


class CompiledLoss:
    """The mean loss of a batch, and its gradients, from libraries that are compiled already.

    Args:
        model: Its parameters are read at every call.
        job: What the libraries were made for, or will be.
        plain_loss_of: Used for batches of another shape.

    Raises:
        NotCompiledError: It cannot be compiled this way.
    """

    def __init__(self, model: nn.Module, job: Job, plain_loss_of: LossFunction) -> None:
        self.model, self.plain_loss_of = model, plain_loss_of
        self.shape = (job["num_rows"], job["config"]["context_length"])
        loader_class()  # Where there is none, nothing need be compiled.
        folder = compiled_folder(job)
        try:
            self.load(folder)
        except (OSError, ValueError, KeyError, RuntimeError):
            # Damaged, or swept away in part, like other files in a folder for temporary ones.
            shutil.rmtree(folder, ignore_errors=True)
            try:
                self.load(compiled_folder(job))
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                raise NotCompiledError((str(error) or repr(error)).splitlines()[0]) from error

    def load(self, folder: Path) -> None:
        """Load what is in a folder.

        Raises:
            OSError, ValueError, KeyError, RuntimeError: Something is missing or damaged.
        """
        plans = json.loads((folder / "plans.json").read_text(encoding="utf-8"))
        self.plan = Plan(plans["training"], self.model)
        self.forward, self.backward = library(folder, "forward"), library(folder, "backward")
        self.update_flat = library(folder, "update")
        self.evaluation_plan, self.evaluation = self.plan, self.forward
        if "evaluation" in plans:
            self.evaluation_plan = Plan(plans["evaluation"], self.model)
            self.evaluation = library(folder, "evaluation")

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss; with gradients enabled, everything that they need is kept."""
        if tuple(inputs.shape) != self.shape:
            return self.plain_loss_of(inputs, targets)
        if not torch.is_grad_enabled():
            return self.evaluation(self.evaluation_plan.arguments(inputs, targets))[0]
        return LoadedLoss.apply(self, *self.plan.arguments(inputs, targets))

    def update(self, p: Tensor, grad: Tensor, m: Tensor, v: Tensor, *numbers: Tensor) -> None:
        """Do what `update_in_place` of adamw.py does."""
        # One library for tensors of any shape: element by element, they are all rows.
        self.update_flat([*(tensor.view(-1) for tensor in (p, grad, m, v)), *numbers])


class Plan:
    """What libraries read, and in which order.

    Args:
        plan: As the process that compiled them wrote it down.
        model: Whose parameters and buffers they read.
    """

    def __init__(self, plan: dict[str, Any], model: nn.Module) -> None:
        self.held: dict[str, Tensor] = {**dict(model.named_parameters())}
        self.held |= dict(model.named_buffers())
        self.names: list[str] = plan["arguments"]
        self.saved: list[tuple[str, int]] = plan["saved"]
        """What the backward reads: arguments and results of the forward by place, the gradient."""
        self.with_gradient: list[int] = plan["with_gradient"]
        """Places of the arguments whose gradients the backward returns."""

    def arguments(self, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """Return what the forward reads."""
        tensors = {**self.held, "inputs": inputs, "targets": targets}
        return [tensors[name] for name in self.names]


class LoadedLoss(torch.autograd.Function):
    """The loss of a model as one operation; its backward gives the gradients of all parameters."""

    @staticmethod
    def forward(ctx: Any, loss_of: CompiledLoss, *arguments: Tensor) -> Tensor:  # noqa: ANN401
        """Return the loss."""
        results = loss_of.forward(list(arguments))
        sources = {"argument": arguments, "result": results}
        # Not by save_for_backward, which holds everything until the backward is over.
        ctx.saved = [sources[kind][i] for kind, i in loss_of.plan.saved if kind in sources]
        ctx.loss_of = loss_of
        return results[0]

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  as PyTorch wants it
        ctx: Any,  # noqa: ANN401  takes any attribute
        grad: Tensor,
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of the arguments.

        Raises:
            RuntimeError: It was called before for this loss.
        """
        loss_of: CompiledLoss = ctx.loss_of
        if ctx.saved is None:
            raise RuntimeError(
                "the backward of this loss ran before and freed what it read: compute the loss anew"
            )
        saved, ctx.saved = iter(ctx.saved), None
        kinds = [kind for kind, _ in loss_of.plan.saved]
        reads = [grad if kind == "gradient" else next(saved) for kind in kinds]
        del saved
        gradients: list[Tensor | None] = [None] * len(loss_of.plan.names)
        for place, gradient in zip(
            loss_of.plan.with_gradient, loss_of.backward(reads), strict=True
        ):
            gradients[place] = gradient
        return None, *gradients


def loader_class() -> Any:  # noqa: ANN401  torch has no type for it
    """Return what loads libraries: torch._inductor.aoti_load_package without the compiler.

    Raises:
        NotCompiledError: This version of torch has none.
    """
    try:
        return torch._C._aoti.AOTIModelPackageLoader  # pyright: ignore
    except AttributeError as error:
        raise NotCompiledError(str(error)) from error


def library(folder: Path, name: str) -> Library:
    """Load a library; what it is called with is freed as soon as it is no longer needed.

    Raises:
        NotCompiledError: This version of torch loads libraries in another way.
        RuntimeError: It is missing or damaged.
    """
    try:
        return loader_class()(str(folder / f"{name}.pt2"), "model", True, 1, -1).boxed_run
    except (AttributeError, TypeError) as error:
        raise NotCompiledError(str(error).splitlines()[0]) from error


def compiled_folder(job: Job) -> Path:
    """Return the folder with the libraries, compiled by another process if there is none.

    Raises:
        NotCompiledError: They cannot be compiled.
    """
    folder = compiled_code_folder() / key(job)
    if folder.exists():
        return folder
    partial = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        result = subprocess.run(
            [sys.executable, "-m", COMPILER, str(partial)],
            input=json.dumps(job),
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
        )
        if result.returncode:
            lines = result.stderr.strip().splitlines()
            raise NotCompiledError(lines[-1][:200] if lines else "the compiler's process ended")
        partial.replace(folder)
    except OSError as error:
        if folder.exists():  # Another run was first.
            return folder
        raise NotCompiledError(str(error)) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def key(job: Job) -> str:
    """Return a name for all that the libraries depend on: the job, the machine and the sources."""
    library_folder = Path(__file__).parents[2]
    sources = [
        *(library_folder / name for name in BOOK_FILES),
        *sorted((library_folder / "variants").glob("*.py")),
        *sorted((library_folder / "fast").glob("*.py")),
        *sorted((library_folder / "fast" / "native").iterdir()),
    ]
    parts = [
        json.dumps(job, sort_keys=True),
        torch.__version__,
        processor(),
        os.environ.get("CXX", ""),
        *(path.read_text(encoding="utf-8") for path in sources if path.suffix in (".py", ".cpp")),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
