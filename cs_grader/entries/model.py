"""Asks the tokenizer and the model of a run, which answer behind the wall.

Each process knows only what it is asked. The tokenizer's process sees texts, the model's sees
windows of ids, and another process of the model sees beginnings of windows without what follows.
"""

import contextlib
import os
import select
import shutil
import struct
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from cs_grader.entries import wall
from cs_grader.entries.entry import Terms
from cs_grader.entries.refusal import RefusedError, once
from cs_grader.entries.run_files import Ids, RunFiles
from cs_grader.plain_text import plain
from cs_grader.trusted.sandbox import Stage

ANSWERS_S = 600.0
"""Seconds for all answers of a process together: ten-minute models need two minutes. Not without
end, since code could train on meanwhile."""
PROGRAM = "cs_grader/sandbox/entry_model.py"
SHOWN = (
    "config.json",
    "tokenizer/vocab.json",
    "tokenizer/merges.txt",
    "tokenizer/special_tokens.json",
)
Logits = npt.NDArray[np.float32]


class Answers:
    """The pipes to a process behind the wall."""

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

    def logits(self, ids: Ids, vocab_size: int) -> Logits:
        """Return the logits of a batch of windows, (rows, columns, vocab_size)."""
        self._send(struct.pack("<II", *ids.shape) + ids.astype("<i4").tobytes())
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
            ready, _, _ = select.select(
                [self.answers], [], [], max(0.0, self.end - time.monotonic())
            )
            if not ready:
                raise RefusedError(f"not all answers within {ANSWERS_S:.0f} s")
            count = os.readv(self.answers.fileno(), [view])
            if not count:
                raise self._ended()
            view = view[count:]
        return answer

    def _ended(self) -> RefusedError:
        return RefusedError(plain(wall.last_line(self.output), 200))


class Model:
    """The tokenizer and the model of a run, with the code of its entry.

    Args:
        files: The run.
        code: What the entry has changed of it; need not exist.
        folder: A folder that does not exist, for what is shown behind the wall.
        terms: Where cs_basics is, the kind of wall, and threads of matrix products.
    """

    def __init__(self, files: RunFiles, code: Path, folder: Path, terms: Terms) -> None:
        self.files, self.code, self.folder, self.terms = files, code, folder, terms

    @once
    def stage(self) -> Stage:
        """What is shown behind the wall: code, configuration and tokenizer, no text, no tokens."""
        self.folder.mkdir()
        stage = wall.build_stage(self.folder, self.terms.repository, self.code)
        shown = stage.root / "run"
        for name in SHOWN:
            if (self.files.run / name).is_file():
                (shown / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.files.run / name, shown / name)
        return stage

    def encode(self, text: bytes) -> Ids:
        """Return the ids of a text.

        Raises:
            RefusedError: They do not stand for exactly the bytes of the text, or there is no
                tokenizer.
        """
        with self._asked("encode") as answers:
            ids = answers.encode(text)
        if (decoded := self.files.decode(ids)) != text:
            pairs = zip(decoded, text, strict=False)
            place = next((i for i, (a, b) in enumerate(pairs) if a != b), len(decoded))
            raise RefusedError(
                f"the tokens stand for {len(decoded):,} bytes, the text has {len(text):,};"
                f" they differ from byte {min(place, len(text)):,} on"
            )
        return ids

    @contextlib.contextmanager
    def asked(self) -> Generator[Answers]:
        """Start a process that has the model and has seen no text.

        Raises:
            RefusedError: The weights cannot be read.
        """
        (self.stage.root / "run" / "weights.pt").write_bytes(self.files.weights)
        with self._asked("logits") as answers:
            yield answers

    @contextlib.contextmanager
    def _asked(self, kind: str) -> Generator[Answers]:
        arguments = [kind, f"{self.stage.root}/run"]
        with (
            tempfile.TemporaryFile() as output,
            wall.running(
                self.terms.tier, self.stage, PROGRAM, arguments, output, threads=self.terms.threads
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            yield Answers(process.stdin, process.stdout, output)
