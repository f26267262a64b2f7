"""A contest's figure is that of the repeated run: honest ones are evaluated, cheats are refused."""

import contextlib
import dataclasses
import io
import json
import os
import struct
import tempfile
import time
from functools import partial

import numpy as np
import pytest
from files import write_files
from processes import ROOT

from cs_basics.stories.grammar import write_stories
from cs_grader.entries import sandboxed
from cs_grader.entries.answers import Answers, asked
from cs_grader.entries.entry import arguments_of
from cs_grader.entries.evaluation import bits_per_byte, log_probabilities
from cs_grader.entries.rerun import run_again, stand_in
from cs_grader.trusted.clean_copy import RefusedError

COMMAND = (
    "debug --vocab-size 300 --context-length 32 --d-model 32 --d-ff 64 --num-layers 1"
    " --batch-size 16 --max-steps 60 --eval-every 30 --num-samples 0 --dtype float32"
)
TOML = f'name = "a | b"\nauthor = "A. Student"\nclass = "ten-minutes"\ncommand = "{COMMAND}"\n'
# What it reaches, it writes beside the weights.
PROBE = """
import json, os, socket
from pathlib import Path
def reach(action):
    try:
        return bool(action())
    except OSError:
        return False
root = Path(os.environ["PYTHONPATH"].split(":")[0]).parent
everything = range(os.cpu_count())
REACHED = {
    "validation text": reach(lambda: [*Path("/").glob("*/**/secret-valid.txt")]),
    "code": reach(lambda: (root / "code" / "note").write_text("x")),
    "home": reach(lambda: Path("/root/note").write_text("x")),
    "network": reach(lambda: socket.create_connection(("192.0.2.1", 9), 0.2)),
    "processors": reach(lambda: os.sched_setaffinity(0, everything) or True),
    "its own folder": reach(lambda: (root / "out" / "note").write_text("x")),
}
(root / "out" / "reached").write_text(json.dumps(REACHED))
"""
PRINTS = 'print("words in the place of answers" * 999)\n'


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name, num_bytes, seed in (("train.txt", 60_000, 1), ("secret-valid.txt", 10_000, 2)):
        write_stories(folder / name, num_bytes, seed)
    return folder


@pytest.fixture(scope="module")
def trained(texts, tmp_path_factory):
    """The stage in which an entry that looks around and prints has been run, and its run folder."""
    folder = tmp_path_factory.mktemp("stage")
    code = tmp_path_factory.mktemp("code")
    changed = {"run/clock.py": PROBE, "transformer.py": PRINTS}
    book = ROOT / "cs_basics"
    write_files(code, {name: (book / name).read_text() + more for name, more in changed.items()})
    stage = sandboxed.build_stage(folder, ROOT, code)
    arguments = [*COMMAND.split(), "--seed", "7"]
    text = (texts / "train.txt").read_bytes()
    return stage, run_again("bubblewrap", stage, arguments, text, 300, lambda *_: None)


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_a_run_reaches_nothing_but_its_own_folder(trained):
    stage, _ = trained
    reached = json.loads((stage.root / "out" / "reached").read_text())
    assert [name for name, is_reached in reached.items() if is_reached] == ["its own folder"]


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_the_figure_is_that_of_the_trainer_s_own_evaluation(trained):
    stage, run = trained
    text = (run.parents[1] / "valid.txt").read_bytes()
    ask = partial(asked, "bubblewrap", stage, run=run)
    figure, told = bits_per_byte(ask, text, lambda *_: None)
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    (own,) = (row["final/bits_per_byte"] for row in rows if "final/bits_per_byte" in row)
    assert figure == pytest.approx(own, abs=1e-5)
    assert f"give all {len(text):,} bytes back" in told


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_the_command_writes_a_row(succeeds, texts, tmp_path):
    write_files(tmp_path, {"entry.toml": TOML, "run/anything": "is not read"})
    given = ["--train-text", texts / "train.txt", "--valid-text", texts / "secret-valid.txt"]
    done = succeeds("instructor/verify", tmp_path, *given)
    assert done.out.splitlines()[-1].startswith("| ten-minutes | ")
    assert " | a \\| b | A. Student | " in done.out


def test_what_does_not_end_is_ended(tmp_path):
    write_files(tmp_path / "code", {"run/clock.py": "import time\n\ntime.sleep(600)\n"})
    (tmp_path / "stage").mkdir()
    stage = sandboxed.build_stage(tmp_path / "stage", ROOT, tmp_path / "code")
    began = time.monotonic()
    run = run_again("process", stage, COMMAND.split(), b"Once. " * 99, 1.0, lambda *_: None)
    assert time.monotonic() - began < 30
    assert not run.exists()


def test_memory_behind_the_wall_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(
        sandboxed, "LIMITS", dataclasses.replace(sandboxed.LIMITS, memory_bytes=2**28)
    )
    stage = sandboxed.build_stage(tmp_path, ROOT, tmp_path / "none")
    (tmp_path / "hoard.py").write_text("print(len(bytearray(2**29)))")
    with (
        tempfile.TemporaryFile() as output,
        sandboxed.running("process", stage, "hoard.py", [], output) as process,
    ):
        assert process.wait(60) != 0
        assert sandboxed.last_line(output) == "MemoryError"


