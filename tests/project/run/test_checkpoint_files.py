"""Checkpoints of a run: whole or not at all, never trusted, and around whatever the book saves."""

import hashlib
import io
import json
import pickle

import pytest
import torch

from cs_basics.layers import Linear
from cs_basics.optim import AdamW
from cs_basics.run import checkpoint_file
from cs_basics.run.checkpoint_file import FOOTER_BYTES, read_checkpoint, write_checkpoint
from cs_basics.run.folder import RunFolder


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Linear(3, 2)


@pytest.fixture
def optimizer(model):
    optimizer = AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return optimizer


@pytest.fixture
def path(model, optimizer, tmp_path):
    """A checkpoint after the first update."""
    path = tmp_path / "a.pt"
    write_checkpoint(path, model, optimizer, 1, {"elapsed_s": 1.5, "state": torch.ones(2)})
    return path


def test_what_a_students_function_raises_is_told_in_one_line(path, model, optimizer, monkeypatch):
    def broken(*_):
        raise ArithmeticError("first line\nsecond line")

    monkeypatch.setattr(checkpoint_file, "load_checkpoint", broken)
    with pytest.raises(ValueError, match=r"a\.pt does not fit this model: first line second line$"):
        read_checkpoint(path).load_into(model, optimizer)


def test_a_moment_of_another_shape_is_named(model, optimizer, tmp_path):
    """Its checksum is right: somebody has edited the state and saved it again."""
    (state,) = optimizer.state.values()
    state["v"] = torch.ones(5)
    write_checkpoint(tmp_path / "a.pt", model, optimizer, 1)
    other = Linear(3, 2)
    message = r"a.pt does not fit this model: .* moment v has shape \(5,\), its weight \(2, 3\)"
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path / "a.pt").load_into(other, AdamW(other.parameters()))


def test_one_flipped_bit_anywhere_is_noticed(path):
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"a\.pt (is damaged|has format version)"):
            read_checkpoint(path)


def with_checksum(body, **changes):
    """Give bytes the footer of a checkpoint, as somebody who wants to be believed would."""
    footer = {
        "cs_basics checkpoint": 3, "state_bytes": 0, "progress_bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }  # fmt: skip
    return body + json.dumps(footer | changes).encode().ljust(FOOTER_BYTES)


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_hostile_checkpoint_runs_nothing(tmp_path, model, optimizer):
    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "pwned"), "w"))

    path = tmp_path / "evil.pt"
    archive = saved({"model": Hostile(), "optimizer": {}, "iteration": 0})
    for content in (archive, pickle.dumps(Hostile())):
        for whole in (content, with_checksum(content)):
            path.write_bytes(whole)
            with pytest.raises(ValueError, match="is damaged"):
                read_checkpoint(path)
        path.write_bytes(with_checksum(content + saved({}), state_bytes=len(content),
                                       progress_bytes=len(saved({}))))  # fmt: skip
        with pytest.raises(ValueError, match="cannot be read: save_checkpoint wrote"):
            read_checkpoint(path).load_into(model, optimizer)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.pt"]


def test_progress_that_was_made_on_a_gpu_is_read_without_one(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.serialization.location_tag", lambda _: "cuda:0")
    progress = saved({"mean": [torch.ones(2)]})
    monkeypatch.undo()
    path = tmp_path / "a.pt"
    path.write_bytes(with_checksum(progress))
    (mean,) = read_checkpoint(path).progress["mean"]
    assert (mean.device.type, mean.tolist()) == ("cpu", [1.0, 1.0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged or not a checkpoint"),
        (with_checksum(saved([1, 2])), "its progress is not a dictionary"),
        (with_checksum(b"{}"), "its progress cannot be read"),
        (with_checksum(saved({}), progress_bytes=5), "checksum does not fit"),
        (with_checksum(saved({}), **{"cs_basics checkpoint": 4}), "has format version 4, not 3"),
        (b"[1]".ljust(FOOTER_BYTES), "not a checkpoint of cs_basics"),
    ],
)
def test_something_else_is_refused_by_what_is_wrong_with_it(tmp_path, content, message):
    path = tmp_path / "a.pt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_checkpoint(path)


def test_what_a_killed_process_left_is_removed_folders_too_and_nothing_else(tmp_path):
    (tmp_path / "model.7.tmp").mkdir()
    (tmp_path / "model.7.tmp" / "half.bin").touch()
    (tmp_path / "a.pt.7.tmp").touch()
    kept = {"a.pt", "notes.tmp", "draft.v2.tmp"}
    for name in kept:
        (tmp_path / name).touch()
    RunFolder(tmp_path).remove_leftovers()
    assert {path.name for path in tmp_path.iterdir()} == kept
