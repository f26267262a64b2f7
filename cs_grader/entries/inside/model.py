"""Answers in the sandbox with the tokenizer or the model of a run folder.

    python model.py encode RUN_FOLDER      a text in, token ids out
    python model.py decode RUN_FOLDER      token ids in, the text out
    python model.py logits RUN_FOLDER      token ids in, logits out

Requests come over stdin, answers go over what was stdout; all numbers are little-endian, sizes
uint64.

    encode    in: number of bytes, the text     out: number of ids, ids (int32)
    decode    in: number of ids, ids (int32)    out: number of bytes, the text
    logits    first of all, out: vocab_size, context_length
              in: rows, columns, ids (int32)    out: logits (float32)

This is the only file of cs_grader that imports cs_basics: a copy of it, with what the entry has
changed. Nothing that it answers is believed.
"""

import os
import struct
import sys
from pathlib import Path
from typing import IO


def main() -> None:
    """Answer until the input ends."""
    kind, run = sys.argv[1], Path(sys.argv[2])
    # What the entry's code prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    {"encode": encode, "decode": decode, "logits": logits}[kind](run, sys.stdin.buffer, answers)


def encode(run: Path, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Encode a text, which need not be UTF-8."""
    import numpy as np

    from cs_basics.run.folder import RunFolder

    text = requests.read(struct.unpack("<Q", requests.read(8))[0])
    tokenizer = RunFolder(run).load_tokenizer(is_fast=False)
    ids = np.asarray(tokenizer.encode(text.decode("utf-8", "surrogateescape")), "<i4")
    answers.write(struct.pack("<Q", ids.size) + ids.tobytes())
    answers.flush()


def decode(run: Path, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Return the bytes of ids."""
    import numpy as np

    from cs_basics.run.folder import RunFolder

    ids = np.frombuffer(requests.read(4 * struct.unpack("<Q", requests.read(8))[0]), "<i4")
    vocab = RunFolder(run).load_tokenizer(is_fast=False).vocab
    text = b"".join(vocab[token_id] for token_id in ids.tolist())
    answers.write(struct.pack("<Q", len(text)) + text)
    answers.flush()


def logits(run: Path, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Compute logits in float32 with the book's clear model, each batch by itself."""
    import numpy as np
    import torch

    from cs_basics.run.folder import RunFolder

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    folder = RunFolder(run)
    config = folder.read_config().model
    model = folder.load_model().float().eval()
    answers.write(struct.pack("<QQ", config.vocab_size, config.context_length))
    answers.flush()
    with torch.no_grad():
        while header := requests.read(16):
            rows, columns = struct.unpack("<QQ", header)
            ids = np.frombuffer(requests.read(4 * rows * columns), "<i4").astype(np.int64)
            values = model(torch.from_numpy(ids).view(rows, columns))
            answers.write(values.float().contiguous().numpy().tobytes())
            answers.flush()


if __name__ == "__main__":
    main()
