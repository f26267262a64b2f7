"""Tokenizers on disk, written atomically and validated when read."""

import os
import tempfile
from pathlib import Path

from cs_basics.fast import accelerate
from cs_basics.run.atomic import write_atomically
from cs_basics.run.json_file import read_json
from cs_basics.tokenizer import Tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: str | os.PathLike[str]) -> None:
    """Write the files of a tokenizer atomically, vocab.json last.

    Raises:
        OSError: The folder cannot be written.
        ValueError: As in `Tokenizer.save`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer.save(scratch)
        files = sorted(Path(scratch).iterdir(), key=lambda path: path.name == "vocab.json")
        # Until the new one is there, nothing may read a mixture of two tokenizers.
        (Path(folder) / "vocab.json").unlink(missing_ok=True)
        for path in files:
            write_atomically(Path(folder) / path.name, path.read_bytes())


def load_tokenizer(folder: str | os.PathLike[str], is_fast: bool = True) -> Tokenizer:
    """Read a tokenizer written by `save_tokenizer`.

    Args:
        folder: The folder.
        is_fast: Whether to return the fast twin of the book's tokenizer.

    Raises:
        OSError: A file is missing or cannot be read.
        ValueError: A file is damaged.
    """
    vocab, merges, specials = (
        Path(folder) / name for name in ("vocab.json", "merges.txt", "special_tokens.json")
    )
    for file in (vocab, merges, specials):
        if not file.is_file():
            raise FileNotFoundError(
                f"{folder} holds no {file.name}: give the folder of a tokenizer that is finished"
            )
    special_tokens = read_json(specials)
    if not isinstance(special_tokens, list):
        raise ValueError(f"{specials} is not a list of strings")
    read_json(vocab)  # a clear error for a damaged file, whatever a student's from_files raises
    tokenizer_class = accelerate(Tokenizer) if is_fast else Tokenizer
    try:
        return tokenizer_class.from_files(vocab, merges, special_tokens)
    except TypeError as error:
        raise ValueError(f"{folder} holds no tokenizer: {error}") from None
