"""Step an optimizer, clip gradients, ask for learning rates, batches and checkpoints."""

import copy
import inspect
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from probes.model import Array, Plain, is_refusal, plain, plain_gradient

OTHER_DECAY = 0.5
"""The decay of an optimizer that a checkpoint is loaded into; the saved one has 0.01."""


def optimize(
    adapters: Any,
    groups: list[dict[str, Any]],
    options: dict[str, Any],
    gradients: list[list[Array | None]],
    rates: list[float] | None = None,
    given_as: str = "list",
    restart_after: int | None = None,
    rival: int = 0,
    changes: list[dict[str, Any]] | None = None,
    added_after: int | None = None,
) -> Plain:
    """Step AdamW once for each row of gradients and see the parameters after each step.

    Args:
        adapters: Where AdamW comes from.
        groups: Parameter groups: arrays under "params", and options of the group's own.
        options: The constructor's keyword arguments.
        gradients: A row for each step, an entry for each parameter over all groups.
        rates: The learning rate that all groups are set to before each step, under the name that
            they have for it.
        given_as: Pass the parameters as "list", "generator" (one group) or "groups".
        restart_after: Go on in a fresh optimizer with the saved state after this many steps.
        rival: Steps that another optimizer takes in between.
        changes: Options that all groups are given before each step.
        added_after: Hand the last group over by add_param_group, after this many steps.
    """
    optimizer_class = adapters.get_adamw_cls()
    groups = copy.deepcopy(groups)
    for group in groups:
        group["params"] = [nn.Parameter(torch.tensor(array)) for array in group["params"]]
    other_parameter = nn.Parameter(torch.ones(3))
    other = optimizer_class([other_parameter], **options)
    first_groups = groups if added_after is None else groups[:-1]
    optimizer = make_optimizer(optimizer_class, first_groups, options, given_as)
    rate = its_name_for_the_rate(optimizer.param_groups[0], options["lr"])
    trail, touched, stays_on = [], False, True
    for step, row in enumerate(gradients):
        if step == added_after:
            optimizer.add_param_group(dict(groups[-1]))
        if step == restart_after:
            optimizer = restarted(optimizer, optimizer_class, groups, options, given_as)
        for _ in range(rival):
            other_parameter.grad = torch.full((3,), 0.5)
            other.step()
        for group in optimizer.param_groups if rates else []:
            group[rate] = rates[step]
        for group in optimizer.param_groups if changes else []:
            group.update(changes[step])
        parameters = [parameter for group in groups for parameter in group["params"]]
        for parameter, gradient in zip(parameters, row, strict=True):
            parameter.grad = None if gradient is None else torch.tensor(gradient)
        optimizer.step()
        stays_on &= torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        touched |= any(map(has_another_gradient, parameters, row))
        trail.append([plain(parameter) for parameter in parameters])
    names = sorted(other.param_groups[0].keys() - {"params"})
    return {
        "trail": trail,
        "gradients_changed": bool(touched),
        "gradients_stay_on": stays_on,
        "names": names,
    }


def its_name_for_the_rate(group: dict[str, Any], first_lr: float) -> str:
    """Return "lr", or what stands in a group in its place; what it is called is asked elsewhere."""
    if "lr" in group:
        return "lr"
    return next((name for name, value in group.items() if value == first_lr), "lr")


def has_another_gradient(parameter: nn.Parameter, gradient: Array | None) -> bool:
    if gradient is None:
        return False
    return parameter.grad is None or not np.array_equal(parameter.grad.numpy(), gradient)


def closure_step(adapters: Any, options: dict[str, Any]) -> Plain | None:
    """Step with a closure that computes loss and gradient; None if step() takes no closure."""
    parameter = nn.Parameter(torch.ones(3))
    optimizer = adapters.get_adamw_cls()([parameter], **options)
    if not inspect.signature(type(optimizer).step).parameters.keys() - {"self"}:
        return None
    calls = 0

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        if not torch.is_grad_enabled():
            raise RuntimeError("step calls the closure without gradients: use torch.enable_grad()")
        parameter.grad = None
        loss = parameter.sum() - 0.5
        loss.backward()
        return loss

    returned = optimizer.step(closure)
    return {
        "calls": calls,
        "returned": None if returned is None else torch.as_tensor(returned).item(),
        "moved": not torch.equal(parameter, torch.ones(3)),
    }


