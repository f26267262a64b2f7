"""The source is read by what names stand for, and a call is charged to one problem."""

import time

import pytest
from files import write_files
from processes import ROOT, python
from report import RUBRIC

from cs_grader.rules.check import check_apart, check_source
from cs_grader.rules.findings import findings
from cs_grader.rules.names import group_of
from cs_grader.sandbox.forbidden import KERNELS
from cs_grader.sandbox.ledger import Entry

ADAPTERS = {problem: entry["adapters"] for problem, entry in RUBRIC.items()}


def read(model, adapters="from student.model import *", **more):
    files = {"student/__init__.py": "", "student/model.py": model, "tests/adapters.py": adapters}
    return check_source(files | more, ADAPTERS)


def reviewed(policy):
    return [(finding.operator, finding.file, finding.line) for finding in policy.review]


SILU = "def run_silu(in_features):\n    return "


# What is imported, and how SiLU is called then.
NAMES = """
import torch | torch.nn.functional.silu(in_features)
import torch.nn.functional as F | F.silu(in_features)
from torch.nn import functional | functional.silu(in_features)
from torch.nn.functional import silu as act | act(in_features)
from torch.nn.functional import * | silu(in_features)
import torch; F = torch.nn.functional | F.silu(in_features)
import torch; act = torch.nn.functional.silu | act(in_features)
import torch | getattr(torch.nn.functional, 'silu')(in_features)
import importlib | importlib.import_module('torch.nn').SiLU()(in_features)
from torch import nn | nn.SiLU()(in_features)
import torch | torch.ops.aten.silu.default(in_features)
import torch | torch._C._nn.silu(in_features)
from torch.nn.modules.activation import SiLU | SiLU()(in_features)
import torch, functools | functools.partial(torch.nn.functional.silu)(in_features)
import torch | (lambda: torch.nn.functional.silu)()(in_features)
import math as F; import torch.nn.functional as F | F.silu(in_features)
from math import *; from torch.nn.functional import * | silu(in_features)
import torch | [f := torch.nn.functional, f.silu(in_features)]
""".strip().splitlines()


@pytest.mark.parametrize(
    "line",
    [
        *NAMES,
        "try:\n    from torch.nn.functional import silu\n"
        "except ImportError:\n    silu = None | silu(in_features)",
    ],
)
def test_every_name_of_a_forbidden_operator_is_found(line):
    imports, use = line.split(" | ")
    policy = read("", f"{imports}\n\n{SILU}{use}\n")
    assert {finding.problem for finding in policy.named} == {"silu"}
    assert {group_of(finding.operator) for finding in policy.named} == {"silu"}
    assert {finding.file for finding in policy.named} == {"tests/adapters.py"}
    assert imports.count("\n") + 4 in [finding.line for finding in policy.named]


@pytest.mark.parametrize(
    "source",
    [
        "# torch.nn.functional.silu\n" + SILU + "in_features",
        SILU + "'torch.nn.functional.silu' and in_features",
        "class SiLU:\n    pass\n\n" + SILU + "SiLU()",
        "import torch\n\n" + SILU + "in_features * torch.sigmoid(in_features)",
        "class F:\n    @staticmethod\n    def silu(x):\n        return x\n\n" + SILU + "F.silu(1)",
        "import torch.nn.functional as F\n\n"
        "def run_silu(in_features, F=None):\n    return F.silu(in_features)",
        "from torch import nn\n\ndef run_silu(in_features: nn.SiLU) -> nn.SiLU:\n    return 1",
        "from torch import nn\n\n" + SILU + "isinstance(in_features, nn.SiLU)",
        "import torch\n\ndef unused(x):\n    return torch.nn.functional.silu(x)\n\n" + SILU + "1",
        # Whether x is a tensor only running it tells.
        "def run_softmax(x, dim):\n    return x.softmax(dim)",
    ],
)
def test_what_only_looks_like_a_forbidden_operator_is_left_alone(source):
    policy = read("", source + "\n")
    assert policy.named == ()
    assert policy.review == ()


MODEL = """
import tiktoken, torch

def softmax(x, dim):
    return torch.softmax(x, dim)

def attention(q, k, v):
    return softmax(q @ k, -1) @ v

def other_attention(q, k, v):
    return torch.softmax(q @ k, -1) @ v

class Norm(torch.nn.Module):
    def forward(self, x):
        return torch.rms_norm(x, (4,))

def make():
    return tiktoken.get_encoding("gpt2")
"""
CALLS = """
from student import model

def run_softmax(x, dim):
    return model.softmax(x, dim)

def {adapter}(*given):
    return model.{name}(*given)
"""
SOFTMAX = ("softmax", "torch.softmax", 5)
CHARGED = [
    ("run_scaled_dot_product_attention", "attention", []),
    (
        "run_scaled_dot_product_attention",
        "other_attention",
        [("scaled_dot_product_attention", "torch.softmax", 11)],
    ),
    ("run_rmsnorm", "Norm", [("rmsnorm", "torch.rms_norm", 15)]),
    ("get_tokenizer", "make", [("tokenizer", "tiktoken.get_encoding", 18)]),
]


