"""A run's configuration, vocabulary, tokens and weights, read without running any of it.

Written from the formats alone (docs/teach.md; cs_basics/run), so that an error there is not an
error here too.
"""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_grader.entries.entry import CHECKPOINT
from cs_grader.entries.refusal import RefusedError, once

FOOTER_BYTES = 256
HEADER_BYTES = 1024
SIZES = ("vocab_size", "context_length")
MAX_SIZE = 2**20
MAX_WINDOW_LOGITS = 2**26
MAX_VOCAB_SIZE = 2**16
"""With a larger one, so many logits would be those of fewer than 1,000 places that are probed."""
"""Logits of a window: they cross the wall at once, 256 MB at most."""
MAX_TEXT_BYTES = 2**27
Ids = npt.NDArray[np.int32]


class RunFiles:
    """What lies in the clean copy of a run folder; each part is read when first asked for.

    Args:
        folder: The folder whose `run` it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"

    @once
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of config.json, by section."""
        try:
            settings = json.loads(self._bytes("config.json"))["settings"]
            if not all(isinstance(settings[name], dict) for name in ("model", "data", "run")):
                raise TypeError("a section is no table")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise RefusedError(f"config.json cannot be read: {error!r}") from None
        return settings

    @once
    def sizes(self) -> tuple[int, int]:
        """Entries of the vocabulary and tokens of a window."""
        model = self.settings["model"]
        vocab_size, context_length = (_size(model, name) for name in SIZES)
        if vocab_size > MAX_VOCAB_SIZE:
            raise RefusedError(f"a vocabulary of {vocab_size:,}: at most {MAX_VOCAB_SIZE:,}")
        if vocab_size * context_length > MAX_WINDOW_LOGITS:
            raise RefusedError(f"a window has {vocab_size:,} x {context_length:,} logits: too many")
        return vocab_size, context_length

    @once
    def vocabulary(self) -> list[bytes]:
        """The bytes of each id. Ids that vocab.json leaves out stand for nothing."""
        tokens = [b""] * self.sizes[0]
        try:
            entries = json.loads(self._bytes("tokenizer/vocab.json"))
            for name, token_id in entries.items():
                tokens[token_id] = bytes(BYTE_OF[character] for character in name)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise RefusedError(f"tokenizer/vocab.json cannot be read: {error!r}") from None
        return tokens

    @once
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many bytes each id stands for."""
        return np.array([len(token) for token in self.vocabulary], np.int64)

    def decode(self, ids: Ids) -> bytes:
        """Return the bytes that ids stand for.

        Raises:
            RefusedError: An id is not in the vocabulary, or they stand for more than a text has.
        """
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < len(self.vocabulary):
            raise RefusedError(f"a token id is outside of the vocabulary of {len(self.vocabulary)}")
        num_bytes = int(self.lengths[ids].sum())
        if num_bytes > MAX_TEXT_BYTES:
            raise RefusedError(f"{ids.size:,} token ids stand for {num_bytes:,} bytes")
        return b"".join(map(self.vocabulary.__getitem__, ids.tolist()))

    @once
    def training_text(self) -> bytes:
        """The text that the tokens in tokens/train.bin stand for."""
        raw = self._bytes("tokens/train.bin")
        try:
            # The first line names the format.
            kind = json.loads(raw[:HEADER_BYTES].partition(b"\n")[2])["dtype"]
            ids = np.frombuffer(raw[HEADER_BYTES:], {"uint16": "<u2", "uint32": "<u4"}[kind])
        except (ValueError, TypeError, KeyError) as error:
            raise RefusedError(f"tokens/train.bin is no token file: {error!r}") from None
        return self.decode(ids.astype(np.int32))

    @once
    def weights(self) -> bytes:
        """What `save_checkpoint` wrote, taken out of the checkpoint; not interpreted."""
        raw = self._bytes(CHECKPOINT.removeprefix("run/"))
        try:
            footer = json.loads(raw[-FOOTER_BYTES:])
            state, end = footer["state_bytes"], footer["state_bytes"] + footer["progress_bytes"]
            is_whole = 0 < state <= end == len(raw) - FOOTER_BYTES
            digest = footer["sha256"]
        except (ValueError, TypeError, KeyError) as error:
            raise RefusedError(f"the checkpoint has no footer: {error!r}") from None
        if not is_whole or hashlib.sha256(memoryview(raw)[:end]).hexdigest() != digest:
            raise RefusedError("the checkpoint is damaged: its checksum does not fit")
        _check_archive(raw[:state])
        return raw[:state]

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.run / name).read_bytes()
        except FileNotFoundError:
            raise RefusedError(f"run/{name} is missing") from None


def _size(model: dict[str, Any], name: str) -> int:
    size = model.get(name)
    if type(size) is not int or not 0 < size <= MAX_SIZE:
        raise RefusedError(f"config.json: {name}={size!r} must be 1 to {MAX_SIZE:,}")
    return size


def _check_archive(state: bytes) -> None:
    """Refuse compressed weights, which may need more memory than they have bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(state)) as archive:
            packed = [file for file in archive.infolist() if file.compress_type]
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise RefusedError(f"the weights are not a PyTorch archive: {error}") from None
    if packed:
        raise RefusedError(f"the weights are compressed ({packed[0].filename}): PyTorch never does")


def _byte_of() -> dict[str, int]:
    """GPT-2's names of bytes: visible characters are themselves, the others follow U+0100."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = sorted(set(range(256)) - set(visible))
    named = {chr(byte): byte for byte in visible}
    return named | {chr(256 + place): byte for place, byte in enumerate(hidden)}


BYTE_OF = _byte_of()
