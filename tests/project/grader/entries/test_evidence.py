"""What the verdict on an entry is computed from."""

import contextlib
import io
import itertools
import json
import math
import os
import random
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cs_grader.entries import model, statistics
from cs_grader.entries.checks import CHECKS, judge, seeds
from cs_grader.entries.entry import arguments_of
from cs_grader.entries.evaluation import (
    Reading,
    largest_shift,
    log_probabilities,
    read,
    stories_of,
    windows,
)
from cs_grader.entries.leaderboard import Verified, add, compared, page, read_leaderboard
from cs_grader.entries.overlap import PIECE_BYTES, Overlap, pieces
from cs_grader.entries.refusal import RefusedError
from cs_grader.entries.rerun import STAND_IN_BYTES, stand_in
from cs_grader.entries.run_files import BYTE_OF, MAX_TEXT_BYTES, RunFiles

STORY = b"Once upon a time.<|endoftext|>\n"

# --- statistics ---


def test_p_is_the_share_of_divisions_that_are_as_good():
    rng = random.Random(0)
    for _ in range(20):
        ours = [rng.gauss(0, 1) for _ in range(4)]
        theirs = [rng.gauss(0.5, 1) for _ in range(3)]
        pooled = np.array([*ours, *theirs])
        seen = np.mean(ours) - np.mean(theirs)
        as_good = [
            np.mean(pooled[list(group)]) - np.mean(np.delete(pooled, list(group))) <= seen + 1e-9
            for group in itertools.combinations(range(7), 4)
        ]
        assert statistics.p_value(ours, theirs) == pytest.approx(np.mean(as_good))


def test_five_seeds_each_are_enough_for_one_percent_and_three_are_not():
    low, high = [0.1, 0.2, 0.3, 0.4, 0.5], [0.6, 0.7, 0.8, 0.9, 1.0]
    assert statistics.p_value(low, high) == pytest.approx(1 / 252)
    assert statistics.p_value(low[:3], high[:3]) == pytest.approx(1 / 20)
    assert statistics.p_value(low[:1], high[:1]) == pytest.approx(1 / 2)
    assert statistics.p_value(high, low) == 1
    assert statistics.p_value(low, low) > 0.5
    with pytest.raises(ValueError, match="13 and 1 figures"):
        statistics.p_value([1.0] * 13, [1.0])


def test_equal_entries_are_seldom_called_different():
    rng = random.Random(1)
    p = [
        statistics.p_value([rng.random() for _ in range(5)], [rng.random() for _ in range(5)])
        for _ in range(400)
    ]
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.08


# --- leaderboard ---


def verified(name, *figures, contest="ten-minutes", text="a" * 64):
    return Verified(
        name=name, author="A | B", contest=contest, command="stories", text=text,
        bits_per_byte=list(figures), seconds=600.0, date="2026-01-01",
    )  # fmt: skip


def test_an_entry_is_compared_with_the_best_of_its_class_and_text():
    others = [
        verified("first", 0.9, 0.91),
        verified("second", 0.88, 0.89),
        verified("hour", 0.5, contest="one-hour"),
        verified("elsewhere", 0.4, text="b" * 64),
    ]
    said = compared(verified("new", 0.86, 0.87), others)
    assert said.startswith("better than second by 0.0200 bits per byte, p = 0.167 (2 against 2")
    assert compared(verified("new", 0.95), others).startswith("not better than second")
    assert compared(verified("new", 0.95), []) == "the first of its class on this text"


def test_the_page_has_the_best_first_and_p_against_what_was_there_before(tmp_path):
    board = tmp_path / "board.jsonl"
    for one in (verified("slow", 0.9, 0.91), verified("fast", 0.8, 0.81), verified("mid", 0.85)):
        add(board, one)
    assert [one.name for one in read_leaderboard(board)] == ["slow", "fast", "mid"]
    rows = [line for line in board.with_suffix(".md").read_text().splitlines() if "A \\| B" in line]
    assert [row.split(" | ")[2] for row in rows] == ["fast", "mid", "slow"]
    assert [row.replace("\\|", "").split(" | ")[4].strip() for row in rows] == ["0.167", "1", ""]
    add(board, verified("<img src=x onerror=alert(1)> [here](there) `|", 0.7))
    text = board.with_suffix(".md").read_text()
    assert "&lt;img src=x onerror=alert(1)&gt; \\[here\\](there) \\`\\|" in text
    assert "<img" not in text
    board.write_text(json.dumps({"name": "x"}) + "\n")
    with pytest.raises(ValueError, match="line 1 is not a verified entry"):
        read_leaderboard(board)


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

    def __init__(self, leaks=lambda ids: np.zeros(ids.shape, bool), sizes=(7, 8)):
        self.files = SimpleNamespace(sizes=sizes, lengths=np.ones(sizes[0], np.int64))
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
    ("num_ids", "leaks", "is_seen"),
    [
        (803, leak_of([]), False),
        (5, leak_of([]), False),
        (2, leak_of([]), False),
        (803, leak_of([3]), True),
        (803, leak_of([7]), True),  # The first id of the next row.
        (7, leak_of([4]), True),
        (5001, lambda ids: (np.cumsum(ids, -1) % 97 == 5) & leak_of([*range(7)])(ids), True),
    ],
    ids=["none", "one window", "two ids", "a column", "the next row", "the last window", "a few"],
)
def test_a_model_that_looks_ahead_is_seen(num_ids, leaks, is_seen):
    model = Model(leaks)
    ids = np.random.default_rng(1).integers(7, size=num_ids).astype(np.int32)
    with model.asked() as ask:
        reading = read(model, b"x" * num_ids, ids, ask, lambda *_: None)
    assert len(reading.places) == len(reading.probes) == min(num_ids - 1, 1000)
    assert reading.places.max() < num_ids - 1
    shift = largest_shift(model, reading)
    assert (shift > 0.1) == is_seen
    assert is_seen or shift < 1e-6


