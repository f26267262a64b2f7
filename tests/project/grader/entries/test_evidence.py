"""What the verdict on an entry is computed from."""

import contextlib
import io
import json
import os
import random
import struct
import time
from types import SimpleNamespace

import numpy as np
import pytest
from files import write_files
from processes import ROOT

from cs_grader.entries import checks, model
from cs_grader.entries.checks import judge
from cs_grader.entries.entry import arguments_of
from cs_grader.entries.evaluation import (
    largest_shift,
    log_probabilities,
    read,
    stories_of,
    windows,
)
from cs_grader.entries.leaderboard import HEADER, Verified, add
from cs_grader.entries.overlap import PIECE_BYTES, Overlap, pieces
from cs_grader.entries.refusal import RefusedError
from cs_grader.entries.rerun import STAND_IN_BYTES, stand_in
from cs_grader.entries.run_files import MAX_TEXT_BYTES, RunFiles

# --- leaderboard ---


def verified(name, *figures, contest="ten-minutes", text="a" * 64):
    return Verified(
        name=name, author="A | B", contest=contest, command="stories", text=text,
        bits_per_byte=list(figures), seconds=600.0, date="2026-01-01",
    )  # fmt: skip


def test_the_page_has_the_best_of_each_class_and_text_first(tmp_path):
    board = tmp_path / "board.md"
    for one in (
        verified("slow", 0.9, 0.91), verified("fast", 0.8, 0.81), verified("mid", 0.85),
        verified("hour", 0.5, contest="one-hour"), verified("elsewhere", 0.4, text="b" * 64),
    ):  # fmt: skip
        add(board, one)
    rows = [line for line in board.read_text().splitlines() if "A \\| B" in line]
    assert [row.split(" | ")[4] for row in rows] == ["hour", "fast", "mid", "slow", "elsewhere"]
    assert " | 0.8050 | 0.8000, 0.8100 | " in rows[1]
    add(board, verified("<img src=x onerror=alert(1)> [here](there) `|", 0.7))
    text = board.read_text()
    assert "&lt;img src=x onerror=alert(1)&gt; \\[here\\](there) \\`\\|" in text
    assert "<img" not in text
    for page, said in (("another page", "is no leaderboard"), (f"{HEADER}x\n", "is no row: x")):
        board.write_text(page)
        with pytest.raises(ValueError, match=said):
            add(board, verified("new", 0.7))


def test_the_page_in_docs_can_be_added_to(tmp_path):
    page = (ROOT / "docs" / "leaderboard.md").read_text()
    (tmp_path / "board.md").write_text(page)
    add(tmp_path / "board.md", verified("new", 0.1))
    assert set(page.splitlines()) < set((tmp_path / "board.md").read_text().splitlines())


# --- texts and figures ---


def test_pieces_are_those_of_the_validation_text_alone():
    rng = random.Random(2)
    valid, train = (rng.randbytes(400) for _ in range(2))
    train = train[:100] + valid[50:150] + train[200:]
    shown = b"xyz" + valid[100:250]
    ours, theirs, others = (
        {text[i : i + PIECE_BYTES] for i in range(len(text) - PIECE_BYTES + 1)}
        for text in (valid, train, shown)
    )
    overlap = Overlap(valid, train)
    assert overlap.count(shown) == len((ours - theirs) & others) > 0
    assert overlap.share(valid) == 1
    assert overlap.count(train) == overlap.count(valid[: PIECE_BYTES - 1]) == 0
    assert len(pieces(b"\x00" * 40)) == len(pieces(b"\x01" * 40)) == 1


@pytest.mark.parametrize("num_ids", [2, 3, 8, 9, 10, 17, 4096 * 3 + 5])
@pytest.mark.parametrize("context_length", [1, 8, 5000])
def test_windows_predict_every_id_but_the_first_once(num_ids, context_length):
    targets = []
    for batch in windows(num_ids, context_length, rows=7):
        assert len(batch) <= 7
        assert batch.shape[1] <= context_length + 1
        assert (np.diff(batch, axis=1) == 1).all()
        targets += batch[:, 1:].ravel().tolist()
    assert targets == list(range(1, num_ids))


class Model:
    """Logits that depend on the earlier ids of a window; `leak` adds the ids after some places."""

    def __init__(self, leaks):
        self.files = SimpleNamespace(sizes=(7, 8), lengths=np.ones(7, np.int64))
        self.leaks = leaks

    @contextlib.contextmanager
    def asked(self):
        yield self

    def logits(self, ids, vocab_size):
        seen = np.cumsum(ids, -1)
        logits = np.sin(seen[..., None] * np.arange(1, vocab_size + 1)).astype(np.float32)
        following = np.pad(ids.ravel()[1:], (0, 1)).reshape(ids.shape)
        logits[self.leaks(ids)] += np.eye(vocab_size, dtype=np.float32)[following][self.leaks(ids)]
        return logits


