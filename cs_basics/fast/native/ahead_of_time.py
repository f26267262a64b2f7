"""A training step that another process compiled ahead of time: this one loads no compiler.

torch.compile runs in the process that trains, and the compiler with its imports and caches takes
350 MB as long as that process lives. Here another process (`ahead_of_time_compiler.py`) compiles
the step with AOTInductor, writes shared libraries to a cache folder and exits; this process loads
them. Later runs of the same configuration load them at once.

The libraries are valid for one configuration, batch shape and number of threads. If any of this
fails, NotCompiledError tells the caller to use torch.compile.
"""

import hashlib
import json
import os
import shutil
import stat
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

COMPILER = "cs_basics.fast.native.ahead_of_time_compiler"
ROOMS = (".", "settings", "variants", "fast", "fast/native")
"""The folders of cs_basics that the compiled code may depend on: fast/ imports no other."""

Library = Callable[[list[Tensor]], list[Tensor]]
Job = dict[str, Any]
"""A description of the step to compile: config (fields of ModelConfig), dtype, num_rows,
num_threads, drops (whether it has dropout masks)."""


class NotCompiledError(RuntimeError):
    """Ahead-of-time compilation failed on this machine or version of torch; one line says why."""


class CompiledLoss:
    """The mean loss of a batch and its gradients, computed by libraries compiled ahead of time.

    Args:
        model: The model; its parameters are read at every call.
        job: The step to compile, or to load if it was compiled before.
        plain_loss_of: Uncompiled loss, used for batches of another shape.

    Raises:
        NotCompiledError: The step cannot be compiled ahead of time.
    """

    def __init__(self, model: nn.Module, job: Job, plain_loss_of: LossFunction) -> None:
        self.model, self.plain_loss_of = model, plain_loss_of
        self.shape = (job["num_rows"], job["config"]["context_length"])
        loader_class()  # Raises before anything is compiled if torch has no loader.
        folder = compiled_folder(job)
        try:
            self.load(folder)
        except NotCompiledError:
            raise  # The loader of this torch is another one: compiling again would not help.
        except (OSError, ValueError, KeyError, RuntimeError):
            # Damaged, or partly deleted by a cleanup of temporary files: compile it again.
            shutil.rmtree(folder, ignore_errors=True)
            try:
                self.load(compiled_folder(job))
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                raise NotCompiledError((str(error) or repr(error)).splitlines()[0]) from error

    def load(self, folder: Path) -> None:
        """Load the libraries and plans of a folder.

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
        """Return the mean loss; if gradients are enabled, save what the backward needs."""
        if tuple(inputs.shape) != self.shape:
            return self.plain_loss_of(inputs, targets)
        if not torch.is_grad_enabled():
            return self.evaluation(self.evaluation_plan.arguments(inputs, targets))[0]
        return LoadedLoss.apply(self, *self.plan.arguments(inputs, targets))

    def update(self, p: Tensor, grad: Tensor, m: Tensor, v: Tensor, *numbers: Tensor) -> None:
        """Update a parameter and its moments like `update_in_place` of adamw.py."""
        # The update is element-wise, so one library for flat tensors serves every shape.
        self.update_flat([*(tensor.view(-1) for tensor in (p, grad, m, v)), *numbers])


class Plan:
    """The arguments of the compiled libraries, in order.

    Args:
        plan: The plan that the compiling process wrote.
        model: The model whose parameters and buffers are the arguments.
    """

    def __init__(self, plan: dict[str, Any], model: nn.Module) -> None:
        self.held: dict[str, Tensor] = {**dict(model.named_parameters())}
        self.held |= dict(model.named_buffers())
        self.names: list[str] = plan["arguments"]
        self.saved: list[tuple[str, int]] = plan["saved"]
        """Arguments of the backward: ("argument" or "result" of the forward, index), or the
        incoming gradient."""
        self.with_gradient: list[int] = plan["with_gradient"]
        """Indices of the arguments whose gradients the backward returns."""

    def arguments(self, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """Return the arguments of the forward."""
        tensors = {**self.held, "inputs": inputs, "targets": targets}
        return [tensors[name] for name in self.names]


class LoadedLoss(torch.autograd.Function):
    """The loss of a model as one operation; its backward gives the gradients of all parameters."""

    @staticmethod
    def forward(ctx: Any, loss_of: CompiledLoss, *arguments: Tensor) -> Tensor:  # noqa: ANN401
        """Return the loss."""
        results = loss_of.forward(list(arguments))
        sources = {"argument": arguments, "result": results}
        # Not save_for_backward, which keeps every tensor until the backward has ended.
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
            RuntimeError: The backward of this loss ran before.
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
    """Return the class behind torch._inductor.aoti_load_package, without importing the compiler.

    Raises:
        NotCompiledError: This version of torch does not have it.
    """
    try:
        return torch._C._aoti.AOTIModelPackageLoader  # pyright: ignore
    except AttributeError as error:
        raise NotCompiledError(str(error)) from error


def library(folder: Path, name: str) -> Library:
    """Load a library; the function frees its arguments as soon as they are no longer needed.

    Raises:
        NotCompiledError: This version of torch loads libraries in another way.
        RuntimeError: The library is missing or damaged.
    """
    try:
        return loader_class()(str(folder / f"{name}.pt2"), "model", True, 1, -1).boxed_run
    except (AttributeError, TypeError) as error:
        raise NotCompiledError(str(error).splitlines()[0]) from error


def compiled_folder(job: Job) -> Path:
    """Return the folder of the libraries of a job; compile them in another process if necessary.

    Raises:
        NotCompiledError: They cannot be compiled, or another user could have.
    """
    folder = compiled_code_folder() / key(job)
    check_is_own(folder.parent)
    if folder.exists():
        return folder
    partial = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
        if folder.exists():  # Another run has compiled it meanwhile.
            return folder
        raise NotCompiledError(str(error)) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def check_is_own(folder: Path) -> None:
    """Refuse a folder into which others can put code that would run here.

    Raises:
        NotCompiledError: It or the one that holds it is of another user, or writable for all.
    """
    for path in (folder, folder.parent):
        if hasattr(os, "getuid") and path.exists():
            status = path.stat()
            if status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
                raise NotCompiledError(
                    f"others can write to {path}, whose code would run here: set "
                    "TORCHINDUCTOR_CACHE_DIR to a folder of your own"
                )


def key(job: Job) -> str:
    """Return a hash of all that the libraries depend on: job, machine, torch and sources."""
    package = Path(__file__).parents[2]
    sources = [path for room in ROOMS for path in sorted((package / room).glob("*.*p*"))]
    parts = [
        json.dumps(job, sort_keys=True),
        torch.__version__,
        processor(),
        os.environ.get("CXX", ""),
        *(path.read_text(encoding="utf-8") for path in sources if path.suffix in (".py", ".cpp")),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
