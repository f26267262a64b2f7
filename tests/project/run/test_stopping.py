"""Runs that end before their time: by a signal, a full disk, a file that is gone."""

import json
import os
import random
import resource
import signal

import numpy as np
import pytest
import torch
from processes import held_elsewhere
from run_files import folder_of, rows_of
from test_training import (
    KilledError,
    assert_same_bits,
    assert_same_run,
    die,
    final_state,
    timeless_rows,
)

from cs_basics.run.checkpoint_file import read_checkpoint, write_checkpoint
from cs_basics.run.clock import Clock
from cs_basics.run.folder import RunFolder, step_of
from cs_basics.run.metrics import read_metrics
from cs_basics.run.random_state import random_states, seed_all
from cs_basics.run.run import train_run
from cs_basics.run.stopping import SIGNALS, StopSignals, TrainingStoppedError

UNLIMITED = resource.RLIM_INFINITY


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def stop_by(number):
    return lambda _: os.kill(os.getpid(), number)


def shorten(tokens):
    """Take the last token: where nobody looks, to read beyond the last page kills this process."""
    os.truncate(tokens / "valid.bin", (tokens / "valid.bin").stat().st_size - 2)


def limit_files(num_bytes):
    """Let no file be larger, as on a full disk; Python ignores the signal that comes with it."""
    return lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, UNLIMITED))


BROKEN = {
    "by Ctrl-C": (8, stop_by(signal.SIGINT), TrainingStoppedError, "SIGINT after step 8", [8]),
    "by a closed terminal": (8, stop_by(signal.SIGHUP), TrainingStoppedError, "SIGHUP after", [8]),
    "in its last update": (20, stop_by(signal.SIGTERM), TrainingStoppedError, "step 20", [20]),
    "by a text that is deleted": (
        8, lambda tokens: (tokens / "train.bin").unlink(), FileNotFoundError,
        r"train\.bin .*in use", [5],
    ),
    "by a text that shrinks": (8, shorten, ValueError, r"valid\.bin .*in use", [5]),
    # In the first large tensor, where torch has an error of its own.
    "by a disk without room for a checkpoint": (
        8, limit_files(20_000), OSError, r"File too large: .*step-00000010\.pt", [5],
    ),
    "by a disk without room for a row": (8, limit_files(100), OSError, "File too large", [5]),
    "before its first checkpoint": (4, die, KilledError, "^$", []),
}  # fmt: skip
"""How a run ends: when an update is due, what happens, the error, what it says, the step saved."""


