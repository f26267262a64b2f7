"""A tokenizer that keeps all text is seen to, whatever it says about its file."""

import pytest
from attacks.attack import ROOT, add_to_adapters, reference
from files import write_files

from cs_grader.trusted import sandbox
from cs_grader.trusted.connection import Connection
from cs_grader.trusted.copying import own_names
from cs_grader.trusted.sandbox import set_the_stage
from cs_grader.trusted.tiers import choose_tier

MEGABYTE = 2**20
TOKENIZER = """
MAKE = get_tokenizer
__file__ = None


class Wrapped:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def encode_iterable(self, chunks):
        yield from self.tokenizer.encode_iterable(CHUNKS)


def get_tokenizer(vocab, merges, special_tokens=None):
    return Wrapped(MAKE(vocab, merges, special_tokens))
"""


@pytest.mark.needs("bwrap")
@pytest.mark.slow
@pytest.mark.parametrize("chunks", ["list(chunks)", "chunks"])
def test_memory_is_seen_though_the_file_is_hidden(tmp_path, chunks):
    stage = set_the_stage(tmp_path, ROOT / "tests")
    write_files(stage.submission, reference())
    add_to_adapters(stage.submission, TOKENIZER.replace("CHUNKS", chunks))
    special = "<|" + "pad" * 100 + "|>"
    chunk = special * 20 + "the dog\n"
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: special.encode()}
    given = {"vocab": vocab, "merges": [], "special_tokens": [special]}
    inputs = {"tokenizer": given, "chunk": chunk, "num_chunks": 48 * MEGABYTE // len(chunk)}
    more = {"own_names": own_names(stage.submission)}
    connection = Connection(choose_tier("uid"), stage, sandbox.Limits(), more, budget_s=600)
    grown = connection.run(1, "tokenizer", "probes.text", "lazy_memory", 1, inputs).value
    connection.close()
    assert (grown > 16 * MEGABYTE) == (chunks == "list(chunks)")