@pytest.mark.parametrize(("adapter", "name", "more"), CHARGED)
def test_a_call_is_charged_where_it_is_to_the_first_problem_that_leads_to_it(adapter, name, more):
    """Each is charged with its own; what is built from another is not."""
    named = read(MODEL, CALLS.format(adapter=adapter, name=name)).named
    assert {finding.file for finding in named} == {"student/model.py"}
    found = [(finding.problem, finding.operator, finding.line) for finding in named]
    assert sorted(found) == sorted([SOFTMAX, *more])


# What is to be reviewed, and the code.
ATTEMPTS = """
gc.get_objects | import gc; gc.get_objects()
gc.get_referrers | from gc import get_referrers as g; g(1)
torch.library.Library | import torch.library; torch.library.Library
ctypes.string_at | import ctypes; ctypes.string_at(0)
sys._getframe | import sys; sys._getframe()
inspect.stack | import inspect; inspect.stack()
sys.meta_path.pop | import sys; sys.meta_path.pop(0)
importlib.reload | import importlib; importlib.reload(importlib)
__wrapped__ | import functools; f = functools.cache(len); f.__wrapped__()
builtins.exec | exec('1')
builtins.eval | e = eval; e('1')
builtins.compile | compile('1', '', 'exec')
builtins.__import__ | __import__('torch')
importlib.import_module | import importlib; importlib.import_module(chr(3))
torch | import torch; getattr(torch, chr(3))
torch.library | import torch; vars(torch.library)['Library']
torch.__dict__ | import torch; torch.__dict__['library']
torch.nn.functional.silu | import torch; torch.nn.functional.silu = None
torch | import torch; setattr(torch, 'softmax', None)
math.isclose | import math; math.isclose = None
sys.modules | import sys; sys.modules['torch.nn'] = None
__code__ | f = lambda: 1; f.__code__
__code__ | f = lambda: 1; getattr(f, "__code__")
tb_frame | def g(e): return e.__traceback__.tb_frame
subprocess.run | import subprocess; subprocess.run(['true'])
dill.loads | import dill; dill.loads(b'')
importlib.__import__ | import importlib; importlib.__import__('tik' + 'token')
logging.sys.modules | import logging; logging.sys.modules['torch.nn'] = 1
torch.utils.data.dataloader.torch.library.Library | \
import torch.utils.data; torch.utils.data.dataloader.torch.library.Library
sys | import sys; getattr(sys, '_get' + 'frame')()
pkgutil.resolve_name | import pkgutil; pkgutil.resolve_name('tik' + 'token')
importlib.machinery.SourceFileLoader | \
from importlib.machinery import SourceFileLoader as L; L('x', 'x.txt')
cs_grader.sandbox.blocked._C | from cs_grader.sandbox import blocked as b; b._C
torch._decomp.decompositions | import torch; torch._decomp.decompositions
torch.utils.cpp_extension.load_inline | \
from torch.utils.cpp_extension import load_inline as l; l()
""".strip().splitlines()


@pytest.mark.parametrize("line", ATTEMPTS)
def test_attempts_to_undo_the_block_are_left_for_review(line):
    operator, code = line.split(" | ")
    policy = read(code + "\n", "import student.model\n")
    assert operator in [name for name, _, _ in reviewed(policy)]
    assert {file for _, file, _ in reviewed(policy)} == {"student/model.py"}
    assert {finding.rule for finding in policy.review} == {"needs review"}


ORDINARY = """
import torch; model = torch.nn.Module(); model.eval(); model.compile()
import re; PATTERN = re.compile('x')
import torch; f = torch.compile(len)
import torch; torch.backends.cuda.matmul.allow_tf32 = True
import os; os.environ['OMP_NUM_THREADS'] = '1'
import torch; torch.set_default_dtype(torch.float32)
import inspect; inspect.signature(len)
import gc; gc.disable(); gc.collect()
import pickle; pickle.loads(b'')
import os; getattr(os, 'O_BINARY', 0); os.path.sep
import torch; torch._foreach_mul_([], 1)
import multiprocessing; multiprocessing.cpu_count()
import importlib.metadata; importlib.metadata.version('student')
""".strip().splitlines()


@pytest.mark.parametrize(
    "code", [*ORDINARY, "class A:\n    pass\nA.x = 1\ngetattr(A, 'y' + 'z', None)"]
)
def test_ordinary_code_needs_no_review(code):
    assert read(code + "\n", "import student.model\n").review == ()


def test_file_that_no_adapter_imports_needs_no_review():
    policy = read("", "import student.model\n", **{"scripts/plot.py": "exec('1')\n"})
    assert policy.review == ()


@pytest.mark.parametrize(
    "name",
    [
        "torch.nn.functional.one_hot",
        "torch.onnx.ops.rotary_embedding",
        "torch._higher_order_ops.flex_attention.math_attention",
        "_imp.create_dynamic",
        "numpy.testing.runstring",
    ],
)
def test_what_may_hold_a_solution_is_noted_and_costs_nothing(name):
    policy = read("", f"import {name.partition('.')[0]}\n\n\n{SILU}{name}(in_features)\n")
    assert policy.named == ()
    assert [name for name, _, _ in reviewed(policy)] == [name]


