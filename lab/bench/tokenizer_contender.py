"""One contender of the tokenizer benchmark, in a process of its own: ours, or another library's.

It answers each task with the seconds that it took. What is loaded stays loaded between tasks.
"""

# ruff: noqa: D102  what the methods of a contender do stands in the first class

import importlib
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.fast.text.train_bpe import train_bpe
from cs_basics.interop.tokenizer_files import save_tokenizer_json, tiktoken_arguments
from cs_basics.run.encoding import encode_file
from cs_basics.run.tokenizer_folder import load_tokenizer
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer

from .worker import answer_all

CHUNK_CHARACTERS = 1 << 21
PARAGRAPH_CHARACTERS = 3000
MAX_DOCUMENT_BYTES = 20_000_000


def documents(path: str) -> list[str]:
    """Cut a text into documents, each with the token that ends it; or into parts of some length."""
    with Path(path).open("rb") as file:
        text = file.read(MAX_DOCUMENT_BYTES).decode("utf-8", "ignore")
    if END_OF_TEXT in text:
        return [document + END_OF_TEXT for document in text.split(END_OF_TEXT)[:-1]]
    places = range(0, len(text), PARAGRAPH_CHARACTERS)
    return [text[place : place + PARAGRAPH_CHARACTERS] for place in places]


def chunks(path: str) -> Iterator[str]:
    """Read a text in large parts, cut after a document if it has any."""
    rest = ""
    with Path(path).open(encoding="utf-8", newline="") as file:
        while part := file.read(CHUNK_CHARACTERS):
            whole, mark, rest = (rest + part).rpartition(END_OF_TEXT)
            if mark:
                yield whole + mark
    if rest:
        yield rest


class Contender:
    """What is measured: this library. Each method does one thing once; loading is no part of it."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self.tokenizer: Any = None
        self.loaded = ""
        """The folder of the vocabulary that is loaded."""

    def load(self, tokenizer: Tokenizer) -> None:
        """Load one of our vocabularies into this library."""
        self.tokenizer = FastTokenizer(tokenizer.vocab, tokenizer.merges, tokenizer.special_tokens)

    def train(self, text: str, vocab_size: int) -> None:
        """Learn a vocabulary from a file."""
        train_bpe(text, vocab_size, [END_OF_TEXT], self.num_threads)

    def documents(self, texts: list[str]) -> Sequence[object]:
        """Encode texts one at a time."""
        return [self.tokenizer.encode(text) for text in texts]

    def whole(self, text: str, out: str) -> None:
        """Encode a file to ids on disk."""
        encode_file(self.tokenizer, text, out, self.num_threads)

    def raw(self, data: bytes) -> None:
        """Encode one long text."""
        self.documents([data.decode("utf-8", "replace")])


def load_json(tokenizer: Tokenizer, load: Callable[[str], object]) -> object:
    """Load a vocabulary into a library that reads tokenizer.json."""
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/tokenizer.json"
        save_tokenizer_json(tokenizer, path)
        return load(path)


class HuggingFace(Contender):
    """The tokenizers library, byte-level BPE."""

    def load(self, tokenizer: Tokenizer) -> None:
        import tokenizers

        self.tokenizer = load_json(tokenizer, tokenizers.Tokenizer.from_file)

    def train(self, text: str, vocab_size: int) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        tokenizer: Any = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train([text], trainer)

    def documents(self, texts: list[str]) -> Sequence[object]:
        return [self.tokenizer.encode(text).ids for text in texts]

    def whole(self, text: str, out: str) -> None:
        with Path(out).open("wb") as file:
            for chunk in chunks(text):
                parts = chunk.split(END_OF_TEXT)
                parts = [part + END_OF_TEXT for part in parts[:-1]] + parts[-1:]
                for encoding in self.tokenizer.encode_batch_fast(parts):
                    np.array(encoding.ids, np.uint16).tofile(file)


class TikToken(Contender):
    """The tiktoken library; it does not train."""

    def load(self, tokenizer: Tokenizer) -> None:
        import tiktoken

        self.tokenizer = tiktoken.Encoding(**tiktoken_arguments(tokenizer))

    def documents(self, texts: list[str]) -> Sequence[object]:
        return [self.tokenizer.encode(text, allowed_special="all") for text in texts]

    def whole(self, text: str, out: str) -> None:
        # As arrays, which is its fastest; its work is done without Python's lock.
        with Path(out).open("wb") as file, ThreadPoolExecutor(self.num_threads) as pool:
            for ids in pool.map(self._to_array, chunks(text)):
                ids.tofile(file)

    def _to_array(self, text: str) -> Any:  # noqa: ANN401  an array
        return self.tokenizer.encode_to_numpy(text, allowed_special="all").astype(np.uint16)


class GigaToken(Contender):
    """The gigatoken library; its training is not measured."""

    def load(self, tokenizer: Tokenizer) -> None:
        import gigatoken  # pyright: ignore[reportMissingImports]

        self.tokenizer = load_json(tokenizer, gigatoken.Tokenizer)
        self.end = tokenizer.encode(END_OF_TEXT)

    def whole(self, text: str, out: str) -> None:
        # It reads the file itself, and leaves out what separates documents.
        import gigatoken  # pyright: ignore[reportMissingImports]

        awkward: Any = importlib.import_module("awkward")
        source = gigatoken.TextFileSource([text], separator=END_OF_TEXT.encode())
        documents = self.tokenizer.encode_files(source)
        ends = np.cumsum(awkward.num(documents).to_numpy())[:-1]
        ids = np.insert(awkward.flatten(documents).to_numpy(), ends, self.end)
        ids.astype(np.uint16).tofile(out)


CONTENDERS = {
    "ours": Contender, "tokenizers": HuggingFace, "tiktoken": TikToken, "gigatoken": GigaToken,
}  # fmt: skip


def seconds_of(contender: Contender, task: dict[str, Any]) -> float:
    """Do a task, and return the seconds of what is measured."""
    kind = task["do"]
    # For these tasks load anew, so that nothing of the text is remembered from an earlier turn.
    is_first_time = kind in ("raw", "fresh")
    if kind != "train" and (is_first_time or contender.loaded != task["tokenizer"]):
        contender.loaded = task["tokenizer"]
        contender.load(load_tokenizer(contender.loaded))
    text = task["text"]
    given: list[Any]
    match kind:
        case "train":
            given = [text, task["vocab_size"]]
        case "whole" | "fresh":
            kind, given = "whole", [text, task["out"]]
        case "raw":
            given = [Path(text).read_bytes()]
        case _:
            given = [documents(text)]
    start = time.perf_counter()
    getattr(contender, kind)(*given)
    return time.perf_counter() - start


def main() -> None:
    """Answer tasks until there are no more."""
    logging.disable(logging.WARNING)  # a text with too few pairs for 32,000 tokens is expected
    contender = CONTENDERS[sys.argv[1]](int(sys.argv[2]))
    answer_all(lambda task: seconds_of(contender, task))


if __name__ == "__main__":
    main()
