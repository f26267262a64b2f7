"""What a host prepares before it lets a submission in."""

import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from probes import model, training, yardstick
from processes import python

from cs_grader.sandbox.absent import Absent, refuse, stand_in_for
from cs_grader.sandbox.inputs import Inputs
from cs_grader.sandbox.observers import Observers
from cs_grader.sandbox.processes import memory_of
from cs_grader.trusted import sandbox
from cs_grader.trusted.sandbox import empty_shared_memory, own_uid
from cs_grader.trusted.unchanged import add_changes, num_bytes, placed


@pytest.mark.parametrize(
    ("owner", "attribute", "name"),
    [
        (model, "plain", "probes.model.plain"),
        (model, "torch", "probes.model.torch"),
        (model, "forward", "probes.model.forward"),
        (yardstick.Counter, "__missing__", "probes.yardstick.Counter.__missing__"),
        (training.optimize, "__defaults__", "probes.training.optimize"),
        # How a tensor is printed is nobody's business but the student's.
        (model.Tensor, "__repr__", ""),
    ],
)
def test_what_a_probe_works_with_is_watched_through_its_imports(
    monkeypatch, owner, attribute, name
):
    observers = Observers()
    assert [module for module in observers.probes if observers.replaced(module)] == []
    monkeypatch.setattr(owner, attribute, None)
    seen_by = {module for module in observers.probes if observers.replaced(module) == name}
    module = ".".join(name.split(".")[:2])
    if name:
        assert module in seen_by
        assert ("probes.training" in seen_by) == (module != "probes.yardstick")
    else:
        assert seen_by == set(observers.probes)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "bool"])
@pytest.mark.parametrize("strided", [(), ("x", "y")])
def test_the_grader_knows_the_bytes_of_what_a_probe_places(monkeypatch, dtype, strided):
    shared = Inputs()
    monkeypatch.setattr(model, "placed", shared.place)
    values = np.array([[1.00390625, -2.5, 0.0], [np.inf, 0.1, 3.0e-9]], np.float32)
    given = {"x": values, "nested": {"y": values[0]}, "n": 3, "empty": values[:0]}
    if dtype not in ("bfloat16", "float16", "float64"):
        given = {"x": (values > 0).astype(dtype)}
    dtypes = {"x": dtype} if dtype[0] in "bf" else {}
    made = model.tensors(given, dtypes, strided)
    tensors = placed("forward", {"arguments": given, "dtypes": dtypes, "strided": strided})
    assert [one.name for one in tensors] == ["x", "y"][: len(tensors)]
    report = {"changed": []}
    add_changes(report, tensors, shared.look(num_bytes(tensors)).tobytes())
    assert report == {"changed": []}
    made["x"].fill_(1)
    add_changes(report, tensors, shared.look(num_bytes(tensors)).tobytes())
    assert report == {"changed": ["x"]}


def test_a_stand_in_takes_the_place_of_a_package_that_is_installed(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    stand_in_for(["colorsys"])
    assert not isinstance(importlib.import_module("colorsys"), Absent)
    monkeypatch.delitem(sys.modules, "colorsys")
    monkeypatch.setattr(Absent, "is_importing", False)
    monkeypatch.setattr(Absent, "refused", ())
    refuse(["colorsys"], lambda name: pytest.fail(f"{name} is used"))
    with pytest.raises(pytest.fail.Exception, match="colorsys is used"):
        importlib.import_module("color" + "sys").rgb_to_hsv(1, 1, 1)


READY_MADE = """
import sys
from cs_grader.sandbox import audit
audit.listen(audit.Folders("/none", "/none", ()), lambda *_: None, {package})
try:
    {load}
except ImportError as error:
    print(error)
else:
    print("imported")
"""


BY_ANOTHER_NAME = """
    import _imp, glob, types
    (file,) = glob.glob(sys.prefix + "/lib/python*/site-packages/tokenizers/*.so")
    _imp.create_dynamic(types.SimpleNamespace(name="x.tokenizers", origin=file))
"""


@pytest.mark.parametrize("load", ["import tokenizers", BY_ANOTHER_NAME.strip()])
@pytest.mark.parametrize(
    ("package", "said"),
    [("tokenizers", "tokenizers does the work of this problem and is not there"), ("", "imported")],
)
def test_compiled_code_of_a_ready_made_package_is_refused_without_a_finder(package, said, load):
    pytest.importorskip("tokenizers")
    program = READY_MADE.format(package=repr([package]), load=load)
    run = python("-c", program, check=True)
    assert run.stdout.strip() == said


def test_a_process_that_closes_itself_to_others_still_holds_its_memory(monkeypatch):
    read_text = Path.read_text

    def refuse(path, *more, **options):
        if path.name == "smaps_rollup":
            raise PermissionError(13, "Permission denied")
        return read_text(path, *more, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert memory_of([os.getpid()], enough=0) > 10 * 2**20


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/shm").is_dir(), reason="needs root and Linux"
)
@pytest.mark.skipif(sys.platform != "linux", reason="users of the sandbox are for Linux")
def test_no_two_graders_have_the_same_user():
    """Each would kill what the other's submission runs."""
    mine = own_uid()
    claim = "from cs_grader.trusted import sandbox\n"
    claim += f"sandbox.os.getpid = lambda: {mine - sandbox.FIRST_UID}\nprint(sandbox.own_uid())"
    other = python("-c", claim, check=True)
    assert int(other.stdout) == mine + 1


def test_shared_memory_of_a_user_is_emptied():
    uid = own_uid()
    ours, theirs = (Path(f"/dev/shm/cs-basics-test-{os.getpid()}-{who}") for who in "ab")
    (theirs / "inner").mkdir(parents=True)
    ours.touch()
    os.chown(theirs, uid, uid)
    empty_shared_memory(uid)
    assert (ours.exists(), theirs.exists()) == (True, False)
    ours.unlink()