def test_source_that_takes_the_memory_of_the_grader_is_left_for_review():
    files = {"tests/adapters.py": "import long\n", "tests/long.py": f"X = [{'1,' * 200_000}]\n"}
    policy = check_apart(files, ADAPTERS, memory_bytes=64 * 2**20)
    (finding,) = policy.review
    assert "too long" in finding.message


def test_layouts_of_real_repositories_are_followed():
    files = {
        "src/basics/__init__.py": "from .layers import Act\n",
        "src/basics/layers.py": "from . import acts\n\n\nclass Act:\n    f = acts.silu\n",
        "src/basics/acts.py": "from torch.nn.functional import silu\n",
        "tests/__init__.py": "",
        "tests/common.py": "from basics import Act as Activation\n",
        "tests/adapters.py": "from .common import Activation\n\n\n" + SILU + "Activation()\n",
    }
    (finding,) = check_source(files, ADAPTERS).named
    # Told where it is imported: nothing else in that file uses it.
    assert (finding.file, finding.line) == ("src/basics/acts.py", 1)


def test_circular_imports_end():
    files = {
        "a.py": "from b import *\nfrom b import x as y\n",
        "b.py": "from a import *\nfrom a import y as x\n",
        "tests/adapters.py": "from a import *\nfrom b import x\n\n\n" + SILU + "x(z)\n",
    }
    assert check_source(files, ADAPTERS).named == ()


# --- after the examination ---


CALL = Entry("forbidden", "torch.softmax", "tests/adapters.py", 5)


def found(*calls, examined=("softmax",), failed=("softmax",)):
    policy = read(
        "", "import torch\n\n\ndef run_softmax(x, dim):\n    return torch.softmax(x, dim)\n"
    )
    return findings(policy, [("softmax", call) for call in calls], examined, failed)


def test_forbidden_call_is_reported_with_its_place():
    (finding,) = found(CALL, CALL)
    assert (finding.rule, finding.problem) == ("forbidden", "softmax")
    assert (finding.operator, finding.file, finding.line) == CALL[1:]


def test_forbidden_call_without_a_place_is_reported_where_it_is_named():
    (finding,) = found(Entry("forbidden", "torch.softmax", "", 0))
    assert (finding.file, finding.line) == ("tests/adapters.py", 5)


@pytest.mark.parametrize(
    ("calls", "words"), [([], "was not called"), ([CALL], "the code went on without it")]
)
def test_forbidden_operator_that_cost_nothing_is_left_for_review(calls, words):
    (finding,) = found(*calls, failed=())
    assert finding.rule == "needs review"
    assert words in finding.message


def test_problem_that_was_not_examined_has_no_findings():
    assert found(examined=["silu"]) == ()


# --- all of it ---


def test_every_operator_belongs_to_its_group():
    for group, operators in KERNELS.items():
        for public_name in operators.values():
            assert group_of(public_name) == group
    assert group_of("torch.sigmoid") is None
    assert group_of("student.softmax") is None


def test_reference_passes_its_own_policy():
    files = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in [*(ROOT / "cs_basics").glob("*.py"), ROOT / "tests" / "adapters.py"]
    }
    policy = check_source(files, ADAPTERS)
    assert (policy.named, policy.review) == ((), ())


def test_library_check_says_file_and_line(tmp_path):
    files = {
        "layers.py": "import torch\n\n\nx = torch.nn.functional.one_hot\n",
        "fast/norms.py": "import torch\n\n\ndef f(x):\n    torch.rms_norm(x, (1,))\n",
        "fast/native/norms.py": "import torch\n\n\ndef f(x):\n    torch.rms_norm(x, (1,))\n",
    }
    finished = python("-m", "cs_grader.rules", write_files(tmp_path / "library", files))
    assert finished.returncode == 1
    said = finished.stderr.splitlines()
    assert [line.partition(" is n")[0] for line in said] == [
        "library/fast/norms.py:5: torch.rms_norm",
        "library/layers.py:4: torch.nn.functional.one_hot",
    ]


@pytest.mark.parametrize(
    "text", ["(" * 100_000, "x = " + "-" * 200_000 + "1", "x" + ".y" * 50_000, "\0", "if:\n"]
)
def test_source_that_crashes_a_parser_is_survived(text):
    started = time.monotonic()
    policy = check_apart({"tests/adapters.py": text}, ADAPTERS)
    assert policy.named == ()
    assert time.monotonic() - started < 40


def test_reading_apart_says_the_same():
    files = {"tests/adapters.py": "import torch, gc\n\n\n" + SILU + "torch.nn.SiLU(gc.collect)\n"}
    assert check_apart(files, ADAPTERS) == check_source(files, ADAPTERS)


def test_reading_that_takes_too_long_is_left_for_review(monkeypatch):
    monkeypatch.setattr("cs_grader.rules.check.TIMEOUT_S", 1e-6)
    policy = check_apart({"tests/adapters.py": "x = 1\n"}, ADAPTERS)
    (finding,) = policy.review
    assert "takes longer" in finding.message