def takes_float64(adapters: Any, kind: str, inputs: Plain) -> bool:
    """Tell whether a probe of this file runs with gradients of float64: they may be refused.

    Args:
        adapters: What is probed.
        kind: "clip" or "optimize".
        inputs: Arguments of the probe.
    """
    run = {"clip": clip, "optimize": optimize}[kind]
    try:
        run(adapters, **inputs)
    except Exception as error:
        if not is_refusal(error):
            raise
        # What runs in float32 was refused for its type; what does not is to be seen.
        run(adapters, **in_float32(inputs))
        return False
    return True


def in_float32(value: Any) -> Any:
    """Return plain data with all of its arrays in float32."""
    if isinstance(value, dict):
        return {name: in_float32(one) for name, one in value.items()}
    if isinstance(value, list):
        return [in_float32(one) for one in value]
    return value.astype(np.float32) if isinstance(value, np.ndarray) else value


def make_optimizer(
    optimizer_class: Any, groups: list[dict[str, Any]], options: dict[str, Any], given_as: str
) -> torch.optim.Optimizer:
    if given_as == "groups":
        return optimizer_class([dict(group) for group in groups], **options)
    parameters = groups[0]["params"]
    if given_as == "generator":
        return optimizer_class((parameter for parameter in parameters), **options)
    return optimizer_class(list(parameters), **options)


def restarted(
    optimizer: torch.optim.Optimizer,
    optimizer_class: Any,
    groups: list[dict[str, Any]],
    options: dict[str, Any],
    given_as: str,
) -> torch.optim.Optimizer:
    """Rebuild parameters and optimizer as a new process would, from what was saved."""
    saved = io.BytesIO()
    torch.save(optimizer.state_dict(), saved)
    saved.seek(0)
    for group in groups:
        group["params"] = [nn.Parameter(old.detach().clone()) for old in group["params"]]
    fresh = make_optimizer(optimizer_class, groups, options, given_as)
    # A state of a class of its own is read, too: the file was written above.
    fresh.load_state_dict(torch.load(saved, weights_only=False))
    return fresh


def clip(
    adapters: Any,
    gradients: list[Array | None],
    max_l2_norm: float,
    given_as: str = "list",
    dtype: str | None = None,
) -> Plain:
    """Clip gradients; a parameter without one is frozen if it stands at an odd place.

    Args:
        adapters: Where the function comes from.
        gradients: One for each parameter; None: it has none.
        max_l2_norm: The bound.
        given_as: Pass the parameters as "list", "tuple" or "generator".
        dtype: Of parameters and gradients, such as "bfloat16"; None: that of the arrays.
    """
    given_dtype = None if dtype is None else getattr(torch, dtype)
    parameters = []
    for place, gradient in enumerate(gradients):
        shape = (2,) if gradient is None else gradient.shape
        frozen = gradient is None and place % 2 == 1
        held_gradient = None if gradient is None else torch.tensor(gradient, dtype=given_dtype)
        held_dtype = torch.float32 if held_gradient is None else held_gradient.dtype
        parameter = nn.Parameter(torch.ones(shape, dtype=held_dtype), requires_grad=not frozen)
        parameter.grad = held_gradient
        parameters.append(parameter)
    held = [parameter.grad for parameter in parameters]
    makers = {"list": list, "tuple": tuple, "generator": iter}
    adapters.run_gradient_clipping(parameters=makers[given_as](parameters), max_l2_norm=max_l2_norm)
    return {
        "gradients": [plain_gradient(parameter.grad) for parameter in parameters],
        "held": [plain_gradient(gradient) for gradient in held],
        "parameters_changed": any(bool((p.detach() != 1).any()) for p in parameters),
    }


