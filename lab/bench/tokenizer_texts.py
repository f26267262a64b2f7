"""Texts of the tokenizer benchmark: real ones where they are at hand, and those that are made."""

import random
import sys
from dataclasses import dataclass
from pathlib import Path

from cs_basics.fast.text.train_bpe import train_bpe
from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.stories.grammar import write_stories
from cs_basics.tokenizer import Tokenizer
from lab import ROOT

DATA = ROOT.parent / "shared" / "data"
VOCAB_SIZE = 10_000
SAMPLE_BYTES = 3_600_000
CHINESE_BYTES = 1_000_000


@dataclass(frozen=True)
class Text:
    """A text and the vocabulary to encode it with."""

    name: str
    path: Path
    tokenizer: Path

    @property
    def megabytes(self) -> float:
        """Its size."""
        return self.path.stat().st_size / 1e6

    def task(self, do: str, **more: object) -> dict[str, object]:
        """Return a task of tokenizer_contender."""
        places = {"text": self.path, "tokenizer": self.tokenizer, "out": self.beside("out.bin")}
        return {"do": do, **{name: str(path) for name, path in places.items()}, **more}

    def beside(self, name: str) -> Path:
        """Return the place of a file that is made of it."""
        return self.path.with_name(name)


def make_texts(folder: Path, megabytes: int) -> dict[str, Text]:
    """Write or find the texts, and train a vocabulary for each.

    Args:
        folder: Where to write.
        megabytes: Size of the large text.

    Returns:
        sample, books (if at hand), stories, and Chinese without spaces.
    """
    sample, books = folder / "sample.txt", folder / "books.txt"
    if (real := DATA / "tinystories" / "train.txt").is_file():
        sample.write_bytes(real.read_bytes())
    else:
        print("no TinyStories at ../shared/data: the sample is the grammar's", file=sys.stderr)
        write_stories(sample, SAMPLE_BYTES, seed=1)
    tokenizer = _trained(sample)
    texts = {"sample": Text("sample", sample, tokenizer)}
    if found := sorted((DATA / "books").glob("*.txt")):
        books.write_bytes(b"".join(path.read_bytes() for path in found))
        texts["books"] = Text("books", books, _trained(books))
    else:
        print("no books at ../shared/data: they are left out", file=sys.stderr)
    stories = folder / "stories.txt"
    write_stories(stories, megabytes * 1_000_000, seed=0)
    texts["stories"] = Text("stories", stories, tokenizer)
    path = folder / "chinese.txt"
    path.write_text(_chinese(), encoding="utf-8")
    texts["Chinese"] = Text("Chinese", path, tokenizer)
    return texts


def _chinese() -> str:
    """Return characters in a novel's frequencies, without a space or a mark."""
    draw = random.Random(0)
    frequent_first = [chr(0x4E00 + draw.randrange(20_000)) for _ in range(4000)]
    weights = [1 / rank for rank in range(1, len(frequent_first) + 1)]
    return "".join(draw.choices(frequent_first, weights, k=CHINESE_BYTES // 3))


def _trained(text: Path) -> Path:
    folder = text.with_suffix(".tokenizer")
    vocab, merges = train_bpe(text, VOCAB_SIZE, [END_OF_TEXT])
    save_tokenizer(Tokenizer(vocab, merges, [END_OF_TEXT]), folder)
    return folder
