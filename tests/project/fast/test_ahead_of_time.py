"""A model that another process compiled: the plain numbers, and no compiler where it is trained."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cs_basics.fast.adamw import OnePassAdamW, numbers, update_in_place
from cs_basics.fast.native import ahead_of_time
from cs_basics.fast.native.ahead_of_time import (
    CompiledLoss,
    NotCompiledError,
    compile_training,
    key,
)
from cs_basics.run.config import PRESETS
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.folder import build_model
from cs_basics.run.hardware import compiled_code_folder, reason_not_to_compile

ROOT = Path(__file__).parents[3]
CONFIG = dataclasses.replace(
    PRESETS["debug"][1], vocab_size=300, context_length=32, d_model=32, d_ff=64, num_layers=1,
    batch_size=4, device="cpu", dtype="float32", merge_projections=True, tile_attention=True,
    chunk_loss=True, compile=True,
)  # fmt: skip
needs_a_compiler = [
    pytest.mark.compile,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # PyTorch's own, of what it does to compile.
]


class Compiled:
    """A model with its plain and its compiled loss."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = build_model(CONFIG)
        self.plain_loss_of = make_loss_function(self.model, torch.float32, in_chunks=True)
        self.loss_of = CompiledLoss(self.model, CONFIG, 4, self.plain_loss_of)
        self.batch = torch.randint(300, (2, 4, 32)).unbind()

    def gradients(self, loss):
        self.model.zero_grad()
        loss.backward()
        return {name: p.grad.clone() for name, p in self.model.named_parameters()}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache that is empty at first."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="module")
def compiled(cache):  # noqa: ARG001  it is where the libraries go
    if reason := reason_not_to_compile(torch.device("cpu")):
        pytest.skip(f"torch.compile does not work here: {reason}")
    return Compiled()


class TestCompiled:
    pytestmark = needs_a_compiler

    def test_loss_and_gradients_are_the_plain_ones(self, compiled):
        plain, loss = compiled.plain_loss_of(*compiled.batch), compiled.loss_of(*compiled.batch)
        torch.testing.assert_close(loss, plain, rtol=1e-5, atol=0)
        expected, found = compiled.gradients(plain / 3), compiled.gradients(loss / 3)
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-7, msg=name)

    def test_the_weights_are_those_of_now(self, compiled):
        before = compiled.loss_of(*compiled.batch).item()
        with torch.no_grad():
            compiled.model.lm_head.weight.mul_(3)
        after = compiled.loss_of(*compiled.batch)
        assert after.item() != pytest.approx(before)
        torch.testing.assert_close(after, compiled.plain_loss_of(*compiled.batch))

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
        self, compiled, cache, name, monkeypatch
    ):
        folders = [path for path in (cache / "cs_basics").iterdir() if path.is_dir()]
        copy = cache / "copy"
        shutil.copytree(folders[0], copy, dirs_exist_ok=True)
        (folders[0] / name).unlink()

        def compiles(command, **_):
            shutil.copytree(copy, command[-1], dirs_exist_ok=True)
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(ahead_of_time.subprocess, "run", compiles)
        assert Compiled().loss_of(*compiled.batch).isfinite()
        assert (folders[0] / name).exists()

    @pytest.mark.usefixtures("compiled")
    def test_a_process_that_trains_holds_no_compiler(self, texts, tmp_path):
        config = dataclasses.replace(
            CONFIG, train_text=texts[0], valid_text=texts[1], run_dir=tmp_path / "run",
            max_steps=3, checkpoint_every=2, eval_every=2, eval_tokens=600,
        )  # fmt: skip
        program = (
            "import json, sys, torch\n"
            "from cs_basics.run.config import TrainConfig\n"
            "from cs_basics.run.trainer import train\n"
            f"torch.set_num_threads({torch.get_num_threads()})\n"
            "train(TrainConfig.from_json(json.load(sys.stdin)))\n"
            "print([name for name in ('torch._dynamo', 'triton') if name in sys.modules])\n"
        )
        assert output_of(program, config) == "[]"

    @pytest.mark.usefixtures("compiled")
    def test_what_the_libraries_call_is_there_without_the_trainer(self):
        program = (
            "import json, sys, torch\n"
            "from cs_basics.fast.native.ahead_of_time import CompiledLoss\n"
            "from cs_basics.run.config import TrainConfig\n"
            "from cs_basics.run.folder import build_model\n"
            f"torch.set_num_threads({torch.get_num_threads()})\n"
            "config = TrainConfig.from_json(json.load(sys.stdin))\n"
            "loss_of = CompiledLoss(build_model(config), config, 4, None)\n"
            "loss_of(*torch.zeros(2, 4, 32, dtype=torch.int64)).backward()\n"
            "print('whole')\n"
        )
        assert output_of(program) == "whole"


