"""Checkpoints on disk: whole or not at all, and never trusted."""

import hashlib
import io
import pickle
import resource

import pytest
import torch

from cs_basics.checkpoint import (
    checksum_path,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from cs_basics.layers import Linear
from cs_basics.optim import AdamW


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


def test_a_failed_save_leaves_the_old_checkpoint(model, optimizer, tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    before = path.read_bytes()

    def write_a_little_and_fail(_state, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", write_a_little_and_fail)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(model, optimizer, 2, path)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path, checksum_path(path)]
    assert read_checkpoint(path)["iteration"] == 1


def test_progress_comes_back(model, optimizer, tmp_path):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 3, path, {"elapsed_s": 1.5})
    assert read_checkpoint(path)["progress"] == {"elapsed_s": 1.5}


def test_another_shape_is_named(model, optimizer, tmp_path):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    other = Linear(4, 2)
    with pytest.raises(ValueError, match=r"weight of shape \(2, 3\), the model of shape \(2, 4\)"):
        load_checkpoint(path, other, AdamW(other.parameters()))


def test_the_checksum_is_what_sha256sum_checks(model, optimizer, tmp_path):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert checksum_path(path).read_text() == f"{digest}  a.pt\n"


def test_one_flipped_bit_anywhere_is_noticed(model, optimizer, tmp_path):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="another checksum"):
            read_checkpoint(path)


def test_a_full_disk_is_an_error_of_the_disk_and_leaves_the_old_checkpoint(tmp_path):
    model = Linear(300, 300)
    optimizer = AdamW(model.parameters())
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel refuses what is written beyond; Python ignores the signal that comes with it.
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_checkpoint(model, optimizer, 2, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path, checksum_path(path)]


@pytest.mark.parametrize("has_checksum", [False, True])
@pytest.mark.parametrize("cut", [0, 1, 100, 700])
def test_a_damaged_file_is_one_clear_error(model, optimizer, tmp_path, cut, has_checksum):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    path.write_bytes(path.read_bytes()[:cut])
    if not has_checksum:
        checksum_path(path).unlink()
    with pytest.raises(ValueError, match=r"a\.pt is damaged or not a checkpoint"):
        read_checkpoint(path)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_hostile_checkpoint_runs_nothing(tmp_path):
    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "pwned"), "w"))

    path = tmp_path / "evil.pt"
    torch.save({"model": Hostile(), "optimizer": {}, "iteration": 0}, path)
    with pytest.raises(ValueError, match="damaged or not a checkpoint"):
        read_checkpoint(path)
    path.write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(ValueError, match="damaged or not a checkpoint"):
        read_checkpoint(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.pt"]


@pytest.mark.parametrize("content", [[1, 2], {"model": {}}, {"weights": torch.ones(2)}])
def test_something_else_saved_by_torch_is_no_checkpoint(content):
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    with pytest.raises(ValueError, match="not a checkpoint of cs_basics"):
        read_checkpoint(file)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        read_checkpoint(tmp_path / "none.pt")
