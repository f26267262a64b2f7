"""Answers behind the wall with an entry's own tokenizer or model, in the book's clear code.

    python entry_model.py encode RUN_FOLDER      texts in, token ids out
    python entry_model.py logits RUN_FOLDER      token ids in, logits out

Requests come over stdin, answers go over what was stdout; all numbers are little-endian.

    encode    in: bytes of text (uint64), the text      out: number of ids (uint64), ids (int32)
    logits    in: rows, columns (uint32), ids (int32)   out: logits (float32)

This is the only file of cs_grader that imports cs_basics: a copy of it, with what the entry has
changed. Nothing that it answers is believed: the verifier decodes the ids and normalises the
logits.
"""

import io
import json
import os
import struct
import sys
from pathlib import Path
from typing import IO, Any


def main() -> None:
    """Answer until the input ends."""
    kind, run = sys.argv[1], Path(sys.argv[2])
    # What the entry's code prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answer = {"encode": encode, "logits": logits}[kind]
    answer(run, sys.stdin.buffer, answers)


def encode(run: Path, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Encode texts."""
    import numpy as np

    from cs_basics.run.tokenizer_folder import load_tokenizer

    tokenizer = load_tokenizer(run / "tokenizer", is_fast=False)
    while header := requests.read(8):
        text = requests.read(struct.unpack("<Q", header)[0])
        ids = np.asarray(tokenizer.encode(text.decode("utf-8", "surrogateescape")), "<i4")
        answers.write(struct.pack("<Q", ids.size) + ids.tobytes())
        answers.flush()


def logits(run: Path, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Compute logits in float32, each batch by itself."""
    import numpy as np
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = build(run)
    with torch.no_grad():
        while header := requests.read(8):
            rows, columns = struct.unpack("<II", header)
            ids = np.frombuffer(requests.read(4 * rows * columns), "<i4").astype(np.int64)
            values = model(torch.from_numpy(ids).view(rows, columns))
            answers.write(values.float().contiguous().numpy().tobytes())
            answers.flush()


def build(run: Path) -> Any:  # noqa: ANN401  torch is not imported yet
    """Build the model that the configuration describes and load its weights, and nothing else."""
    import torch

    from cs_basics.settings.model import ModelConfig
    from cs_basics.variants.model import Transformer

    settings = json.loads((run / "config.json").read_bytes())["settings"]
    model = Transformer(ModelConfig(**settings["model"]))
    weights = io.BytesIO((run / "weights.pt").read_bytes())
    state = torch.load(weights, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    return model.float().eval()


if __name__ == "__main__":
    main()
