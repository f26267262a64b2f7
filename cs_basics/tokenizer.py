"""Turn text into token ids and back with a trained byte-pair encoding.

Last of three files (pretokenize, bpe, tokenizer): what is here joins the other two, remembers the
ids of words it has met, and reads and writes the files of a tokenizer.

Radford et al. 2019 (GPT-2), sec. 2.2; files are in the format that GPT-2 was published in.

Test: pytest tests/project/test_tokenizer.py
"""

import contextlib
import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cs_basics.bpe import (
    NO_TOKEN,
    SINGLE_BYTES,
    Merge,
    Ranks,
    Vocab,
    merge_word,
)
from cs_basics.fast.text.blocks import byte_pieces
from cs_basics.fast.text.cuts import is_open
from cs_basics.fast.text.merging import Merger, no_token_error
from cs_basics.fast.text.parallel import default_num_workers, map_in_order
from cs_basics.fast.text.pieces import IdLists, Numbers, PieceTable
from cs_basics.fast.text.token_bytes import TokenBytes
from cs_basics.fast.text.words import WordTable
from cs_basics.pretokenize import (
    PRETOKEN,
    check_special_tokens,
    independent_blocks,
    pretokens,
    special_pattern,
    text_to_bytes,
)
from cs_basics.run.atomic import atomic_writer

Ids = npt.NDArray[np.integer[Any]]

SHORT_TEXT = 1 << 12
"""Characters up to which a dictionary of strings is faster than arrays."""

MIN_ARRAY_LENGTH = 64
"""Ids from which arrays are faster than a dictionary."""
MAX_IDS_PER_TOKEN = 64
"""A vocabulary with more gaps than tokens by so much stays in its dictionary."""
DECODED_AT_ONCE = 1 << 14
"""Ids turned into bytes at once: so few that what is known of them stays in the cache."""

MAX_CACHED_WORDS = 1 << 15
"""Pre-tokens whose ids are remembered."""
MAX_CACHED_PIECES = 1 << 17
"""Pieces between spaces whose ids are remembered; most are a word and what is written after it."""
MAX_CACHED_LENGTH = 32
"""Longer ones are rare and seldom repeat; leaving them out bounds the memory."""

MAX_UINT16_VOCAB_SIZE = 1 << 16

MAX_DESCRIPTION_BYTES = 100_000_000
"""Three times the largest tokenizer.json that is known to us."""

_MERGES_HEADER = "#version: 0.2"


