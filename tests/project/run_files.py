"""What a run has left, by its configuration, and token files of given ids for one."""

from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics
from cs_basics.run.token_file import (
    VERSION,
    TokenHeader,
    open_token_file,
    packed_header,
    packed_ids,
    token_dtype,
)


def folder_of(config):
    return RunFolder(config.run.run_dir)


def rows_of(config):
    return read_metrics(folder_of(config).metrics)


def values_of(config, name):
    """Return what the rows that have this name say, in order."""
    return [row[name] for row in rows_of(config) if name in row]


def write_token_file(path, id_chunks, *, vocab_size=300, tokenizer_checksum=""):
    """Write a token file of chunks, each its size in bytes and its ids, and open it."""
    sizes, chunks = zip(*id_chunks, strict=True)
    packed = [packed_ids(chunk, vocab_size) for chunk in chunks]
    header = TokenHeader(
        version=VERSION,
        dtype=token_dtype(vocab_size),
        vocab_size=vocab_size,
        tokenizer_checksum=tokenizer_checksum,
        num_tokens=sum(map(len, packed)),
        num_bytes=sum(sizes),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed_header(header) + b"".join(ids.tobytes() for ids in packed))
    return open_token_file(path)