def output_of(program, config=CONFIG):
    import json

    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        input=json.dumps(config.to_json()),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return finished.stdout.strip()


def test_an_optimizer_imports_no_compiler():
    program = (
        "import sys, torch\n"
        "from cs_basics.fast.adamw import OnePassAdamW\n"
        "optimizer = OnePassAdamW([torch.nn.Parameter(torch.zeros(3))])\n"
        "optimizer.zero_grad()\n"
        "optimizer.load_state_dict(optimizer.state_dict())\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    assert output_of(program) == "False"


def test_where_it_fails_it_is_said_why_and_nothing_is_left(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead_of_time, "COMPILER", "no_such_module")
    model = build_model(CONFIG)
    plain = make_loss_function(model, torch.float32)
    with pytest.raises(NotCompiledError, match="no_such_module"):
        CompiledLoss(model, CONFIG, 4, plain)
    assert list((tmp_path / "cs_basics").iterdir()) == []


def test_where_it_fails_this_process_compiles(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead_of_time, "COMPILER", "no_such_module")
    monkeypatch.setattr(ahead_of_time, "compile_if_possible", lambda function, _: [function])
    model = build_model(CONFIG)
    plain = make_loss_function(model, torch.float32)
    optimizer = OnePassAdamW(model.parameters())
    monkeypatch.setattr(optimizer, "compile", lambda _: None)
    with caplog.at_level("INFO"):
        assert compile_training(model, plain, optimizer, CONFIG, 4) == [plain]
    assert "no_such_module" in caplog.text


def test_another_version_of_torch_is_not_fatal_and_nothing_is_compiled_in_vain(monkeypatch):
    monkeypatch.delattr(torch._C._aoti, "AOTIModelPackageLoader")
    monkeypatch.setattr(ahead_of_time, "compiled_folder", None)
    model = build_model(CONFIG)
    with pytest.raises(NotCompiledError, match="AOTIModelPackageLoader"):
        CompiledLoss(model, CONFIG, 4, make_loss_function(model, torch.float32))


def test_a_folder_that_cannot_be_written_is_not_fatal(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file"))
    model = build_model(CONFIG)
    with pytest.raises(NotCompiledError, match="Not a directory"):
        CompiledLoss(model, CONFIG, 4, make_loss_function(model, torch.float32))


def test_a_user_without_a_name_has_a_folder(monkeypatch):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setattr("getpass.getuser", nobody)
    assert str(os.getuid()) in str(compiled_code_folder())


@pytest.mark.parametrize(
    ("change", "is_same"),
    [({"lr": 1.0}, True), ({"seed": 5}, True), ({"dtype": "bfloat16"}, False),
     ({"num_layers": 2}, False), ({"norm": "layernorm"}, False)],
)  # fmt: skip
def test_the_key_is_of_what_is_compiled(change, is_same):
    changed = dataclasses.replace(CONFIG, **change)
    assert (key(CONFIG, {"num_rows": 4}) == key(changed, {"num_rows": 4})) is is_same
    assert key(CONFIG, {"num_rows": 4}) != key(CONFIG, {"num_rows": 8})