def schedule(adapters: Any, iterations: list[int], settings: dict[str, Any]) -> Plain:
    """Ask for the learning rate at each iteration."""
    ask = adapters.run_get_lr_cosine_schedule
    return {"rates": [float(ask(it=it, **settings)) for it in iterations]}


def batches(
    adapters: Any, dataset: Array, batch_size: int, context_length: int, calls: int = 1
) -> Plain:
    """Draw batches from a dataset in memory."""
    before = dataset.copy()
    drawn = [
        adapters.run_get_batch(
            dataset=dataset, batch_size=batch_size, context_length=context_length, device="cpu"
        )
        for _ in range(calls)
    ]
    return {
        "x": [plain(x) for x, _ in drawn],
        "y": [plain(y) for _, y in drawn],
        "changed": not np.array_equal(before, dataset),
    }


def mapped_batch(adapters: Any, dataset: Array, batch_size: int, context_length: int) -> Plain:
    """Draw one batch from a read-only memory map of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.npy"
        np.save(path, dataset)
        mapped = np.load(path, mmap_mode="r")
        x, y = adapters.run_get_batch(
            dataset=mapped, batch_size=batch_size, context_length=context_length, device="cpu"
        )
        return {"x": plain(x), "y": plain(y)}


def pages_of_a_batch(adapters: Any, megabytes: int) -> float | None:
    """MiB of a memory-mapped file that one small batch brings into memory; None if unknown."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.npy"
        size = megabytes * 2**20 // 2
        written = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint16, shape=(size,))
        del written  # A file without content: it takes no room on the disk.
        mapped = np.load(path, mmap_mode="r")
        before = resident_megabytes(path)
        adapters.run_get_batch(dataset=mapped, batch_size=2, context_length=4, device="cpu")
        after = resident_megabytes(path)
    return None if before is None or after is None else after - before


def resident_megabytes(path: Path) -> float | None:
    """How much of a mapped file this process has touched, as Linux tells it."""
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return None
    starts = [place for place, line in enumerate(lines) if line.endswith(str(path))]
    sizes = [next(line for line in lines[start:] if line.startswith("Rss:")) for start in starts]
    return sum(int(size.split()[1]) for size in sizes) / 1024 if sizes else None


def batch_devices(adapters: Any, dataset: Array, context_length: int) -> list[str]:
    """Ask for a batch on "meta", a device that every machine has; see where x and y are.

    An implementation that knows the usual devices only may refuse: nothing is seen then.
    """
    get_batch = adapters.run_get_batch
    try:
        both = get_batch(
            dataset=dataset, batch_size=2, context_length=context_length, device="meta"
        )
    except NotImplementedError as error:
        if "meta" in str(error):
            return []
        raise
    except Exception:
        return []
    return [tensor.device.type for tensor in both]


def refused_batch(adapters: Any, dataset: Array, context_length: int, device: str = "cpu") -> str:
    """Ask for a batch that cannot be given and name what is raised ("" if nothing)."""
    get_batch = adapters.run_get_batch
    get_batch(dataset=np.arange(100), batch_size=2, context_length=context_length, device="cpu")
    try:
        get_batch(dataset=dataset, batch_size=2, context_length=context_length, device=device)
    except Exception as error:
        return type(error).__name__
    return ""


class Regression(nn.Module):
    """Two parameters and a buffer: the least that a checkpoint has to keep."""

    def __init__(self, weight: Array, bias: Array) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.bias = nn.Parameter(torch.tensor(bias))
        self.register_buffer("seen", torch.zeros(1))

    def train_step(self, optimizer: torch.optim.Optimizer, gradients: Sequence[Array]) -> None:
        self.weight.grad, self.bias.grad = (torch.tensor(gradient) for gradient in gradients)
        self.seen += 1
        optimizer.step()


