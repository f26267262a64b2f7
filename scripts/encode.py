"""Encode a text file to a token file, ready to train on."""

import time
from pathlib import Path

from cli import check_can_write, progress_printer, run

from cs_basics.data import encode_file
from cs_basics.tokenizer import Tokenizer


def main(
    tokenizer: Path,
    text: Path,
    out: Path,
    num_workers: int | None = None,
    overwrite: bool = False,
) -> None:
    """Encode a text file to a token file, ready to train on.

    Args:
        tokenizer: Folder of a tokenizer, as scripts/train_tokenizer.py writes it.
        text: Text file to encode, UTF-8; other bytes are kept as they are.
        out: Token file to write; its folder is made if missing.
        num_workers: Processes to use (None: by the text's size); the result is the same.
        overwrite: Replace the token file if it exists.
    """
    if out.exists() and not overwrite:
        raise ValueError(f"--out {out} already exists: add --overwrite to replace it")
    check_can_write(out)
    started = time.monotonic()
    tokens = encode_file(Tokenizer.load(tokenizer), text, out, num_workers, progress_printer())
    elapsed_s = time.monotonic() - started
    print(f"saved to        {out}")
    print(f"tokens          {tokens.num_tokens} ({tokens.dtype})")
    print(f"bytes per token {tokens.num_bytes / tokens.num_tokens:.2f}")
    print(f"time            {elapsed_s:.1f} s, {tokens.num_bytes / elapsed_s / 1e6:.1f} MB/s")


if __name__ == "__main__":
    run(main)