class Model:
    """Answers as a process does: ids are bytes, each as likely as any other; some answer so not."""

    def __init__(self, **others):
        vars(self).update(others)

    @contextlib.contextmanager
    def ask(self, _kind):
        yield self

    def sizes(self):
        return 256, 8

    def encode(self, text):
        return np.frombuffer(text, np.uint8).astype(np.int32)

    def decode(self, ids, _num_bytes):
        return ids.astype(np.uint8).tobytes()

    def logits(self, ids, vocab_size):
        return np.zeros((*ids.shape, vocab_size), np.float32)


def looking_ahead(where):
    """A model that knows the next token in some places."""

    def logits(ids, vocab_size):
        following = np.eye(vocab_size, dtype=np.float32)[np.roll(ids, -1, -1)]
        return following * where(ids)[..., None]

    return Model(logits=logits)


def column(*numbers):
    return lambda ids: np.isin(np.arange(ids.shape[1]), numbers) & np.ones(ids.shape, bool)


@pytest.mark.parametrize("num_bytes", [2, 5, 803])
def test_equal_probabilities_cost_eight_bits_a_byte(num_bytes):
    figure, _ = bits_per_byte(Model().ask, os.urandom(num_bytes), lambda *_: None)
    assert figure == pytest.approx(8.0)


AHEAD = "without the later tokens"
CHEATS = {
    "a look ahead": (803, looking_ahead(column(3)), AHEAD),
    "in the only window": (7, looking_ahead(column(4)), AHEAD),
    "now and then": (
        5001,
        looking_ahead(lambda ids: (np.cumsum(ids, -1) % 97 == 5) & column(*range(7))(ids)),
        AHEAD,
    ),
    "another text": (
        99,
        Model(encode=lambda text: Model().encode(text[:-1] + b"~")),
        "another text from byte 98 on",
    ),
    "no numbers": (
        9,
        Model(logits=lambda ids, _: np.full((*ids.shape, 256), np.nan)),
        "not finite",
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_refused_for_its_reason(name):
    num_bytes, cheat, reason = CHEATS[name]
    with pytest.raises(RefusedError, match=reason):
        bits_per_byte(cheat.ask, os.urandom(num_bytes - 1) + b"\xff", lambda *_: None)


def test_a_tokenizer_that_drops_what_is_hard_is_refused():
    answers, theirs = os.pipe()
    os.write(theirs, struct.pack("<Q", 3))
    os.close(theirs)
    with (
        os.fdopen(answers, "rb") as file,
        pytest.raises(RefusedError, match="the tokens stand for 3 bytes, the text has 5"),
    ):
        Answers(io.BytesIO(), file, io.BytesIO()).decode(np.arange(2), 5)


def test_logits_are_normalised_by_the_verifier():
    logits = np.random.default_rng(0).normal(0, 50, (2, 3, 17)).astype(np.float32)
    assert np.exp(log_probabilities(logits)).sum(-1) == pytest.approx(np.ones((2, 3)))
    assert log_probabilities(logits + 100) == pytest.approx(log_probabilities(logits), abs=1e-4)


def test_the_stand_in_is_the_end_of_the_training_text():
    text = b"One.\n<|endoftext|>\nTwo.\r\n<|endoftext|>\r\nThree" * 9000
    assert text.endswith(stand_in(text))
    assert 99_000 < len(stand_in(text)) <= 100_000
    assert stand_in(b"single") == b"gle"


COMMANDS = {
    "": "begins with a preset",
    "--lr 1": "begins with a preset",
    "stories --run_dir=/tmp/x": "--run-dir is set by the verifier",
    "stories --train-text x": "--train-text is set by the verifier",
    "stories ; touch x": "';' is neither a flag nor a plain value",
    "stories --lr ../x": "'../x' is neither a flag nor a plain value",
    "stories 'unclosed": "cannot be split",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_a_preset_with_flags(command):
    with pytest.raises(ValueError, match=COMMANDS[command]):
        arguments_of(command)


BAD = {
    "no entry": (None, (), "there is no file entry.toml"),
    "a broken file": ("name =", (), "entry.toml cannot be read"),
    "an unknown key": (f"{TOML}mail = 'a'", (), "mail is missing or unknown"),
    "two lines": (TOML.replace("a | b", "a\\n"), (), "must be text on one line"),
    "a class": (TOML.replace("ten-", "two-"), (), "use one of ten-minutes, one-hour"),
    "seeds": (TOML, ("--seeds", "0"), "--seeds 0: use 1 to 11"),
    "no text": (TOML, ("--valid-text", "none.txt"), "none.txt does not exist"),
    "a link": (TOML, (), "code/cs_basics/norms.py: use ordinary files"),
    "a binary": (TOML, (), "code/cs_basics/weights.pt: use ordinary files"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(refused, texts, tmp_path, name):
    content, flags, words = BAD[name]
    code = tmp_path / "code" / "cs_basics"
    code.mkdir(parents=True)
    if content is not None:
        write_files(tmp_path, {"entry.toml": content})
    if name == "a link":
        (code / "norms.py").symlink_to("/etc/passwd")
    if name == "a binary":
        (code / "weights.pt").touch()
    given = {"--train-text": texts / "train.txt", "--valid-text": texts / "secret-valid.txt"}
    given |= {"--require-isolation": "process"} | dict([flags] if flags else [])
    assert words in refused("instructor/verify", tmp_path, *sum(given.items(), ()))
