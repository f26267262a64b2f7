"""Encode, decode and train on text."""

import copy
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from probes.model import Plain


def encode(adapters: Any, tokenizer: Plain, texts: list[str]) -> Plain:
    """Encode texts with one tokenizer, decode what came out, and name the types of the ids."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    encoded = [made.encode(text) for text in texts]
    return {
        "ids": [[int(token) for token in ids] for ids in encoded],
        "container": type(encoded[0]).__name__,
        "kinds": sorted({type(token).__name__ for ids in encoded for token in ids}),
        "decoded": [str(made.decode(ids)) for ids in encoded],
    }


def decode(adapters: Any, tokenizer: Plain, rows: list[list[int]]) -> list[str]:
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    return [str(made.decode(row)) for row in rows]


def encode_chunks(adapters: Any, tokenizer: Plain, chunkings: list[list[str]]) -> list[list[int]]:
    """Encode texts that arrive in pieces; an empty list is a text that never arrives."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    return [[int(token) for token in made.encode_iterable(iter(chunks))] for chunks in chunkings]


def encode_stream(adapters: Any, tokenizer: Plain, line: str, num_lines: int) -> Plain:
    """Encode many lines and see how many lines the tokenizer was ahead of its own output."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    ids_per_line = len(made.encode(line))
    read = 0

    def lines() -> Iterable[str]:
        nonlocal read
        for _ in range(num_lines):
            read += 1
            yield line

    stream = made.encode_iterable(lines())
    read_at_call = read
    written, furthest = 0, 0
    for _ in stream:
        written += 1
        furthest = max(furthest, read - written // ids_per_line)
    return {
        "is_iterator": hasattr(stream, "__next__"),
        "read_at_call": read_at_call,
        "lines_ahead": furthest,
        "written": written,
    }


def train_bpe(
    adapters: Any,
    text: bytes,
    vocab_size: int,
    special_tokens: list[str],
    path_as: str = "path",
) -> Plain:
    """Train on a file with exactly these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        path.write_bytes(text)
        vocab, merges = adapters.run_train_bpe(
            input_path=str(path) if path_as == "str" else path,
            vocab_size=vocab_size,
            special_tokens=list(special_tokens),
        )
    return {
        "vocab": {int(token): bytes(piece) for token, piece in vocab.items()},
        "merges": [(bytes(left), bytes(right)) for left, right in merges],
    }


def train_bpe_on_nothing(adapters: Any, special_tokens: list[str]) -> Plain:
    """Train on an empty file and name what is raised ("" if nothing)."""
    try:
        seen = train_bpe(adapters, b"", 300, special_tokens)
    except NotImplementedError:
        raise
    except Exception as error:
        return {"raised": type(error).__name__}
    return {"raised": "", **seen}
