"""Save and load the state of a training run. Tested by `make test ARGS="-k checkpoint"`."""

import os
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.checksum import BinaryFile, SealingWriter, is_intact

FORMAT_VERSION = 2


def save_checkpoint(
    model: nn.Module,
    optimizer: Optimizer,
    iteration: int,
    out: str | os.PathLike[str] | BinaryFile,
    progress: dict[str, Any] | None = None,
) -> None:
    """Write all that is needed to go on as if nothing had happened.

    A path is replaced only once everything is safely on the disk: a kill or a full disk leaves the
    old file as it was. It ends with its checksum (seal.py).

    Args:
        model: Its weights and persistent buffers are saved.
        optimizer: Its state (moments, steps) and hyperparameters are saved.
        iteration: Number of updates made.
        out: A path or a binary file open for writing.
        progress: What else the training loop needs: numbers, strings, tensors, lists, dicts.

    Raises:
        OSError: The file cannot be written; the disk may be full.
    """
    state = {
        "format_version": FORMAT_VERSION,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "iteration": iteration,
        "progress": progress or {},
    }
    if not isinstance(out, str | os.PathLike):
        _save_sealed(state, out)
        return
    with atomic_writer(out) as file:
        _save_sealed(state, file)


def _save_sealed(state: dict[str, Any], file: BinaryFile) -> None:
    writer = SealingWriter(file)
    try:
        torch.save(state, writer)  # pyright: ignore[reportArgumentType]  it writes and flushes
    except RuntimeError:
        # torch turns what the file raised into an error of its own, without the reason.
        if writer.error is not None:
            raise writer.error from None
        raise
    writer.seal()


def read_checkpoint(
    src: str | os.PathLike[str] | BinaryFile, device: torch.device | str = "cpu"
) -> dict[str, Any]:
    """Read a checkpoint without trusting it: only tensors and plain values are ever built.

    Args:
        src: A path or a binary file open for reading.
        device: Where the tensors go.

    Returns:
        The dictionary that `save_checkpoint` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged, not a checkpoint, or of another version.
    """
    if isinstance(src, str | os.PathLike):
        with Path(src).open("rb") as file:
            return _read_checkpoint(file, device, str(src))
    return _read_checkpoint(src, device, "the file")


def _read_checkpoint(file: BinaryFile, device: torch.device | str, name: str) -> dict[str, Any]:
    if not is_intact(file):
        raise ValueError(
            f"{name} is damaged or not a checkpoint of cs_basics (its checksum does not fit)"
        )
    try:
        state = torch.load(file, map_location=device, weights_only=True)
    except OSError:
        raise
    except Exception as error:
        # Nobody lists what unpickling raises on bytes that somebody made up.
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ValueError(f"{name} is damaged or not a checkpoint ({reason})") from error
    if not isinstance(state, dict) or not {"model", "optimizer", "iteration"} <= state.keys():
        raise ValueError(f"{name} is not a checkpoint of cs_basics")
    if (version := state.get("format_version")) != FORMAT_VERSION:
        raise ValueError(f"{name} has format version {version}, not {FORMAT_VERSION}")
    return state


def load_checkpoint(
    src: str | os.PathLike[str] | BinaryFile, model: nn.Module, optimizer: Optimizer
) -> int:
    """Put a saved state back into a model and its optimizer.

    Args:
        src: A path or a binary file open for reading.
        model: Takes the weights; must have the saved shapes.
        optimizer: Takes the saved state; must have the saved parameter groups.

    Returns:
        The number of updates made.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged, not a checkpoint, or of another shape.
    """
    state = read_checkpoint(src)
    load_weights(model, state["model"], _name(src))
    optimizer.load_state_dict(state["optimizer"])
    return state["iteration"]


def load_weights(model: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    """Load a state dict that must fit exactly.

    Args:
        model: Takes the weights.
        weights: Name to tensor.
        source: Where they come from, for the message.

    Raises:
        ValueError: A weight is missing, left over or of another shape; the first one is named.
    """
    wanted = model.state_dict()
    for name in {**wanted, **weights}:
        if name not in weights:
            raise ValueError(f"{source} has no weight {name}, which the model needs")
        if name not in wanted:
            raise ValueError(f"{source} has a weight {name}, which the model does not have")
        if not isinstance(weights[name], Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"{source} has no tensor under the name {name}")
        if weights[name].shape != wanted[name].shape:
            raise ValueError(
                f"{source} has {name} of shape {tuple(weights[name].shape)}, the model of shape "
                f"{tuple(wanted[name].shape)}: give the sizes the checkpoint was made with"
            )
    model.load_state_dict(weights)


def check_optimizer_state(optimizer: Optimizer, stored: object, source: str) -> None:
    """Refuse a state that an optimizer could not go on from, before the first step fails.

    Of each weight an optimizer keeps the same things: numbers, and tensors of the weight's shape.

    Args:
        optimizer: Is left as it is.
        stored: What should be a state dict of it.
        source: Where it comes from, for the message.

    Raises:
        ValueError: It is not.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    groups = optimizer.state_dict()["param_groups"]
    stored = cast("dict[str, Any]", stored) if isinstance(stored, dict) else {}
    kept, forms = stored.get("state"), set[tuple[tuple[str, str], ...]]()
    is_whole = isinstance(kept, dict) and _are_alike(stored.get("param_groups"), groups)
    for number, values in kept.items() if isinstance(kept, dict) else ():
        if not isinstance(values, dict) or number not in range(len(weights)):
            is_whole = False
            continue
        forms.add(
            tuple(sorted((str(name), type(value).__name__) for name, value in values.items()))
        )
        for value in values.values():
            if isinstance(value, Tensor) and value.dim():
                is_whole &= value.shape == weights[number].shape and value.is_floating_point()
    if not is_whole or len(forms) > 1:
        raise ValueError(f"{source} has a damaged state of the optimizer, or of another one")


def _are_alike(stored: object, own: object) -> bool:
    """Whether two values have the same form: the same names, lengths and kinds of numbers."""
    if isinstance(own, dict) and isinstance(stored, dict):
        return own.keys() == stored.keys() and all(_are_alike(stored[key], own[key]) for key in own)
    if isinstance(own, list | tuple) and isinstance(stored, list | tuple):
        return len(own) == len(stored) and all(map(_are_alike, stored, own))
    if isinstance(own, float):
        return isinstance(stored, int | float)
    return type(stored) is type(own)


def _name(src: object) -> str:
    return str(src) if isinstance(src, str | os.PathLike) else "the file"
