"""Checkpoint files: the output of `save_checkpoint`, the progress of the run, and a checksum.

A checkpoint is one file, written atomically; its checksum is verified before any of it is used. It
begins with the output of the book's `save_checkpoint` (or a student's), which is not interpreted
here; then follow the progress of the run and a footer of fixed length.
"""

import hashlib
import io
import json
import os
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.serialization import get_unsafe_globals_in_checkpoint

from cs_basics.checkpoint import load_checkpoint, save_checkpoint
from cs_basics.run.atomic import atomic_writer

NUMPY_VALUES: list[Any] = [
    *(value.__reduce__()[0] for value in (np.float64(0), np.zeros(1))),
    *(type(np.dtype(kind)) for kind in np.typecodes["AllInteger"] + np.typecodes["Float"] + "?"),
    *(np.dtype, np.ndarray),
]
"""What saved numbers and arrays of NumPy are made of: a rate or a step may be one of them."""
FORMAT_VERSION = 3
FOOTER_BYTES = 256


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and verified."""

    path: Path
    """Its file."""
    state: bytes
    """The output of `save_checkpoint`."""
    progress: dict[str, Any]
    """Everything else that a run needs to resume; empty for imported weights."""

    def load_into(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Load the state into a model and its optimizer.

        The run counts its updates in `progress`, whatever a student's load_checkpoint returns.

        Raises:
            ValueError: The checkpoint does not fit this model or optimizer.
        """
        try:
            with torch.serialization.safe_globals(NUMPY_VALUES):
                load_checkpoint(io.BytesIO(self.state), model, optimizer)
            _check_moments(optimizer)
        except pickle.UnpicklingError as error:
            raise ValueError(f"{self.path} cannot be read: {self._what_is_not_plain()}") from error
        except Exception as error:
            # A student's load_checkpoint may raise anything.
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            if re.search(r'"(_orig_mod|module)\.', str(error)):
                reason += (
                    "; names begin with _orig_mod. or module. where torch.compile or"
                    " DistributedDataParallel has wrapped the model: save the one inside"
                )
            raise ValueError(f"{self.path} does not fit this model: {reason}") from error

    def _what_is_not_plain(self) -> str:
        """Name what a file holds that could run code when it is built."""
        try:
            names = get_unsafe_globals_in_checkpoint(io.BytesIO(self.state))
        except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError):
            names = []
        held = {f"{part.__module__}.{part.__qualname__}" for part in NUMPY_VALUES}
        others = ", ".join(sorted({*names} - held)[:3])
        return (
            f"save_checkpoint wrote {others or 'something'} into it, which is no plain value, so "
            "torch.load does not build it: save tensors, numbers, strings, lists and dictionaries"
        )


def _check_moments(optimizer: Optimizer) -> None:
    """Refuse moments of the wrong shape: PyTorch loads them and fails at the next update."""
    for parameter, state in optimizer.state.items():
        for name in ("m", "v"):
            moment = state.get(name)
            if isinstance(moment, torch.Tensor) and moment.shape != parameter.shape:
                raise ValueError(
                    f"the optimizer's moment {name} has shape {tuple(moment.shape)},"
                    f" its weight {tuple(parameter.shape)}"
                )


class _HashingWriter(io.RawIOBase):
    """A binary file for writing that computes the checksum of what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.num_bytes = 0
        self.error: OSError | None = None
        """The error of a failed write, which torch.save does not pass on."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401  any buffer
        try:
            self._file.write(data)
        except OSError as error:
            self.error = error
            raise
        self.sha256.update(data)
        self.num_bytes += memoryview(data).nbytes
        return memoryview(data).nbytes


def write_checkpoint(
    path: str | os.PathLike[str],
    model: nn.Module,
    optimizer: Optimizer,
    iteration: int,
    progress: dict[str, Any] | None = None,
) -> None:
    """Write a checkpoint atomically: an older file of that name stays until it is complete.

    Args:
        path: The file to write.
        model: As in `save_checkpoint`.
        optimizer: As in `save_checkpoint`.
        iteration: As in `save_checkpoint`.
        progress: Everything else that the run needs: numbers, strings, tensors, lists, dicts.

    Raises:
        OSError: The file cannot be written; the disk may be full.
    """
    with atomic_writer(path) as file:
        writer = _HashingWriter(file)
        try:
            save_checkpoint(model, optimizer, iteration, cast(IO[bytes], writer))
            state_bytes = writer.num_bytes
            torch.save(progress or {}, cast(IO[bytes], writer))
        except Exception:
            # torch replaces the error of the write by one of its own, without the reason.
            if writer.error is not None:
                raise writer.error from None
            raise
        footer = {
            "cs_basics checkpoint": FORMAT_VERSION,
            "state_bytes": state_bytes,
            "progress_bytes": writer.num_bytes - state_bytes,
            "sha256": writer.sha256.hexdigest(),
        }
        file.write(json.dumps(footer).encode().ljust(FOOTER_BYTES))


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint and verify its checksum.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, not a checkpoint, or of another version.
    """
    path = Path(path)
    with path.open("rb") as file:
        # The footer first: a file that is not a checkpoint may be of any size.
        file.seek(max(0, path.stat().st_size - FOOTER_BYTES))
        footer = _read_footer(path, file.read(FOOTER_BYTES))
        file.seek(0)
        body = memoryview(file.read())[:-FOOTER_BYTES]
    state_bytes, progress_bytes = footer.get("state_bytes"), footer.get("progress_bytes")
    if (
        not isinstance(state_bytes, int)
        or not isinstance(progress_bytes, int)
        or not 0 <= state_bytes <= len(body) == state_bytes + progress_bytes
        or footer.get("sha256") != hashlib.sha256(body).hexdigest()
    ):
        raise ValueError(f"{path} is damaged (its checksum does not fit)")
    try:
        progress = torch.load(
            # A mean of weights that was made on a GPU has to be readable without one.
            io.BytesIO(body[state_bytes:]),
            map_location="cpu",
            weights_only=True,
        )
    except Exception as error:
        # Unpickling arbitrary bytes may raise any exception.
        raise ValueError(f"{path} is damaged: its progress cannot be read") from error
    if not isinstance(progress, dict):
        raise ValueError(f"{path} is damaged: its progress is not a dictionary")
    return Checkpoint(path, bytes(body[:state_bytes]), progress)


def _read_footer(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        footer = json.loads(raw)
        version = footer["cs_basics checkpoint"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(f"{path} is damaged or not a checkpoint of cs_basics") from None
    if not isinstance(version, int) or version != FORMAT_VERSION:  # 3.0 is none of ours.
        raise ValueError(f"{path} has format version {version!r}, not {FORMAT_VERSION}")
    return footer
