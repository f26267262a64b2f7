"""Encode text files to token files, ready to train on.

python scripts/encode.py --tokenizer tokenizer --text stories.txt --out tokens.bin
python scripts/encode.py --tokenizer tokenizer --text shards/*.txt --out tokens/
"""

import time
from pathlib import Path

from cli import check_can_write, progress_printer, run

from cs_basics.run.encoding import encode_file
from cs_basics.run.look import look_at_text
from cs_basics.run.token_file import open_token_file, tokenizer_checksum
from cs_basics.run.tokenizer_folder import load_tokenizer
from cs_basics.tokenizer import Tokenizer


def main(
    tokenizer: Path,
    text: tuple[Path, ...],
    out: Path,
    num_workers: int | None = None,
    overwrite: bool = False,
) -> None:
    """Encode text files to token files, ready to train on.

    After a kill or Ctrl-C the same command continues: finished texts are skipped.

    Args:
        tokenizer: Tokenizer folder, written by scripts/train_tokenizer.py.
        text: Text files to encode, UTF-8; other bytes are kept as they are.
        out: Token file to write; for several texts a folder of token files, named after the texts.
        num_workers: Number of processes (None: by the size of the text); the result is the same.
        overwrite: Replace token files that exist.
    """
    if not text:
        raise ValueError("--text names no file: give at least one")
    outs = [out] if len(text) == 1 else [out / f"{path.stem}.bin" for path in text]
    if len(set(outs)) < len(outs):
        raise ValueError("--text: two files have the same name, so their token files would, too")
    if len(text) == 1:
        check_can_write(out, overwrite)
    for path in outs:
        check_can_write(path)
    pairs = list(zip(text, outs, strict=True))
    loaded = load_tokenizer(tokenizer)
    for source, path in pairs:
        if overwrite or not path.exists():
            look_at_text(source, loaded.special_tokens)
    for source, path in pairs:
        if path.exists() and not overwrite:
            _check_finished(path, source, loaded)
            print(f"finished before {path}")
            continue
        started = time.monotonic()
        tokens = encode_file(loaded, source, path, num_workers, progress_printer())
        elapsed_s = time.monotonic() - started
        print(f"saved to        {path}")
        print(f"tokens          {tokens.num_tokens} ({tokens.dtype})")
        print(f"bytes per token {tokens.num_bytes / max(tokens.num_tokens, 1):.2f}")
        print(f"time            {elapsed_s:.1f} s, {tokens.num_bytes / elapsed_s / 1e6:.1f} MB/s")


def _check_finished(path: Path, source: Path, tokenizer: Tokenizer) -> None:
    """Check that an existing token file was made from this text by this tokenizer.

    Raises:
        ValueError: The file is of another text or tokenizer, or older than the text.
    """
    tokens = open_token_file(path, tokenizer_checksum(tokenizer))
    written = source.stat()
    if tokens.num_bytes != written.st_size or path.stat().st_mtime_ns < written.st_mtime_ns:
        raise ValueError(f"--out {path} is not of {source} as it is: add --overwrite to replace it")


if __name__ == "__main__":
    run(main)
