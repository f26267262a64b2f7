"""Download training corpora.

python scripts/download.py tinystories
"""

import gzip
import zlib
from pathlib import Path
from typing import Literal

import tyro
from cli import check_can_write, progress_printer, run

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.download import download

_HUB = "https://huggingface.co/datasets"
SOURCES = {
    "tinystories": [
        f"{_HUB}/roneneldan/TinyStories/resolve/main/TinyStoriesV2-GPT4-train.txt",
        f"{_HUB}/roneneldan/TinyStories/resolve/main/TinyStoriesV2-GPT4-valid.txt",
    ],
    "owt": [
        f"{_HUB}/stanford-cs336/owt-sample/resolve/main/owt_train.txt.gz",
        f"{_HUB}/stanford-cs336/owt-sample/resolve/main/owt_valid.txt.gz",
    ],
}


def main(
    corpus: tyro.conf.Positional[Literal["tinystories", "owt"]],
    out: Path = Path("data"),
    mirror: str | None = None,
) -> None:
    """Download a corpus; an interrupted download is resumed.

    Args:
        corpus: tinystories (2.2 GB of children's stories) or owt (12 GB of web pages).
        out: Folder of the files.
        mirror: Address of a folder with files of the same names.
    """
    check_can_write(out, is_folder=True)
    for source in SOURCES[corpus]:
        name = source.rsplit("/", 1)[1]
        url = source if mirror is None else f"{mirror.rstrip('/')}/{name}"
        path = out / name
        text = path.with_suffix("") if path.suffix == ".gz" else path
        if text.exists():
            print(f"{text} is there already")
            continue
        try:
            if not path.exists():  # An archive may have been put there by hand.
                print(f"{url} -> {path}")
                download(url, path, progress_printer())
        except ConnectionError as error:
            raise ConnectionError(
                f"{error}. Offline? Put the file at {path} by hand, train on any text of yours "
                "(--train-text, --valid-text), or on the embedded corpus (make train)"
            ) from None
        if path != text:
            unpack(path, text)
        print(f"{text}: {text.stat().st_size:,} bytes")


def unpack(path: Path, text: Path) -> None:
    """Unpack a gzip file and delete the archive.

    Raises:
        ValueError: The archive is damaged.
    """
    size, on_progress = path.stat().st_size, progress_printer()
    try:
        with path.open("rb") as raw, gzip.open(raw) as packed, atomic_writer(text) as file:
            while block := packed.read(1 << 20):
                file.write(block)
                on_progress("unpacking", "bytes", raw.tell(), size)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}): delete it and start again") from error
    path.unlink()


if __name__ == "__main__":
    run(main)