def run_of(folder, vocab_size=300, context_length=32, vocabulary=()):
    """A run folder that holds no more than this."""
    model = {"vocab_size": vocab_size, "context_length": context_length}
    settings = {"model": model, "data": {}, "run": {}}
    (folder / "run" / "tokenizer").mkdir(parents=True)
    (folder / "run" / "config.json").write_text(json.dumps({"settings": settings}))
    vocabulary = {token: token_id for token_id, token in enumerate(vocabulary)}
    (folder / "run" / "tokenizer" / "vocab.json").write_text(json.dumps(vocabulary))
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


def test_an_error_of_any_kind_is_the_entry_s_verdict():
    def stumbles(_case):
        raise MemoryError("too much")

    (finding,) = judge(None, {"files": stumbles})
    assert (finding.verdict, finding.reason) == ("refused", "MemoryError: too much")


def test_a_reason_is_one_line_without_commands_for_a_terminal():
    def refuses(_case):
        raise RefusedError("code/\x1b[2J\naccepted")

    (finding,) = judge(None, {"files": refuses})
    assert finding.reason == "code/ accepted"


@pytest.mark.parametrize("is_refused", [False, True])
def test_further_seeds_are_not_run_for_what_is_refused_already(is_refused):
    class CaseOfSeeds:
        rerun_readings = (SimpleNamespace(bits_per_byte=1.0),)
        further = (1.5, 2.0)

    def refuses(_case):
        if is_refused:
            raise RefusedError("a link")
        return "good"

    _, finding = judge(CaseOfSeeds(), {"files": refuses, "seeds": seeds})
    if is_refused:
        assert finding.verdict == "not judged"
        assert "no further seeds are run" in finding.reason
    else:
        assert (finding.verdict, finding.reason) == ("ok", "1.5000, 2.0000")


def reading_of(bits):
    """A text of equal stories, with what each of them costs a model."""
    # An id for each story, after one that nothing predicts.
    starts = np.concatenate([[0], np.arange(len(bits)) * len(STORY)])
    none = np.empty(0)
    return Reading(STORY * len(bits), none, bits * math.log(2), starts, none, none)


def case_of(check, gain, spread):
    """A case where others cost so many bits per byte more, some stories more of it than others."""
    more = gain * len(STORY) + spread * np.resize([1.0, -1.0], 30)
    if check == "order of stories":
        order = np.random.default_rng(0).permutation(30)
        bits = np.arange(30.0)
        readings = [reading_of(bits), reading_of(bits[order] + more)]
        return SimpleNamespace(readings=readings, shuffled_order=order.tolist())
    valid, fresh = reading_of(np.full(30, 40.0)), reading_of(40.0 + more)
    if check == "fresh text":
        return SimpleNamespace(readings=[valid, None, fresh], num_compared=30)
    return SimpleNamespace(rerun_readings=[valid, fresh], num_compared=30)


@pytest.mark.parametrize(
    ("check", "limit"),
    [("order of stories", 0.01), ("fresh text", 0.03), ("fresh text again", 0.03)],
)
@pytest.mark.parametrize(
    ("times", "spread", "verdict"),
    [(1.5, 0.1, "refused"), (0.7, 0.1, "ok"), (1.5, 6.0, "ok")],
    ids=["more", "less", "by chance"],
)
def test_a_text_that_is_easier_than_others_is_refused_unless_it_is_by_chance(
    check, limit, times, spread, verdict
):
    (finding,) = judge(case_of(check, times * limit, spread), {check: CHECKS[check]})
    assert finding.verdict == verdict, finding.reason
    assert finding.reason.endswith("standard errors") == (verdict == "refused")


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
    assert stand_in(b"short") == b"short"


def test_bytes_have_the_names_of_gpt2():
    from cs_basics.run.tokenizer_folder import to_printable

    assert {to_printable(bytes([byte])): byte for byte in range(256)} == BYTE_OF


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("", "begins with a preset"),
        ("--lr 1", "begins with a preset"),
        ("stories --run_dir=/tmp/x", "--run-dir is set by the verifier"),
        ("stories --train-text x", "--train-text is set by the verifier"),
        ("stories ; touch x", "';' is neither a flag nor a plain value"),
        ("stories --lr ../x", "'../x' is neither a flag nor a plain value"),
        ("stories 'unclosed", "cannot be split"),
    ],
)
def test_a_command_is_a_preset_with_flags(command, reason):
    with pytest.raises(RefusedError, match=reason):
        arguments_of(command)


def test_an_honest_command_is_split():
    words = ["stories", "--lr", "3e-3", "--max-minutes=10", "--tie-embeddings", "--norm", "rmsnorm"]
    assert arguments_of(" ".join(words)) == words


def test_the_page_in_docs_is_that_of_the_verified_entries():
    docs = Path(__file__).parents[4] / "docs"
    entries = read_leaderboard(docs / "leaderboard.jsonl")
    assert (docs / "leaderboard.md").read_text() == page(entries, "leaderboard.jsonl")
