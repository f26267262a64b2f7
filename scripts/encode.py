"""Encode text files to token files, ready to train on.

python scripts/encode.py --tokenizer tokenizer --text stories.txt --out tokens.bin
python scripts/encode.py --tokenizer tokenizer --text shards/*.txt --out tokens/
torchrun --nnodes 8 --nproc-per-node 1 ... scripts/encode.py ... and then scripts/join_tokens.py
"""

import os
import time
from pathlib import Path

from cli import check_can_write, progress_printer, run

from cs_basics.fast.text.blocks import share_of_file
from cs_basics.run import look
from cs_basics.run.encoding import encode_file
from cs_basics.run.token_file import open_token_file, tokenizer_checksum
from cs_basics.run.tokenizer_folder import load_tokenizer
from cs_basics.tokenizer import Tokenizer


def main(
    tokenizer: Path,
    text: tuple[Path, ...],
    out: Path,
    num_workers: int | None = None,
    overwrite: bool = False,
    warn: bool = True,
) -> None:
    """Encode text files to token files, ready to train on.

    After a kill or Ctrl-C the same command resumes; a few seconds of work are lost, and finished
    texts are skipped. Under torchrun (or with RANK and WORLD_SIZE set) each process encodes its
    share: of several texts every WORLD_SIZE-th; of a single text one part, which is written to
    OUT.RANK-of-WORLD_SIZE for scripts/join_tokens.py.

    Args:
        tokenizer: Tokenizer folder, written by scripts/train_tokenizer.py.
        text: Text files to encode, UTF-8; other bytes are kept as they are.
        out: Token file to write; for several texts a folder of token files, named after the texts.
        num_workers: Number of processes (None: by the size of the text); the result is the same.
        overwrite: Replace token files that exist.
        warn: Say what is odd about the texts.
    """
    rank, num_shares = _place_among_processes()
    if not text:
        raise ValueError("--text names no file: give at least one")
    outs = [out] if len(text) == 1 else [out / f"{path.stem}.bin" for path in text]
    if len(set(outs)) < len(outs):
        raise ValueError("--text: two files have the same name, so their token files would, too")
    pairs, share = list(zip(text, outs, strict=True)), dict[str, int]()
    if len(text) > 1:
        pairs = pairs[rank::num_shares]
    elif num_shares > 1:
        share = {"rank": rank, "num_shares": num_shares}
        pairs = [(text[0], out.with_name(f"{out.name}.{rank:05}-of-{num_shares:05}"))]
    else:
        check_can_write(out, overwrite)
    for _, path in pairs:
        check_can_write(path)
    loaded = load_tokenizer(tokenizer)
    # Of a text that is shared out, the first process says it.
    look.logger.disabled = not warn or (bool(share) and rank > 0)
    for source, path in pairs:
        if overwrite or not path.exists():
            look.look_at_text(source, loaded.special_tokens)
    for source, path in pairs:
        if path.exists() and not overwrite:
            _check_finished(path, source, loaded, **share)
            print(f"finished before {path}")
            continue
        started = time.monotonic()
        tokens = encode_file(loaded, source, path, num_workers, progress_printer(), **share)
        elapsed_s = time.monotonic() - started
        print(f"saved to        {path}")
        print(f"tokens          {tokens.num_tokens} ({tokens.dtype})")
        print(f"bytes per token {tokens.num_bytes / max(tokens.num_tokens, 1):.2f}")
        print(f"time            {elapsed_s:.1f} s, {tokens.num_bytes / elapsed_s / 1e6:.1f} MB/s")


def _check_finished(
    path: Path, source: Path, tokenizer: Tokenizer, *, rank: int = 0, num_shares: int = 1
) -> None:
    """Check that an existing token file was made from this text or share by this tokenizer.

    Raises:
        ValueError: The file is of another text or tokenizer, or older than the text.
    """
    tokens = open_token_file(path, tokenizer_checksum(tokenizer))
    written = source.stat()
    num_bytes = written.st_size
    if num_bytes and num_shares > 1:
        share = share_of_file(source, tokenizer.special_tokens, rank, num_shares)
        num_bytes = share.end - share.start
    if tokens.num_bytes != num_bytes or path.stat().st_mtime_ns < written.st_mtime_ns:
        raise ValueError(f"--out {path} is not of {source} as it is: add --overwrite to replace it")


def _place_among_processes() -> tuple[int, int]:
    """Return rank and world size from the environment variables that torchrun sets."""
    try:
        rank, num_shares = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    except ValueError as error:
        raise ValueError(f"RANK and WORLD_SIZE have to be numbers: {error}") from None
    if not 0 <= rank < num_shares:
        raise ValueError(f"RANK={rank} must be at least 0 and below WORLD_SIZE={num_shares}")
    return rank, num_shares


if __name__ == "__main__":
    run(main)
