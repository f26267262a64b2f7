"""Asks the tokenizer and the model that a run has left, which answer in the sandbox.

Each process knows only what it is asked. One has the tokenizer and sees the text; one has it and
sees the ids; one has the model and sees windows of ids; another one has the model and sees
beginnings of windows without what follows.
"""

import contextlib
import os
import select
import struct
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from cs_grader.entries import sandboxed
from cs_grader.trusted.clean_copy import RefusedError
from cs_grader.trusted.sandbox import Stage

ANSWERS_S = 600.0
"""Seconds for all answers of a process together: ten-minute models need two minutes. Not without
end, since code could train on meanwhile."""
PROGRAM = "inside/model.py"
MAX_VOCAB_SIZE = 2**16
MAX_WINDOW_LOGITS = 2**26
"""Logits of a window: they leave the sandbox at once, 256 MB at most."""
Ids = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]


class Answers:
    """The pipes to a process in the sandbox."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes], output: IO[bytes]) -> None:
        self.requests, self.answers, self.output = requests, answers, output
        self.end = time.monotonic() + ANSWERS_S

    def encode(self, text: bytes) -> Ids:
        """Return the ids of a text."""
        self._send(struct.pack("<Q", len(text)) + text)
        (count,) = struct.unpack("<Q", self._receive(8))
        if count > len(text) + 1:
            raise RefusedError(f"the tokenizer makes {count} ids of {len(text)} bytes")
        return np.frombuffer(self._receive(4 * count), "<i4")

    def decode(self, ids: Ids, num_bytes: int) -> bytes:
        """Return the bytes that ids stand for, which should be so many."""
        self._send(struct.pack("<Q", len(ids)) + ids.astype("<i4").tobytes())
        (count,) = struct.unpack("<Q", self._receive(8))
        if count != num_bytes:
            raise RefusedError(f"the tokens stand for {count:,} bytes, the text has {num_bytes:,}")
        return bytes(self._receive(count))

    def sizes(self) -> tuple[int, int]:
        """Return the entries of the vocabulary and the tokens of a window."""
        vocab_size, context_length = struct.unpack("<QQ", self._receive(16))
        if not (0 < vocab_size <= MAX_VOCAB_SIZE and 0 < context_length <= MAX_WINDOW_LOGITS):
            raise RefusedError(f"a vocabulary of {vocab_size:,}, windows of {context_length:,}")
        if vocab_size * context_length > MAX_WINDOW_LOGITS:
            raise RefusedError(f"a window has {vocab_size:,} x {context_length:,} logits: too many")
        return vocab_size, context_length

    def logits(self, ids: Ids, vocab_size: int) -> Logits:
        """Return the logits of a batch of windows, (rows, columns, vocab_size)."""
        self._send(struct.pack("<QQ", *ids.shape) + ids.astype("<i4").tobytes())
        raw = self._receive(4 * ids.size * vocab_size)
        return np.frombuffer(raw, "<f4").reshape(*ids.shape, vocab_size)

    def _send(self, request: bytes) -> None:
        try:
            self.requests.write(request)
            self.requests.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _receive(self, num_bytes: int) -> bytearray:
        answer = bytearray(num_bytes)
        view = memoryview(answer)
        while view:
            wait_s = max(0.0, self.end - time.monotonic())
            ready, _, _ = select.select([self.answers], [], [], wait_s)
            if not ready:
                raise RefusedError(f"not all answers within {ANSWERS_S:.0f} s")
            count = os.readv(self.answers.fileno(), [view])
            if not count:
                raise self._ended()
            view = view[count:]
        return answer

    def _ended(self) -> RefusedError:
        return RefusedError(sandboxed.last_line(self.output))


@contextlib.contextmanager
def asked(isolation: str, stage: Stage, kind: str, run: Path) -> Generator[Answers]:
    """Start a process that answers questions of one kind.

    Args:
        isolation: One of isolation.ISOLATIONS.
        stage: What it sees, all of it read-only.
        kind: "encode", "decode" or "logits".
        run: The run folder, inside the stage.
    """
    with (
        tempfile.TemporaryFile() as output,
        sandboxed.running(isolation, stage, PROGRAM, [kind, str(run)], output) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        yield Answers(process.stdin, process.stdout, output)
