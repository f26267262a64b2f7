"""Write simple children's stories, generated offline by the grammar in cs_basics/stories.

python scripts/write_stories.py --megabytes 10 --out data/stories.txt
python scripts/write_stories.py --megabytes 1 --out data/stories-valid.txt --seed 1
"""

from pathlib import Path

from cli import check_can_write, progress_printer, run

from cs_basics.settings.run import MAX_CORPUS_MEGABYTES
from cs_basics.stories.grammar import write_stories


def main(*, megabytes: float, out: Path, seed: int = 0, overwrite: bool = False) -> None:
    """Write stories, each followed by a line <|endoftext|>, to a text file.

    Args:
        megabytes: Size of the text, in millions of bytes; the last story is completed.
        out: File to write, atomically.
        seed: Equal seeds give equal stories; use different ones for training and validation.
        overwrite: Replace a file that exists.
    """
    if not 0 < megabytes <= MAX_CORPUS_MEGABYTES:
        most = f"{MAX_CORPUS_MEGABYTES:,}"
        raise ValueError(f"--megabytes={megabytes} must be positive and at most {most}")
    check_can_write(out, overwrite)
    num_bytes = round(megabytes * 1e6)
    bytes_written = write_stories(out, num_bytes, seed, progress_printer())
    print(f"wrote {bytes_written / 1e6:.1f} MB of stories to {out}")


if __name__ == "__main__":
    run(main)
