"""The shapes that the library's annotations claim are the shapes that it is called with.

Nothing checks them in use: the checker costs time at every call and breaks torch.compile, whose
tests therefore run in the pass without it. Here the examination runs once more with it.
"""

import os
from pathlib import Path

import pytest
from processes import ROOT, python

# The tokenizer and its training hold no tensors.
WITHOUT_TENSORS = ("test_tokenizer", "test_train_bpe")
EXAMINED = [
    str(path)
    for path in sorted((ROOT / "tests").glob("test_*.py"))
    if not path.name.startswith(WITHOUT_TENSORS)
]


@pytest.mark.slow
def test_examination_passes_with_shapes_and_types_checked():
    options = ["-q", "-p", "no:xdist", "-p", "jaxtyping"]
    checker = "--jaxtyping-packages=cs_basics,shape_checker.checked"
    environment = {
        "OMP_NUM_THREADS": "1",
        "PYTEST_ADDOPTS": "",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    finished = python("-m", "pytest", *options, checker, *EXAMINED, env=os.environ | environment)
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-2000:]