def leak_of(columns):
    def leaks(ids):
        return np.isin(np.arange(ids.shape[1]), columns) & np.ones(ids.shape, bool)

    return leaks


@pytest.mark.parametrize(
    ("num_ids", "leaks"),
    [
        *((num_ids, None) for num_ids in (803, 5, 2)),
        (803, leak_of([3])),
        (803, leak_of([7])),  # The first id of the next row.
        (7, leak_of([4])),  # In the only window.
        (5001, lambda ids: (np.cumsum(ids, -1) % 97 == 5) & leak_of([*range(7)])(ids)),
    ],
)
def test_a_model_that_looks_ahead_is_seen(num_ids, leaks):
    model = Model(leaks or leak_of([]))
    ids = np.random.default_rng(1).integers(7, size=num_ids).astype(np.int32)
    with model.asked() as ask:
        reading = read(model, b"x" * num_ids, ids, ask, lambda *_: None)
    assert len(reading.places) == len(reading.probes) == min(num_ids - 1, 1000)
    assert reading.places.max() < num_ids - 1
    shift = largest_shift(model, reading)
    assert shift > 0.1 if leaks else shift < 1e-6


def run_of(folder, vocab_size=300, context_length=32, vocabulary=()):
    """A run folder that holds no more than this."""
    model = {"vocab_size": vocab_size, "context_length": context_length}
    settings = {"model": model, "data": {}, "run": {}}
    vocabulary = {token: token_id for token_id, token in enumerate(vocabulary)}
    files = {"config.json": {"settings": settings}, "tokenizer/vocab.json": vocabulary}
    write_files(folder / "run", {name: json.dumps(value) for name, value in files.items()})
    return RunFiles(folder)


@pytest.mark.parametrize(
    "sizes", [(2**20, 2**10), (2**10, 2**20), (2**17, 8), (0, 8), (True, 8), ("9", 8)]
)
def test_sizes_that_would_fill_the_memory_are_refused(tmp_path, sizes):
    with pytest.raises(RefusedError):
        _ = run_of(tmp_path, *sizes).sizes


def test_ids_that_stand_for_more_than_a_text_are_refused_before_it_is_made(tmp_path):
    files = run_of(tmp_path, vocabulary=["a", "b" * 2**20])
    assert files.decode(np.array([0, 1, 0], np.int32)) == b"a" + b"b" * 2**20 + b"a"
    ids = np.ones(MAX_TEXT_BYTES // 2**20 + 1, np.int32)
    with pytest.raises(RefusedError, match="stand for"):
        files.decode(ids)


def test_the_time_for_answers_is_that_of_all_together(monkeypatch):
    monkeypatch.setattr(model, "ANSWERS_S", 0.5)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as pipe, os.fdopen(writing, "wb") as answers:
        asked = model.Answers(io.BytesIO(), pipe, io.BytesIO())
        answers.write(struct.pack("<Qi", 1, 7))
        answers.flush()
        assert list(asked.encode(b"x")) == [7]
        time.sleep(0.5)
        start = time.monotonic()
        with pytest.raises(RefusedError, match="not all answers within"):
            asked.encode(b"x")
        assert time.monotonic() - start < 0.3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError("too much"), "MemoryError: too much"),
        # One line, without commands for a terminal.
        (RefusedError("code/\x1b[2J\naccepted"), "code/ accepted"),
    ],
)
def test_an_error_of_any_kind_is_the_entry_s_verdict(monkeypatch, error, reason):
    def check(_case):
        raise error

    monkeypatch.setattr(checks, "CHECKS", {"future": check})
    (finding,) = judge(None)
    assert (finding.verdict, finding.reason) == ("refused", reason)


def test_logits_are_normalised_by_the_verifier():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 50, (2, 3, 17)).astype(np.float32)
    probabilities = np.exp(log_probabilities(logits))
    assert probabilities.sum(-1) == pytest.approx(np.ones((2, 3)))
    assert log_probabilities(logits + 100) == pytest.approx(log_probabilities(logits), abs=1e-4)
    for value in (np.nan, np.inf, -np.inf):
        logits[0, 0, 0] = value
        with pytest.raises(RefusedError, match="not finite"):
            log_probabilities(logits)


def test_stories_are_the_whole_text_and_the_stand_in_is_its_end():
    text = b"One.\n<|endoftext|>\nTwo.\r\n<|endoftext|>\r\nThree" * 9000
    assert b"".join(stories_of(text)) == text
    assert text.endswith(stand_in(text))
    assert STAND_IN_BYTES <= len(stand_in(text)) < STAND_IN_BYTES + 100
    assert stand_in(b"One.<|endoftext|>Two.") == b"Two."
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
    with pytest.raises(RefusedError, match=COMMANDS[command]):
        arguments_of(command)


def test_an_honest_command_is_split():
    command = "stories --lr 3e-3 --max-minutes=10 --tie-embeddings --norm rmsnorm"
    assert arguments_of(command) == command.split()