def checkpoint(
    adapters: Any,
    parameters: list[Array],
    gradients: list[list[Array]],
    save_after: int,
    iteration: int,
    place: str,
    first_lr: float,
    later_lr: float,
    saved_later: int | None = None,
) -> Plain:
    """Train, save, train on; then load into a fresh model and train on from there.

    The optimizer is PyTorch's AdamW, so that nothing but the checkpoint is examined. Its learning
    rate goes from `first_lr` to `later_lr` just before saving. `saved_later` is the iteration of
    another checkpoint, which is written before the first one is loaded.
    """
    model = Regression(*parameters)
    optimizer = torch.optim.AdamW(model.parameters(), lr=first_lr, foreach=False)
    for row in gradients[:save_after]:
        model.train_step(optimizer, row)
    optimizer.param_groups[0]["lr"] = later_lr
    fresh = Regression(*(np.zeros_like(array) for array in parameters))
    # All options come from the checkpoint, not only the rate.
    fresh_optimizer = torch.optim.AdamW(
        fresh.parameters(), lr=first_lr, weight_decay=OTHER_DECAY, foreach=False
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "after step 5.ckpt"
        if place == "overwritten":
            path.write_bytes(bytes(100_000))
            place = "path"
        memory = io.BytesIO()
        if place == "open file":
            with path.open("wb") as out:
                adapters.run_save_checkpoint(
                    model=model, optimizer=optimizer, iteration=iteration, out=out
                )
                is_closed = out.closed
        else:
            out = {"path": path, "str": str(path), "bytes": memory}[place]
            adapters.run_save_checkpoint(
                model=model, optimizer=optimizer, iteration=iteration, out=out
            )
            is_closed = memory.closed
        files = sorted(entry.name for entry in Path(folder).iterdir())
        dtype = str(model.weight.dtype).removeprefix("torch.")
        if is_closed or dtype != "float32":
            return {"is_closed": is_closed, "dtype": dtype, "files": files}
        at_save = [plain(model.weight), plain(model.bias), plain(model.seen)]
        for row in gradients[save_after:]:
            model.train_step(optimizer, row)
        if saved_later is not None:
            later = Path(folder) / "later.ckpt"
            adapters.run_save_checkpoint(
                model=model, optimizer=optimizer, iteration=saved_later, out=later
            )
        memory.seek(0)
        if place == "open file":
            with path.open("rb") as src:
                returned = adapters.run_load_checkpoint(
                    src=src, model=fresh, optimizer=fresh_optimizer
                )
        else:
            src = {"path": path, "str": str(path), "bytes": memory}[place]
            returned = adapters.run_load_checkpoint(src=src, model=fresh, optimizer=fresh_optimizer)
    loaded = [plain(fresh.weight), plain(fresh.bias), plain(fresh.seen)]
    loaded_lr = float(fresh_optimizer.param_groups[0]["lr"])
    for row in gradients[save_after:]:
        fresh.train_step(fresh_optimizer, row)
    return {
        "is_closed": False,
        "dtype": dtype,
        "files": files,
        "iteration": returned if isinstance(returned, int | float | str) else repr(returned),
        "at_save": at_save,
        "loaded": loaded,
        "loaded_lr": loaded_lr,
        "never_stopped": [plain(model.weight), plain(model.bias), plain(model.seen)],
        "resumed": [plain(fresh.weight), plain(fresh.bias), plain(fresh.seen)],
    }


def checkpoint_of_frozen(adapters: Any, frozen: Array, trained: Array, training: bool) -> Plain:
    """Save a model part of which is not trained, and load it into one of zeros."""

    def make(*weights: Array) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = nn.Module()
        model.frozen = nn.Parameter(torch.tensor(weights[0]), requires_grad=False)
        model.trained = nn.Parameter(torch.tensor(weights[1]))
        return model, torch.optim.AdamW([model.trained], foreach=False)

    model, optimizer = make(frozen, trained)
    model.train(training)
    fresh, fresh_optimizer = make(np.zeros_like(frozen), np.zeros_like(trained))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frozen.ckpt"
        adapters.run_save_checkpoint(model=model, optimizer=optimizer, iteration=3, out=path)
        adapters.run_load_checkpoint(src=path, model=fresh, optimizer=fresh_optimizer)
    return {
        "frozen": plain(fresh.frozen),
        "trained": plain(fresh.trained),
        "training": model.training,
        "training_after_loading": fresh.training,
    }
