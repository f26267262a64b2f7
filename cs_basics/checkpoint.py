"""Save and load the state of a training run. Tested by `make test ARGS="-k checkpoint"`."""

import hashlib
import os
import pickle
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.atomic import atomic_writer

FORMAT_VERSION = 1


def save_checkpoint(
    model: nn.Module,
    optimizer: Optimizer,
    iteration: int,
    out: str | os.PathLike[str] | IO[bytes] | BytesIO,
    progress: dict[str, Any] | None = None,
) -> None:
    """Write all that is needed to go on as if nothing had happened.

    A path is replaced only once everything is safely on the disk: a kill or a full disk leaves the
    old file as it was. Beside it comes its checksum, PATH.sha256, which `sha256sum --check` reads.

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
        torch.save(state, out)
        return
    path = Path(out)
    checksum_file = checksum_path(path)
    with atomic_writer(checksum_file) as line:
        with atomic_writer(path) as file:
            digest = _save_and_hash(state, file)
            # A kill between the two new names leaves a checkpoint without checksum, never one
            # with the checksum of another.
            checksum_file.unlink(missing_ok=True)
        line.write(f"{digest}  {path.name}\n".encode())


def checksum_path(path: Path) -> Path:
    """Return where the checksum of a checkpoint lies."""
    return path.with_name(f"{path.name}.sha256")


class _HashingWriter:
    """A binary file that hashes what passes, and remembers why it could not be written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def _save_and_hash(state: dict[str, Any], file: IO[bytes]) -> str:
    writer = _HashingWriter(file)
    try:
        torch.save(state, writer)  # pyright: ignore[reportArgumentType]  it only writes and flushes
    except RuntimeError:
        # torch turns what the file raised into an error of its own, without the reason.
        if writer.error is not None:
            raise writer.error from None
        raise
    return writer.sha256.hexdigest()


def _check_sum(path: Path) -> None:
    """Compare a checkpoint with the checksum that lies beside it, if there is one.

    Raises:
        ValueError: They differ.
    """
    try:
        wanted = checksum_path(path).read_text(encoding="ascii", errors="replace").split()[:1]
    except FileNotFoundError:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if wanted != [found]:
        raise ValueError(f"{path} is damaged or not a checkpoint (it has another checksum)")


def read_checkpoint(
    src: str | os.PathLike[str] | IO[bytes] | BytesIO, device: torch.device | str = "cpu"
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
        _check_sum(Path(src))
    try:
        state = torch.load(src, map_location=device, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, ValueError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ValueError(f"{_name(src)} is damaged or not a checkpoint ({reason})") from error
    if not isinstance(state, dict) or not {"model", "optimizer", "iteration"} <= state.keys():
        raise ValueError(f"{_name(src)} is not a checkpoint of cs_basics")
    if (version := state.get("format_version")) != FORMAT_VERSION:
        raise ValueError(f"{_name(src)} has format version {version}, not {FORMAT_VERSION}")
    return state


def load_checkpoint(
    src: str | os.PathLike[str] | IO[bytes] | BytesIO, model: nn.Module, optimizer: Optimizer
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


def _name(src: object) -> str:
    return str(src) if isinstance(src, str | os.PathLike) else "the file"
