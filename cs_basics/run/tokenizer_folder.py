"""Tokenizers on disk, in the format that GPT-2 was published in: bytes are printable characters.

Radford et al. 2019. A folder holds special_tokens.json, merges.txt and vocab.json. Everything that
a run knows of a tokenizer is in these files; of a tokenizer's class it uses the constructor,
`encode`, `encode_iterable` and `decode`.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from cs_basics.bpe import Merge, Vocab
from cs_basics.run.atomic import write_atomically
from cs_basics.run.json_file import read_json
from cs_basics.run.model import accelerate
from cs_basics.tokenizer import Tokenizer

_MERGES_HEADER = "#version: 0.2"


class RunTokenizer:
    """What was trained, beside the tokenizer made of it: it need not keep any of this itself.

    Args:
        vocab: Token ids and their bytes.
        merges: Pairs of tokens in the order in which they were learned.
        special_tokens: Strings that are one token each.
        tokenizer: Encodes and decodes; ids may be of any type of integer, in any sequence.
    """

    def __init__(
        self,
        vocab: Vocab,
        merges: Sequence[Merge],
        special_tokens: Sequence[str],
        tokenizer: Any,  # noqa: ANN401  a student's class
    ) -> None:
        self.vocab, self.merges = dict(vocab), list(merges)
        self.special_tokens = list(special_tokens)
        self.vocab_size = max(self.vocab, default=-1) + 1
        """One more than the highest id: the rows that an embedding needs."""
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """Turn text into token ids."""
        return [int(token_id) for token_id in self._tokenizer.encode(text)]

    def encode_iterable(self, chunks: Iterable[str]) -> Iterator[int]:
        """Yield the ids of a text that comes in chunks."""
        return map(int, self._tokenizer.encode_iterable(chunks))

    def decode(self, ids: Iterable[int]) -> str:
        """Turn token ids into text.

        Raises:
            TypeError: The student's function returns something else.
        """
        text = self._tokenizer.decode(list(ids))
        if not isinstance(text, str):
            raise TypeError(f"decode returned {type(text).__name__}, and has to return str")
        return text


def make_tokenizer(
    vocab: Vocab, merges: Sequence[Merge], special_tokens: Sequence[str], is_fast: bool = True
) -> Tokenizer:
    """Return a tokenizer of what was trained.

    Args:
        vocab: As in RunTokenizer.
        merges: As in RunTokenizer.
        special_tokens: As in RunTokenizer.
        is_fast: Whether to return the fast twin of the book's tokenizer.

    Raises:
        TypeError, ValueError: As in Tokenizer.
    """
    kind = accelerate(Tokenizer) if is_fast else Tokenizer
    made = kind(vocab, merges, special_tokens)
    if kind is not Tokenizer:
        return made
    # To whoever reads it, a RunTokenizer is what the book's Tokenizer is.
    return cast(Tokenizer, RunTokenizer(vocab, merges, special_tokens, made))


def save_tokenizer(tokenizer: Tokenizer, folder: str | os.PathLike[str]) -> None:
    """Write the files of a tokenizer atomically, vocab.json last.

    Raises:
        OSError: The folder cannot be written.
        ValueError: Two ids have the same bytes, which vocab.json cannot hold.
    """
    vocab = {to_printable(token): token_id for token_id, token in tokenizer.vocab.items()}
    for token_id, token in tokenizer.vocab.items():
        if vocab[to_printable(token)] != token_id:
            raise ValueError(f"id {token_id} is not the only one for {token!r}")
    merges = [f"{to_printable(left)} {to_printable(right)}" for left, right in tokenizer.merges]
    contents = {
        "special_tokens.json": json.dumps(tokenizer.special_tokens),
        "merges.txt": "\n".join([_MERGES_HEADER, *merges, ""]),
        "vocab.json": json.dumps(vocab),
    }
    # Until the new one is there, nothing may read a mixture of two tokenizers.
    (Path(folder) / "vocab.json").unlink(missing_ok=True)
    for name, content in contents.items():
        write_atomically(Path(folder) / name, content.encode("utf-8"))


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
    try:
        return make_tokenizer(read_vocab(vocab), read_merges(merges), special_tokens, is_fast)
    except TypeError as error:
        raise ValueError(f"{folder} holds no tokenizer: {error}") from None


def read_vocab(path: str | os.PathLike[str]) -> Vocab:
    """Read a vocab.json.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not in this format.
    """
    entries: Any = read_json(path)
    try:
        vocab = {token_id: from_printable(token) for token, token_id in entries.items()}
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is not a vocabulary like GPT-2's: {error!r}") from None
    if no_ids := [token_id for token_id in vocab if type(token_id) is not int]:
        raise ValueError(f"{path} must give each token an integer, not {no_ids[0]!r}")
    if len(vocab) < len(entries):
        raise ValueError(f"{path} gives the same id to more than one token")
    return vocab


def read_merges(path: str | os.PathLike[str]) -> list[Merge]:
    """Read a merges.txt.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not in this format.
    """
    lines = Path(path).read_bytes().decode("utf-8", "replace").split("\n")
    merges: list[Merge] = []
    for number, line in enumerate(lines, 1):
        # Only the first line can be the header: a merge may well begin with "#".
        if not line or (number == 1 and line.startswith("#version")):
            continue
        try:
            left, right = line.split(" ")
            merges.append((from_printable(left), from_printable(right)))
        except (ValueError, KeyError):
            raise ValueError(f"{path} line {number} is not two tokens: {line!r}") from None
    return merges


def _printable_bytes() -> dict[int, str]:
    """Map bytes to characters as GPT-2 does: visible ones to themselves, others from U+0100 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {
        byte: chr(0x100 + index) for index, byte in enumerate(hidden)
    }


_PRINTABLE = _printable_bytes()
_FROM_PRINTABLE = {character: byte for byte, character in _PRINTABLE.items()}


def to_printable(token: bytes) -> str:
    """Write bytes as GPT-2's files do."""
    return "".join(_PRINTABLE[byte] for byte in token)


def from_printable(token: str) -> bytes:
    """Read bytes that are written as in GPT-2's files.

    Raises:
        KeyError: A character stands for no byte.
    """
    return bytes(_FROM_PRINTABLE[character] for character in token)
