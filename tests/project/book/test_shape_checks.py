"""The shapes that the library's annotations claim are the shapes that it is called with.

Nothing checks them in use: the checker costs time at every call and breaks torch.compile, whose
tests therefore run in the pass without it. Here the examination runs once more with it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHECKER = "--jaxtyping-packages=cs_basics,shape_checker.checked"
# The tokenizer and its training hold no tensors.
WITHOUT_TENSORS = ("test_encoding", "test_train_bpe")
EXAMINED = [
    str(path)
    for path in sorted((ROOT / "tests").glob("test_*.py"))
    if not path.name.startswith(WITHOUT_TENSORS)
]


def run(*command):
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ
        | {
            "OMP_NUM_THREADS": "1",
            "PYTEST_ADDOPTS": "",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_examination_passes_with_shapes_and_types_checked():
    assert len(EXAMINED) > 10
    finished = run("-m", "pytest", "-q", "-p", "no:xdist", "-p", "jaxtyping", CHECKER, *EXAMINED)
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-2000:]


@pytest.mark.parametrize(
    ("call", "is_right"),
    [
        ("layers.Linear(3, 2)(torch.ones(5, 3))", True),
        ("layers.Linear(3, 2)(torch.ones(5, 4))", False),
        ("functional.silu(torch.arange(3))", False),
        (
            "functional.scaled_dot_product_attention(*map(torch.ones, [(4, 2), (5, 3), (5, 2)]))",
            False,
        ),
    ],
)
def test_checker_refuses_what_the_annotations_exclude(call, is_right):
    program = (
        "import torch\nfrom jaxtyping import install_import_hook\n"
        "with install_import_hook('cs_basics', 'beartype.beartype'):\n"
        "    from cs_basics import functional, layers\n" + call
    )
    finished = run("-c", program)
    if is_right:
        assert finished.returncode == 0, finished.stderr
    else:
        assert "jaxtyping.TypeCheckError" in finished.stderr
