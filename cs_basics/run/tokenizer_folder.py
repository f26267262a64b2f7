"""Tokenizers on disk: written so that a kill leaves the old one or none, and read with care.

Test: pytest tests/project/run/test_tokenizer_folder.py
"""

import os
import tempfile
from pathlib import Path

from cs_basics.fast import accelerate
from cs_basics.run.atomic import atomic_writer
from cs_basics.run.json_file import read_json
from cs_basics.tokenizer import Tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: str | os.PathLike[str]) -> None:
    """Write the files of a tokenizer, each complete before it takes its name, vocab.json last.

    Raises:
        OSError: The folder cannot be written.
        ValueError: The tokenizer cannot be saved, see there.
    """
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer.save(scratch)
        files = sorted(Path(scratch).iterdir(), key=lambda path: path.name == "vocab.json")
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path in files:
            with atomic_writer(Path(folder) / path.name) as file:
                file.write(path.read_bytes())


def load_tokenizer(folder: str | os.PathLike[str], is_fast: bool = True) -> Tokenizer:
    """Read what `save_tokenizer` wrote.

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
    special_tokens = read_json(specials)
    if not isinstance(special_tokens, list):
        raise ValueError(f"{specials} is not a list of strings")
    read_json(vocab)  # names what is wrong with a damaged one, whoever wrote the tokenizer
    tokenizer_class = accelerate(Tokenizer) if is_fast else Tokenizer
    try:
        return tokenizer_class.from_files(vocab, merges, special_tokens)
    except TypeError as error:
        raise ValueError(f"{folder} holds no tokenizer: {error}") from None
