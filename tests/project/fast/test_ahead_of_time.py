"""A model that another process compiled: the plain numbers, and no compiler where it is trained."""

import dataclasses
import json
import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest
import torch
from processes import ROOT, python

from cs_basics.fast import accelerate
from cs_basics.fast import training as fast_training
from cs_basics.fast.adamw import FusedAdamW, numbers, update_in_place
from cs_basics.fast.compilation import (
    compiled_code_folder,
    path_that_stops_the_compiler,
    reason_not_to_compile,
)
from cs_basics.fast.loss import is_chunked, loss_function
from cs_basics.fast.native import ahead_of_time
from cs_basics.fast.native.ahead_of_time import CompiledLoss, NotCompiledError, key
from cs_basics.fast.training import compile_training
from cs_basics.settings.model import ModelConfig
from cs_basics.variants.model import Transformer

# 2^24 logits: from there on the loss is computed in chunks. Here in one, which compiles sooner.
CONFIG = ModelConfig(
    vocab_size=32_768, context_length=64, d_model=32, d_ff=64, num_layers=1, num_heads=1
)
NUM_ROWS = 8
JOB = {
    "config": dataclasses.asdict(CONFIG), "dtype": "float32", "num_rows": NUM_ROWS,
    "num_threads": torch.get_num_threads(),
    "drops": False,
}  # fmt: skip
needs_a_compiler = [
    pytest.mark.compile,
    pytest.mark.needs("g++"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # PyTorch's own, of what it does to compile.
]


class Compiled:
    """A model with its plain and its compiled loss."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = accelerate(Transformer)(CONFIG)
        self.plain_loss_of = loss_function(self.model, torch.float32, NUM_ROWS * 64)
        self.loss_of = CompiledLoss(self.model, JOB, self.plain_loss_of)
        self.batch = torch.randint(32_768, (2, NUM_ROWS, 64)).unbind()

    def gradients(self, loss):
        self.model.zero_grad()
        loss.backward()
        return {name: p.grad.clone() for name, p in self.model.named_parameters()}


@pytest.fixture(scope="module")
def compiled():
    # In the user's cache: what it holds under this key was made by these very sources.
    return Compiled()


class TestCompiled:
    pytestmark = needs_a_compiler

    @pytest.mark.parametrize("change", [1, 3])
    def test_loss_and_gradients_are_the_plain_ones_of_the_weights_of_now(self, compiled, change):
        assert is_chunked(compiled.model, NUM_ROWS * 64)
        with torch.no_grad():
            compiled.model.lm_head.weight.mul_(change)
        plain, loss = compiled.plain_loss_of(*compiled.batch), compiled.loss_of(*compiled.batch)
        torch.testing.assert_close(loss, plain, rtol=1e-5, atol=0)
        expected, found = compiled.gradients(plain / 3), compiled.gradients(loss / 3)
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-7, msg=name)

    def test_evaluating_gives_the_same_loss_and_keeps_nothing(self, compiled):
        with torch.no_grad():
            loss = compiled.loss_of(*compiled.batch)
        assert not loss.requires_grad
        assert compiled.loss_of.evaluation is not compiled.loss_of.forward
        torch.testing.assert_close(loss, compiled.plain_loss_of(*compiled.batch).detach())

    def test_a_batch_of_another_shape_goes_to_the_plain_loss(self, compiled):
        shorter = [part[:, :7] for part in compiled.batch]
        assert torch.equal(compiled.loss_of(*shorter), compiled.plain_loss_of(*shorter))

    def test_a_second_backward_is_refused(self, compiled):
        loss = compiled.loss_of(*compiled.batch)
        loss.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="compute the loss anew"):
            loss.backward()

    @pytest.mark.parametrize("shape", [(5,), (33, 7)])
    def test_the_update_is_that_of_the_definition(self, compiled, shape):
        tensors = torch.rand(4, *shape).unbind()
        expected = [tensor.clone() for tensor in tensors]
        group = {"betas": (0.9, 0.95), "lr": 0.1, "eps": 1e-8, "weight_decay": 0.1}
        compiled.loss_of.update(*tensors, *numbers(group, 3))
        update_in_place(*expected, *numbers(group, 3))
        torch.testing.assert_close(list(tensors), expected)

    def test_another_run_compiles_nothing(self, compiled, monkeypatch):
        monkeypatch.setattr(ahead_of_time, "COMPILER", "no_such_module")
        assert Compiled().loss_of(*compiled.batch).isfinite()

    @pytest.mark.parametrize("name", ["plans.json", "forward.pt2"])
    def test_what_is_damaged_or_swept_away_is_compiled_anew(
        self, compiled, tmp_path, name, monkeypatch
    ):
        folder = compiled_code_folder() / key(JOB)
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        (folder / name).unlink()

        def compiles(command, **_):
            shutil.copytree(copy, command[-1], dirs_exist_ok=True)
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(ahead_of_time.subprocess, "run", compiles)
        assert Compiled().loss_of(*compiled.batch).isfinite()
        assert (folder / name).exists()

    @pytest.mark.usefixtures("compiled")
    def test_a_process_that_trains_holds_no_compiler(self):
        # As a run does, and without whatever else a trainer imports.
        program = (
            "import json, sys, torch\n"
            "from cs_basics.fast import accelerate\n"
            "from cs_basics.fast.training import compile_training\n"
            "from cs_basics.optim import AdamW\n"
            "from cs_basics.settings.model import ModelConfig\n"
            "from cs_basics.variants.model import Transformer\n"
            f"torch.set_num_threads({torch.get_num_threads()})\n"
            "config = ModelConfig(**json.load(sys.stdin))\n"
            "model = accelerate(Transformer)(config)\n"
            "optimizer = accelerate(AdamW)(model.parameters(), lr=1e-2)\n"
            f"loss_of = compile_training(model, config, optimizer, torch.float32, {NUM_ROWS})\n"
            "losses = []\n"
            "for _ in range(4):\n"
            f"    loss = loss_of(*torch.ones(2, {NUM_ROWS}, 64, dtype=torch.int64))\n"
            "    losses.append(loss.item())\n"
            "    optimizer.zero_grad()\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "assert losses[-1] < losses[0] - 0.1, losses\n"
            "assert optimizer._update is not None\n"
            "print([name for name in ('torch._dynamo', 'triton') if name in sys.modules])\n"
        )
        given = json.dumps(dataclasses.asdict(CONFIG))
        assert python("-c", program, input=given, check=True).stdout == "[]\n"


@pytest.fixture
def model():
    return accelerate(Transformer)(CONFIG)


@pytest.mark.parametrize(
    ("num_rows", "is_alone"), [(1, True), (NUM_ROWS, True), (1, False)],
    ids=["few logits", "many logits", "one of several processes"],
)  # fmt: skip
def test_where_it_fails_or_is_not_tried_this_process_compiles(
    model, monkeypatch, tmp_path, caplog, num_rows, is_alone
):
    asked = []

    def keep(function, *_, **__):
        asked.append(function.__name__)
        return function

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead_of_time, "COMPILER", "no_such_module")
    monkeypatch.setattr(fast_training, "compile_if_possible", keep)
    monkeypatch.setattr(fast_training, "reason_not_to_compile", lambda _: None)
    monkeypatch.setattr(fast_training, "use_kernel", lambda _: False)
    # Another optimizer than the twin is left as it is.
    optimizer = (FusedAdamW if is_alone else torch.optim.SGD)(model.parameters())
    monkeypatch.setattr(optimizer, "compile", lambda _: asked.append("optimizer"), raising=False)
    with caplog.at_level("INFO"):
        loss_of = compile_training(
            model, CONFIG, optimizer, torch.float32, num_rows, is_alone=is_alone
        )
    assert ("no_such_module" in caplog.text) is is_alone
    assert not list(tmp_path.glob("cs_basics/*"))
    is_large = num_rows == NUM_ROWS
    assert asked == ["optimizer"] * is_alone + ["chunked_loss_of" if is_large else "loss_of"]
    batch = torch.ones(2, num_rows, 64, dtype=torch.int64).unbind()
    with torch.no_grad():  # A small loss takes the graph of training, to compile it once.
        assert loss_of(*batch).requires_grad is not is_large


def another_torch(monkeypatch, _folder):
    monkeypatch.delattr(torch._C._aoti, "AOTIModelPackageLoader")
    monkeypatch.setattr(ahead_of_time, "compiled_folder", None)  # Nothing is compiled in vain.


def a_file_for_a_folder(monkeypatch, folder):
    (folder / "file").touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "file"))


def open_to_others(part):
    def arrange(_monkeypatch, folder):
        (folder / "cs_basics" / key(JOB)).mkdir(parents=True)
        (folder / part).chmod(0o777)

    return arrange


UNFIT = {
    "another version of torch": (another_torch, "AOTIModelPackageLoader"),
    "a folder that cannot be": (a_file_for_a_folder, "Not a directory"),
    "others' cache": (open_to_others("."), "others can write to .*, whose code would run here"),
    "others' code": (open_to_others("cs_basics"), "others can write to .*/cs_basics, whose code"),
}


@pytest.mark.parametrize("reason", UNFIT)
def test_what_cannot_be_used_or_trusted_is_not_fatal(model, monkeypatch, tmp_path, reason):
    arrange, words = UNFIT[reason]
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    arrange(monkeypatch, tmp_path)
    with pytest.raises(NotCompiledError, match=words):
        CompiledLoss(model, JOB, None)


PATHS = {"a blank": "my cache", "noexec": "noexec"}


@pytest.mark.parametrize("reason", PATHS)
def test_a_path_that_stops_the_compiler_is_named_with_the_way_out(monkeypatch, tmp_path, reason):
    folder = tmp_path / PATHS[reason]
    folder.mkdir()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    assert (path_that_stops_the_compiler() is None) == (reason == "noexec")
    if reason == "noexec":
        flags = SimpleNamespace(f_flag=os.ST_NOEXEC)
        monkeypatch.setattr("os.statvfs", lambda path: path == folder and flags)
    said = reason_not_to_compile.__wrapped__(torch.device("cpu"))
    assert reason in said
    assert str(folder) in said
    assert "set TORCHINDUCTOR_CACHE_DIR" in said


def test_a_blank_in_the_path_of_temporary_files_needs_another_way_out(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "my files"))
    assert path_that_stops_the_compiler().endswith("my files: set TMPDIR to another folder")


def test_a_user_without_a_name_has_a_folder(monkeypatch):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setattr("getpass.getuser", nobody)
    assert compiled_code_folder().parts[-2:][0].startswith("torchinductor_")


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "bfloat16"},
        {"num_rows": 16},
        {"num_threads": 77},
        {"drops": True},
        {"config": {**JOB["config"], "norm": "layernorm"}},
    ],
    ids=str,
)
def test_the_key_is_of_what_is_compiled(change):
    assert key(JOB) == key(dict(JOB)) != key(JOB | change)


@pytest.mark.parametrize(
    ("name", "changes_the_key"),
    [
        ("norms.py", True),
        ("settings/model.py", True),  # It holds NUM_GROUPS, and one cache served two models.
        ("variants/norms.py", True),
        ("fast/native/attention_kernel.cpp", True),
        ("fast/text/merging.py", False),
        ("run/trainer.py", False),
    ],
)
def test_the_key_is_of_the_sources_that_are_compiled(tmp_path, monkeypatch, name, changes_the_key):
    copied = tmp_path / "cs_basics"
    shutil.copytree(ROOT / "cs_basics", copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(ahead_of_time, "__file__", str(copied / "fast/native/ahead_of_time.py"))
    before = key(JOB)
    with (copied / name).open("a") as file:
        file.write("\n")
    assert (key(JOB) != before) is changes_the_key