class Tokenizer:
    """A byte-pair encoding, ready to use.

    Args:
        vocab: Token ids and their bytes; ids may have any order and gaps. Copied.
        merges: Pairs of tokens, the first to be applied first. Copied.
        special_tokens: Strings that are always one token; of overlapping ones the longest wins.
            Those that the vocabulary lacks get the next free ids.

    Raises:
        TypeError: vocab does not map int to bytes, or special_tokens is not a list of strings.
        ValueError: An id is negative or above 2^32 - 1, a merge has a part or product that is not
            in the vocabulary, or a special token is empty or repeated.
    """

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        merges: Iterable[Merge],
        special_tokens: Sequence[str] | None = None,
    ) -> None:
        check_special_tokens(special_tokens or [])
        self.special_tokens = list(special_tokens or [])
        self.vocab: Vocab = dict(vocab)
        self.merges: list[Merge] = [(left, right) for left, right in merges]
        _check_vocab(self.vocab)
        # Of several ids with the same bytes the lowest is used.
        self._ids: dict[bytes, int] = {self.vocab[i]: i for i in sorted(self.vocab, reverse=True)}
        for token in self.special_tokens:
            if token.encode("utf-8") not in self._ids:
                self._ids[token.encode("utf-8")] = self.vocab_size
                self.vocab[self.vocab_size] = token.encode("utf-8")
        if self.vocab_size > 1 << 32:
            raise ValueError(f"the token id {self.vocab_size - 1} is more than a token file holds")
        self._special_ids = {
            token: self._ids[token.encode("utf-8")] for token in self.special_tokens
        }
        self._special_pattern = special_pattern(self.special_tokens)
        self._shortest_special = min(map(len, self.special_tokens), default=0)
        self._byte_ids = [self._ids.get(byte, NO_TOKEN) for byte in SINGLE_BYTES]
        self._ranks: Ranks = {}
        self._products: list[int] = []
        for rank, (left, right) in enumerate(self.merges):
            for token in (left, right, left + right):
                if token not in self._ids:
                    raise ValueError(
                        f"merge {rank} of {left!r} and {right!r} needs {token!r}, "
                        "which is not in the vocabulary"
                    )
            self._products.append(self._ids[left + right])
            self._ranks.setdefault((self._ids[left], self._ids[right]), rank)
        self._cuts_at_spaces = not any(" " in token for token in self.special_tokens)
        self._forget()

    @property
    def vocab_size(self) -> int:
        """One more than the highest id: the rows that an embedding needs."""
        return max(self.vocab, default=-1) + 1

    @property
    def dtype(self) -> str:
        """Smallest type of an array that holds every id."""
        return "uint16" if self.vocab_size <= MAX_UINT16_VOCAB_SIZE else "uint32"

    @cached_property
    def checksum(self) -> str:
        """Hex digest of vocabulary, merges and special tokens: the same for equal tokenizers."""
        content = (
            [(i, self.vocab[i].hex()) for i in sorted(self.vocab)],
            [(left.hex(), right.hex()) for left, right in self.merges],
            sorted(self.special_tokens),
        )
        return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()

    def token_bytes(self, token_id: int) -> bytes:
        """Bytes that a token id stands for.

        Raises:
            ValueError: There is no such id.
        """
        return self.decode_bytes([token_id])

    def encode_plainly(self, text: str) -> list[int]:
        """Turn text into token ids: the definition. `encode` does the same, faster.

        The text between special tokens is split by the pattern, and each pre-token is encoded by
        itself; the ids of those that were met before are remembered.

        Args:
            text: Any text, as in `encode`.

        Raises:
            ValueError: As in `encode`.
        """
        parts = [text]
        if self._special_pattern and len(text) >= self._shortest_special:
            parts = self._special_pattern.split(text)
        ids: list[int] = []
        for index, part in enumerate(parts):
            if index % 2 == 1:
                ids.append(self._special_ids[part])
                continue
            for pretoken in PRETOKEN.findall(part):
                word_ids = self._words.get(pretoken)
                ids += self._encode_word(pretoken) if word_ids is None else word_ids
        return ids

    def encode(self, text: str) -> list[int]:
        """Turn text into token ids.

        Args:
            text: Any text. Surrogates of the "surrogateescape" error handler give the raw bytes
                they stand for; other surrogates are encoded as U+FFFD.

        Returns:
            One id per token; `decode_bytes` of them gives the bytes of the text.

        Raises:
            ValueError: The text has a byte for which the vocabulary has no token.
        """
        if len(text) <= SHORT_TEXT and self._cuts_at_spaces:
            with contextlib.suppress(_OpenPieceError):
                return self._encode_short(text)
        return self.encode_to_array(text).tolist()

    def encode_to_array(self, text: str) -> Ids:
        """Return what `encode` does as an array of `dtype`, without making an object of each id."""
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            # Escaped bytes would be joined to characters when they are decoded again.
            return np.array(self.encode_plainly(text), self.dtype)
        return self.encode_bytes(data)

    def encode_bytes(self, data: bytes) -> Ids:
        """Encode text in UTF-8, or any other bytes, as `encode` does what they decode to.

        Args:
            data: The text. Invalid bytes are kept, too.

        Returns:
            One id per token, of type `dtype`.

        Raises:
            ValueError: As in `encode`.
        """
        parts = [self._encode_piece(piece) for piece in byte_pieces(data, self.special_tokens)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def encode_batch(self, texts: Iterable[str], num_workers: int = 1) -> list[list[int]]:
        """Return what `encode` does for each of many texts.

        Args:
            texts: Any number of texts, in order.
            num_workers: Processes. Sending texts and ids to and fro costs about as much as encoding
                real text, so that more than one pay only for text that repeats little.

        Raises:
            ValueError: As in `encode`, or num_workers is below 1.
        """
        workers = default_num_workers(num_workers, 0)
        if workers == 1:
            return [self.encode(text) for text in texts]
        return [ids.tolist() for ids in map_in_order(self.encode_to_array, texts, workers)]

    def encode_iterable(self, chunks: Iterable[str]) -> Iterator[int]:
        """Yield what `encode` of the joined chunks returns, reading only as far as needed.

        Memory stays constant however long the text; see independent_blocks for the exceptions.

        Args:
            chunks: Text cut anywhere, such as an open file or blocks of it.

        Raises:
            TypeError: A chunk is not a str.
            ValueError: As in `encode`.
        """
        for block in independent_blocks(chunks, self.special_tokens):
            yield from self.encode(block)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn token ids into text; bytes that are not UTF-8 become U+FFFD.

        Raises:
            ValueError: An id is not in the vocabulary.
        """
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_plainly(self, ids: Iterable[int]) -> bytes:
        """Turn token ids into bytes: the definition. `decode_bytes` does the same, faster.

        Raises:
            ValueError: An id is not in the vocabulary.
        """
        try:
            return b"".join(map(self.vocab.__getitem__, ids))
        except KeyError as error:
            raise self._unknown(error.args[0]) from None

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Turn token ids into the exact bytes that they stand for.

        Args:
            ids: Token ids; fastest as an array, such as the tokens of a token file.

        Raises:
            ValueError: An id is not in the vocabulary.
        """
        is_short = isinstance(ids, Sequence) and len(ids) < MIN_ARRAY_LENGTH
        if is_short or self._token_bytes is None:
            return self.decode_plainly(ids)
        try:
            return b"".join(map(self._token_bytes.joined, _in_arrays(ids)))
        except KeyError as error:
            raise self._unknown(error.args[0]) from None

    @cached_property
    def _token_bytes(self) -> TokenBytes | None:
        is_sparse = self.vocab_size > MAX_IDS_PER_TOKEN * len(self.vocab)
        return None if is_sparse else TokenBytes(self.vocab)

    def _unknown(self, token_id: int) -> ValueError:
        return ValueError(
            f"token id {token_id} is not in the vocabulary of {self.vocab_size} tokens"
        )

    def bytes_per_token(self, text: str) -> float:
        """Bytes of UTF-8 per token, the compression ratio on this text.

        Raises:
            ValueError: The text is empty.
        """
        if not text:
            raise ValueError("bytes_per_token needs a text that is not empty")
        return len(text_to_bytes(text)) / len(self.encode(text))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write vocab.json, merges.txt and special_tokens.json into a folder, made if missing.

        Raises:
            OSError: The folder cannot be written.
            ValueError: Two ids have the same bytes, which vocab.json cannot hold.
        """
        if len(self._ids) < len(self.vocab):
            twin = next(i for i, token in self.vocab.items() if self._ids[token] != i)
            token = self.vocab[twin]
            raise ValueError(f"ids {self._ids[token]} and {twin} both stand for {token!r}")
        vocab = {to_printable(self.vocab[i]): i for i in sorted(self.vocab)}
        merges = [f"{to_printable(left)} {to_printable(right)}" for left, right in self.merges]
        contents = {
            "vocab.json": json.dumps(vocab),
            "merges.txt": "\n".join([_MERGES_HEADER, *merges, ""]),
            "special_tokens.json": json.dumps(self.special_tokens),
        }
        Path(folder).mkdir(parents=True, exist_ok=True)
        # All files are complete under temporary names before the first is put in place.
        with contextlib.ExitStack() as stack:
            for name, content in contents.items():
                file = stack.enter_context(atomic_writer(Path(folder) / name))
                file.write(content.encode("utf-8"))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Tokenizer":
        """Read what `save` wrote.

        Raises:
            OSError: A file is missing or cannot be read.
            ValueError: A file is damaged.
        """
        path = Path(folder) / "special_tokens.json"
        special_tokens = read_json(path)
        if not isinstance(special_tokens, list):
            raise ValueError(f"{path} is not a list of strings")
        return cls.from_files(
            Path(folder) / "vocab.json", Path(folder) / "merges.txt", special_tokens
        )

    @classmethod
    def from_files(
        cls,
        vocab_path: str | os.PathLike[str],
        merges_path: str | os.PathLike[str],
        special_tokens: Sequence[str] | None = None,
    ) -> "Tokenizer":
        """Read a vocabulary and merges in GPT-2's format, in which bytes are printable characters.

        Raises:
            OSError: A file is missing or cannot be read.
            ValueError: A file is not in this format, or the two do not fit together.
        """
        entries = read_json(vocab_path)
        if not isinstance(entries, dict) or not all(type(i) is int for i in entries.values()):
            raise ValueError(f"{vocab_path} is not a map of tokens to integer ids")
        try:
            vocab = {token_id: from_printable(token) for token, token_id in entries.items()}
        except KeyError as error:
            raise ValueError(
                f"{vocab_path} has the character {error.args[0]!r}, which stands for no byte"
            ) from None
        if len(vocab) < len(entries):
            raise ValueError(f"{vocab_path} gives the same id to more than one token")
        return cls(vocab, _read_merges(merges_path), special_tokens)

    def _encode_word(self, pretoken: str) -> list[int]:
        """Encode a pre-token that is not remembered, and remember it if it is short."""
        word = text_to_bytes(pretoken)
        ids = list(map(self._byte_ids.__getitem__, word))
        if NO_TOKEN in ids:
            raise no_token_error(word, self._byte_ids)
        ids = merge_word(ids, self._ranks, self._products)
        if len(pretoken) <= MAX_CACHED_LENGTH:
            if len(self._words) >= MAX_CACHED_WORDS:
                self._words.clear()
            self._words[pretoken] = ids
        return ids

    def _encode_piece(self, data: bytes) -> Ids:
        """Encode a text by way of the numbers of its pieces, each of which is encoded once.

        Exact since no pre-token and no special token crosses the end of a piece.
        """
        if not self._cuts_at_spaces:
            ids = self.encode_plainly(data.decode("utf-8", "surrogateescape"))
            return np.array(ids, self.dtype)
        if self._table.is_full:
            self._forget()
        numbers = self._table.number(data)
        try:
            new = self._table.texts[len(self._table_ids) :]
            self._table_ids.extend(*self._encode_together(new))
        except ValueError:
            self._forget()  # no text may be left in the table without its ids
            raise
        return self._table_ids.joined(numbers)

    def _encode_together(self, texts: list[bytes]) -> tuple[Ids, Numbers]:
        """Encode the texts that a call of `PieceTable.number` has added as if they were one text.

        Returns:
            The ids, and how many are of each text.
        """
        words = self._split(b"".join(texts).decode("utf-8", "surrogateescape"))
        ids, ids_of_word = self._word_table.encode(words)
        if len(texts) == 1:
            return ids, np.array([len(ids)])
        # A text ends where a word ends.
        word_ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
        text_ends = np.cumsum(np.fromiter(map(_num_characters, texts), np.int64, len(texts)))
        ids_before = np.append(0, np.cumsum(ids_of_word))
        words_before = np.searchsorted(word_ends, text_ends, "right")
        return ids, np.diff(ids_before[words_before], prepend=0)

    def _split(self, text: str) -> list[str]:
        """Split text into pre-tokens and special tokens."""
        if self._special_pattern is None:
            return pretokens(text)
        words: list[str] = []
        for index, part in enumerate(self._special_pattern.split(text)):
            words += [part] if index % 2 == 1 else pretokens(part)
        return words

    @cached_property
    def _word_table(self) -> WordTable:
        merger = Merger(self._byte_ids, self._ranks, self._products)
        return WordTable(merger, self._special_ids, self._typecode)

    @property
    def _typecode(self) -> str:
        return "H" if self.dtype == "uint16" else "I"

    def _encode_short(self, text: str) -> list[int]:
        """Do what `_encode_piece` does with a dictionary, which is faster for a short text.

        Raises:
            _OpenPieceError: A token may cross a cut at a space.
        """
        first, *pieces = text.split(" ")
        if not pieces:
            return self.encode_plainly(text)
        last = pieces.pop()
        if first and is_open(first):
            raise _OpenPieceError
        ids = self.encode_plainly(first)
        ids += chain.from_iterable(map(self._short_pieces.__getitem__, pieces))
        ids += self.encode_plainly(" " + last)
        return ids

    def _forget(self) -> None:
        """Empty everything that is remembered of texts."""
        self._words: dict[str, list[int]] = {}
        self._table = PieceTable()
        self._table_ids = IdLists(self._typecode)
        self._table_ids.extend(np.zeros(0, np.int64), np.zeros(1, np.int64))  # of nothing at all
        self._short_pieces = _Pieces(self.encode_plainly)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the cache behind when travelling to another process."""
        forgotten = (
            "_words",
            "_table",
            "_table_ids",
            "_short_pieces",
            "_word_table",
            "_token_bytes",
        )
        return {name: value for name, value in self.__dict__.items() if name not in forgotten}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()


def _num_characters(text: bytes) -> int:
    return len(text) if text.isascii() else len(text.decode("utf-8", "surrogateescape"))


class _OpenPieceError(Exception):
    """A piece does not end in a visible character, so that a token may cross the cut after it."""


class _Pieces(dict[str, list[int]]):
    """Ids of pieces that follow a space. One that is missing is encoded, and kept if it is short.

    Args:
        encode: Encodes a text by the definition.
    """

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode

    def __missing__(self, piece: str) -> list[int]:
        if is_open(piece):
            raise _OpenPieceError
        ids = self._encode(" " + piece)
        if len(piece) <= MAX_CACHED_LENGTH:
            if len(self) >= MAX_CACHED_PIECES:
                self.clear()  # simpler than forgetting the oldest, and as fast on real text
            self[piece] = ids
        return ids


def _in_arrays(ids: Iterable[int]) -> Iterator[Ids]:
    """Cut ids in arrays of some length.

    Raises:
        KeyError: An id is too large for an array.
    """
    if not isinstance(ids, np.ndarray | Sequence):
        remaining = iter(ids)
        while batch := list(islice(remaining, DECODED_AT_ONCE)):
            yield from _in_arrays(batch)
        return
    if not isinstance(ids, np.ndarray):
        try:
            ids = np.frombuffer(array("q", ids), np.int64)
        except OverflowError:
            raise KeyError(max(ids, key=abs)) from None
    yield from (ids[i : i + DECODED_AT_ONCE] for i in range(0, len(ids), DECODED_AT_ONCE))


def _check_vocab(vocab: Mapping[Any, Any]) -> None:
    for token_id, token in vocab.items():
        if not isinstance(token_id, int) or not isinstance(token, bytes):
            raise TypeError(f"vocab maps {token_id!r} to {token!r}: it must map int to bytes")
        if token_id < 0:
            raise ValueError(f"vocab has the negative token id {token_id}")


def _printable_bytes() -> dict[int, str]:
    """GPT-2's names of the bytes: visible ones are themselves, the rest U+0100 and what follows."""
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
    """Read bytes from what GPT-2's files write.

    Raises:
        KeyError: A character stands for no byte.
    """
    return bytes(_FROM_PRINTABLE[character] for character in token)


def read_at_once(path: str | os.PathLike[str]) -> bytes:
    """Read a file that describes something, and is therefore never large.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is so large that it must be something else.
    """
    if (size := Path(path).stat().st_size) > MAX_DESCRIPTION_BYTES:
        raise ValueError(
            f"{path} has {size:,} bytes: it is damaged or something else, "
            f"at most {MAX_DESCRIPTION_BYTES:,} were expected"
        )
    return Path(path).read_bytes()


def read_json(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401  JSON holds anything
    """Read a JSON file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not JSON.
    """
    try:
        return json.loads(read_at_once(path).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None


def _read_merges(path: str | os.PathLike[str]) -> list[Merge]:
    try:
        lines = read_at_once(path).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}") from None
    # Only the first line can be the header: a merge may well begin with "#".
    first = 1 if lines[0].startswith("#version") else 0
    merges: list[Merge] = []
    for number, line in enumerate(lines[first:], first + 1):
        if not line:
            continue
        try:
            left, right = line.split(" ")
            merges.append((from_printable(left), from_printable(right)))
        except (ValueError, KeyError):
            raise ValueError(f"{path} line {number} is not two tokens: {line!r}") from None
    return merges