@pytest.mark.parametrize("how", BROKEN)
def test_a_run_that_is_broken_off_says_why_and_goes_on_bit_for_bit(
    tiny_config, finished, before_update, how
):
    at_step, happen, error, words, saved = BROKEN[how]
    folder = folder_of(tiny_config)
    before_update(at_step, lambda: happen(folder.tokens))
    try:
        with pytest.raises(error, match=words) as caught:
            train_run(tiny_config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
    assert [step_of(path) for path in folder.all_checkpoints()][-1:] == saved
    assert not list(folder.path.rglob("*.tmp"))
    is_told_how_to_go_on = "--resume goes on" in "".join(getattr(caught.value, "__notes__", []))
    assert is_told_how_to_go_on == issubclass(error, OSError | ValueError)
    assert "final/loss" not in rows_of(tiny_config)[-1]
    # A shortened one is refused; without it, the text is encoded again.
    (folder.tokens / "valid.bin").unlink()
    train_run(tiny_config, resume=True)
    assert_same_run(finished, tiny_config)


def test_the_random_states_go_on_too(tiny_config, before_update):
    def draw():
        torch.rand(7)
        np.random.rand(7)  # noqa: NPY002
        random.random()

    before_update(8, draw)
    train_run(tiny_config.replace(max_steps=10))
    saved = final_state(tiny_config)["progress"]["random"]
    seed_all(99)
    seen = []
    before_update(11, lambda: seen.append(random_states()))
    train_run(tiny_config, resume=True)
    assert_same_bits(seen[0], saved)


def test_handlers_are_put_back_and_only_a_later_ctrl_c_ends_at_once(monkeypatch):
    # What is ignored at the start, as a closed terminal under nohup, stays ignored.
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = [signal.getsignal(number) for number in SIGNALS]
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.received == 0
            for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
            assert stop.received == signal.SIGINT
            now += 0.9  # torchrun has forwarded the first press by then; nobody presses so soon.
            os.kill(os.getpid(), signal.SIGINT)
            now += 0.2
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert before == [signal.getsignal(number) for number in SIGNALS]
    finally:
        signal.signal(signal.SIGHUP, usual)


def test_a_damaged_checkpoint_is_skipped_with_a_line(tiny_config, finished, caplog):
    train_run(tiny_config.replace(max_steps=15))
    folder = folder_of(tiny_config)
    older, newest = folder.all_checkpoints()
    damage(newest)
    left = folder.checkpoints / "step-00000020.pt.99999.tmp"
    left.write_bytes(b"half")
    caplog.set_level("INFO")
    train_run(tiny_config, resume=True)
    skipped = [record.message for record in caplog.records if "skipped" in record.message]
    assert len(skipped) == 1
    assert str(newest) in skipped[0]
    assert f"going on from step 10 ({older})" in caplog.text
    # The schedule of the first fifteen updates was another one.
    assert [row["step"] for row in timeless_rows(finished)] == [
        row["step"] for row in timeless_rows(tiny_config)
    ]
    assert read_checkpoint(newest).progress
    assert not left.exists(), "a process that was killed had not finished it"
    for path in folder.all_checkpoints():
        damage(path)
    with pytest.raises(ValueError, match="all checkpoints before it are damaged"):
        train_run(tiny_config, resume=True)


def test_the_loss_of_the_best_checkpoint_is_that_of_its_weights_and_the_end_is_always_validated(
    tiny_config,
):
    config = tiny_config.replace(lr=1e-2, eval_every=7)
    train_run(config)
    folder = folder_of(config)
    _, stored = folder.read_best()
    rows = read_metrics(folder.metrics)
    judged = [(row["step"], row["val/loss"]) for row in rows if "val/loss" in row]
    assert [step for step, _ in judged] == [7, 14, 20]
    weights = dict(judged)
    assert stored == min(weights.values())
    assert folder.best_checkpoint() == folder.checkpoint_of(min(weights, key=weights.get))
    # A resumed run that is finished says nothing twice.
    train_run(config, resume=True)
    assert [row["step"] for row in read_metrics(folder.metrics)] == [row["step"] for row in rows]
    # The best may be an older one.
    older, newest = folder.all_checkpoints()
    folder.best.write_text(json.dumps({"checkpoint": older.name, "validation_loss": 0.5}))
    of_best = folder.load_model(which="best").state_dict()
    newest.unlink()
    assert_same_bits(of_best, folder.load_model().state_dict())


def test_the_last_two_checkpoints_and_the_best_are_kept(tmp_path):
    folder = RunFolder(tmp_path)
    folder.checkpoints.mkdir()
    for step, loss, best, kept in (
        (1, 3.0, 1, [1]),
        (2, 2.0, 2, [1, 2]),
        (2, 4.0, 2, [1, 2]),  # Weights that are written anew lose the loss of those before.
        (3, 5.0, 2, [2, 3]),
        (99_999_999, None, 2, [2, 3, 99_999_999]),
        (100_000_000, 3.5, 100_000_000, [99_999_999, 100_000_000]),  # By number, not by name.
    ):
        folder.checkpoint_of(step).touch()
        folder.prune_checkpoints(step, loss)
        assert folder.best_checkpoint() == folder.checkpoint_of(best)
        assert folder.all_checkpoints() == [folder.checkpoint_of(number) for number in kept]
    assert folder.read_best()[1] == 3.5


@pytest.mark.parametrize(
    "content",
    ['{"checkpoint": 3}', '{"checkpoint": "a.pt", "validation_loss": 1' + "0" * 400 + "}"],
)
def test_a_damaged_note_of_the_best_is_written_anew(tmp_path, content):
    folder = RunFolder(tmp_path)
    folder.checkpoints.mkdir()
    folder.best.write_text(content)
    with pytest.raises(FileNotFoundError, match="holds no best checkpoint"):
        folder.best_checkpoint()
    folder.checkpoint_of(3).touch()
    folder.prune_checkpoints(3, 2.0)
    assert folder.best_checkpoint() == folder.checkpoint_of(3)


def test_a_signal_while_the_last_checkpoint_is_written_is_heard(tiny_config, monkeypatch):
    def write(path, model, optimizer, step, progress):
        write_checkpoint(path, model, optimizer, step, progress)
        if step == tiny_config.run.max_steps:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("cs_basics.run.saving.write_checkpoint", write)
    with pytest.raises(TrainingStoppedError, match="stopped by SIGTERM"):
        train_run(tiny_config)


def test_minutes_that_are_over_before_the_first_update_are_no_result(tiny_config):
    short = tiny_config.replace(max_minutes=1e-6)
    with pytest.raises(ValueError, match="--max-minutes 1e-06 were over before the first update"):
        train_run(short)
    assert not folder_of(short).all_checkpoints()
    train_run(short.replace(max_minutes=None), resume=True)
    assert final_state(tiny_config)["iteration"] == tiny_config.run.max_steps


def test_minutes_that_a_run_has_used_up_are_not_given_to_it_again(tiny_config, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Clock, "read_s", lambda _: 100.0)
        train_run(tiny_config.replace(max_steps=5))
    train_run(tiny_config.replace(max_minutes=1.5), resume=True)
    assert final_state(tiny_config)["iteration"] == 5
    assert rows_of(tiny_config)[-1]["elapsed_s"] >= 100


def test_two_processes_do_not_train_in_one_folder(tiny_config):
    folder = folder_of(tiny_config)
    with (
        held_elsewhere(folder.claim),
        pytest.raises(ValueError, match="another process is training in"),
    ):
        train_run(tiny_config)
    # What a killed process leaves is no claim, and is gone after the next run.
    lock = folder.path / "lock"
    assert lock.exists()
    train_run(tiny_config)
    assert not lock.exists()
    with RunFolder(tiny_config.run.run_dir.with_name("unused")).claim():
        pass
    assert not tiny_config.run.run_dir.with_name("unused").exists()
