"""Checkpoints on disk: whole or not at all, and never trusted."""

import hashlib
import io
import pickle
import resource
import zipfile

import pytest
import torch

from cs_basics.checkpoint import (
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from cs_basics.layers import Linear
from cs_basics.optim import AdamW
from cs_basics.run.checksum import SealingWriter


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
    assert list(tmp_path.iterdir()) == [path]
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


def test_the_checksum_is_the_comment_of_the_archive(model, optimizer, tmp_path):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    comment = zipfile.ZipFile(path).comment.decode()
    digest = hashlib.sha256(path.read_bytes()[: -len(comment) - 2]).hexdigest()
    assert comment == f"sha256:{digest}"
    assert torch.load(path, weights_only=True)["iteration"] == 1


def test_a_checkpoint_may_lie_inside_of_a_longer_file(model, optimizer):
    file = io.BytesIO()
    file.write(b"before")
    save_checkpoint(model, optimizer, 1, file)
    content = file.getvalue()[6:]
    assert read_checkpoint(io.BytesIO(content))["iteration"] == 1


def test_one_flipped_bit_anywhere_is_noticed(model, optimizer, tmp_path):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="checksum does not fit"):
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
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("cut", [0, 1, 100, 700])
def test_a_damaged_file_is_one_clear_error(model, optimizer, tmp_path, cut):
    path = tmp_path / "a.pt"
    save_checkpoint(model, optimizer, 1, path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"a\.pt is damaged or not a checkpoint"):
        read_checkpoint(path)


def sealed(content):
    """Give bytes the checksum of a checkpoint, as somebody who wants to be believed would."""
    out = io.BytesIO()
    writer = SealingWriter(out)
    writer.write(content)
    writer.seal()
    return out.getvalue()


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_hostile_checkpoint_runs_nothing(tmp_path):
    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "pwned"), "w"))

    path = tmp_path / "evil.pt"
    archive = saved({"model": Hostile(), "optimizer": {}, "iteration": 0})
    for content in (
        archive,
        sealed(archive),
        pickle.dumps(Hostile()),
        sealed(pickle.dumps(Hostile()) + bytes(2)),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="damaged or not a checkpoint"):
            read_checkpoint(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.pt"]


@pytest.mark.parametrize("content", [[1, 2], {"model": {}}, {"weights": torch.ones(2)}])
def test_something_else_saved_by_torch_is_no_checkpoint(content):
    for file in (saved(content), sealed(saved(content))):
        with pytest.raises(ValueError, match="not a checkpoint of cs_basics"):
            read_checkpoint(io.BytesIO(file))


def test_only_an_archive_without_a_comment_is_sealed():
    with pytest.raises(ValueError, match="cannot end with"):
        sealed(b"no archive")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        read_checkpoint(tmp_path / "none.pt")
