"""Train a byte-pair encoding on a text file and save it to a folder."""

import sys
import time
from pathlib import Path

from cli import check_can_write, progress_printer, run

from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.fast.text.train_bpe import train_bpe
from cs_basics.run.look import look_at_text
from cs_basics.run.tokenizer_folder import save_tokenizer

SAMPLE_BYTES = 8_000_000
BYTES_PER_MAXRSS = 1 if sys.platform == "darwin" else 1024


def main(
    text: Path,
    vocab_size: int,
    out: Path,
    special_tokens: tuple[str, ...] = ("<|endoftext|>",),
    num_workers: int | None = None,
    overwrite: bool = False,
) -> None:
    """Train a byte-pair encoding on a text file and save it to a folder.

    Args:
        text: Text file to train on, UTF-8; other bytes are kept as they are.
        vocab_size: Total number of tokens: 256 bytes, the merges, and the special tokens.
        out: Folder for vocab.json, merges.txt and special_tokens.json; made if missing.
        special_tokens: Strings that are one token each, such as the separator of documents.
        num_workers: Number of processes (None: by the size of the text); the result is the same.
        overwrite: Replace a tokenizer that is already in the folder.
    """
    if (out / "vocab.json").exists() and not overwrite:
        raise ValueError(f"--out {out} already holds a tokenizer: add --overwrite to replace it")
    check_can_write(out, is_folder=True)
    look_at_text(text, special_tokens)
    started = time.monotonic()
    vocab, merges = train_bpe(text, vocab_size, special_tokens, num_workers, progress_printer())
    elapsed_s = time.monotonic() - started
    tokenizer = FastTokenizer(vocab, merges, special_tokens)
    save_tokenizer(tokenizer, out)

    longest = max((vocab[i] for i in range(256 + len(merges))), key=len)
    print(f"saved to        {out}")
    print(f"vocabulary      {tokenizer.vocab_size} tokens, {len(merges)} merges")
    print(f"time            {elapsed_s:.1f} s")
    print(f"peak memory     {_peak_memory()}")
    print(f"longest token   {longest.decode('utf-8', 'backslashreplace')!r}, {len(longest)} bytes")
    if text.is_file():  # A pipe cannot be read again.
        with text.open("rb") as file:
            sample = file.read(SAMPLE_BYTES)
        print(
            f"bytes per token {len(sample) / len(tokenizer.encode_bytes(sample)):.2f}"
            f" on the first {len(sample) / 1e6:.1f} MB of the text"
        )


def _peak_memory() -> str:
    """Format the peak memory of this process or its largest worker."""
    if sys.platform == "win32":
        return "not known on Windows"
    import resource

    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    peak = max(resource.getrusage(who).ru_maxrss for who in both)
    return f"{peak * BYTES_PER_MAXRSS / 1e6:.0f} MB in one process"


if __name__ == "__main__":
    run(main)
