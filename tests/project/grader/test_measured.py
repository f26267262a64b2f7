"""Time and memory are measured whatever a submission holds, sets off or has done elsewhere."""

import dataclasses

import pytest
from attacks.attack import ROOT, add_to_adapters, reference
from files import write_files

from cs_grader.trusted import sandbox
from cs_grader.trusted.answer import Answer
from cs_grader.trusted.connection import Connection
from cs_grader.trusted.copying import own_names
from cs_grader.trusted.isolation import choose_isolation
from cs_grader.trusted.measured import count_the_rest
from cs_grader.trusted.sandbox import set_the_stage

MEGABYTE = 2**20
# The kind of tokenizer that is asked for stands in its special token.
TOKENIZERS = """
import os, time

MAKE = get_tokenizer
BALLAST = []
__file__ = None


def hold():
    BALLAST.append(bytearray(b"x" * 2**28))


class Wrapped:
    def __init__(self, tokenizer, kind):
        self.tokenizer = tokenizer
        self.kind = kind
        if self.kind == "held_before":
            hold()
            BALLAST.clear()

    def encode_iterable(self, chunks):
        if self.kind == "held_at_first" and not BALLAST:
            hold()
        elif BALLAST:
            BALLAST.clear()
        if self.kind == "elsewhere" and os.fork() == 0:
            until = time.process_time() + 1
            while time.process_time() < until:
                pass
            os._exit(0)
        if self.kind != "lazy":
            chunks = list(chunks)
        yield from self.tokenizer.encode_iterable(chunks)


def get_tokenizer(vocab, merges, special_tokens=None):
    return Wrapped(MAKE(vocab, merges, special_tokens), special_tokens[0].partition("|")[0])
"""


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    stage = set_the_stage(tmp_path_factory.mktemp("stage"), ROOT / "tests")
    write_files(stage.submission, reference())
    add_to_adapters(stage.submission, TOKENIZERS)
    more = {"own_names": own_names(stage.submission)}
    made = Connection(choose_isolation("uid"), stage, sandbox.Limits(), more, budget_s=600)
    yield made
    made.close()


@pytest.mark.needs("bwrap")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "is_lazy"),
    [("lazy", True), ("list", False), ("held_before", False), ("held_at_first", False)],
)
def test_memory_is_seen_whatever_was_held_before(connection, kind, is_lazy):
    grown = lazy_memory(connection, kind).value
    assert (grown < 16 * MEGABYTE) == is_lazy, grown


@pytest.mark.needs("bwrap")
@pytest.mark.slow
def test_what_is_done_in_another_process_is_not_measured_and_thus_wrong(connection):
    answer = lazy_memory(connection, "elsewhere")
    words = "the work was done in another process, whose time and memory cannot be measured"
    assert (answer.ended, answer.text) == ("died", words)


def lazy_memory(connection, kind):
    special = f"{kind}|" + "pad" * 100
    chunk = special * 20 + "the dog\n"
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: special.encode()}
    given = {"vocab": vocab, "merges": [], "special_tokens": [special]}
    inputs = {"tokenizer": given, "chunk": chunk, "num_chunks": 48 * MEGABYTE // len(chunk)}
    process = hash(kind) % 2**31
    return connection.run(process, "tokenizer", "probes.text", "lazy_memory", 1, inputs)


def test_the_yardstick_is_the_graders_own_and_other_processes_count():
    said = Answer(ended="returned", value={"one_count_s": 99.0, "training_s": 1.0})
    said = dataclasses.replace(said, elsewhere_s=0.5)
    inputs = {"text": b"low lower lowest " * 1000}
    seen = count_the_rest("train_bpe_time", inputs, said, ROOT / "tests/exam").value
    assert seen["training_s"] == 1.5
    assert 0 < seen["one_count_s"] < 5


@pytest.mark.parametrize("elsewhere_s", [0.0, 0.5])
def test_times_of_texts_are_those_of_one_process(elsewhere_s):
    said = Answer(ended="returned", value=[1.0, 2.0], elsewhere_s=elsewhere_s)
    seen = count_the_rest("encode_times", {}, said, ROOT)
    assert seen.ended == ("died" if elsewhere_s else "returned")
