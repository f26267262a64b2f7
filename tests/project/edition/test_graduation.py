"""Whoever has written the examined definitions has a whole program: 100 of 100, and it trains."""

import json
import shutil
import zipfile

import pytest
from editions import ROOT, with_answers

SIZES = "--vocab-size 300 --context-length 16 --d-model 16 --d-ff 32 --num-layers 1 --num-heads 2"
LENGTHS = "--max-steps 12 --eval-every 6"
OTHERS = "--batch-size 4 --num-samples 1 --warmup-steps 2 --device cpu"
SMALL = f"{SIZES} {LENGTHS} {OTHERS}".split()
WRONG_SOFTMAX = '''

def softmax(x, dim):
    """Forget which axis is meant."""
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)
'''


@pytest.mark.slow
@pytest.mark.parametrize("filled", ["reference"], indirect=True)
def test_a_mistake_is_named_as_by_the_examination(filled, answers, sit, tmp_path):
    wrong = with_answers(shutil.copytree(filled, tmp_path / "wrong"), answers)
    module = wrong / "cs_basics" / "functional.py"
    module.write_text(module.read_text(encoding="utf-8") + WRONG_SOFTMAX, encoding="utf-8")
    optim = module.with_name("optim.py")
    source = optim.read_text(encoding="utf-8")
    optim.write_text(source.replace("0 <= beta < 1", "0 < beta < 1"), encoding="utf-8")
    files = ["tests/test_softmax.py", "tests/test_adamw.py"]
    at_home = sit(wrong, *files)
    # With "=": a path on its own would be one more place to look for conftest.py in.
    marked = sit(ROOT, *files, f"--submission={wrong}")
    assert any(row["diagnosis"] for row in at_home.values())
    # To say so it asks for other betas, and an oracle what is right then.
    assert any("they may be 0, too" in row["message"] for row in at_home.values())
    for item, row in at_home.items():
        assert (row["outcome"], row["diagnosis"]) == (
            marked[item]["outcome"],
            marked[item]["diagnosis"],
        )
        # Only where there are oracles can a message go on with the line to look at.
        assert marked[item]["message"].startswith(row["message"])


@pytest.mark.slow
def test_everything_runs(filled, inside, of_texts, tmp_path):
    training = ["train", "stories", *SMALL, *of_texts]
    clear, fast, zipped = tmp_path / "clear", tmp_path / "fast", tmp_path / "submission.zip"
    jobs = {
        "train": [*training, "--run-dir", str(clear), "--fast", "off"],
        "train, compiled": [*training, "--run-dir", str(fast), "--fast", "auto"],
        "account": ["account", "stories"],
        "package": ["package", "--out", str(zipped)],
    }
    ablation = ["--preset", "debug", "--max-steps", "1", *of_texts, "--out", str(tmp_path / "a")]
    refused = {
        "norm=layernorm": ["ablate", "norms", *ablation],
        "norm_eps=0.1": [*training, "--run-dir", str(tmp_path / "eps"), "--norm-eps", "0.1"],
        "tie_embeddings=True": ["train", "own-text", *of_texts, "--run-dir", str(tmp_path / "own")],
    }
    results = inside(filled, *({"argv": argv} for argv in [*jobs.values(), *refused.values()]))
    for name, finished in zip(jobs, results, strict=False):
        assert finished["code"] == 0, (name, finished)
    for setting, finished in zip(refused, results[len(jobs) :], strict=True):
        assert finished["code"] == 2, finished
        said = f"{setting} needs cs_basics/variants, which this edition leaves out"
        assert finished["err"].startswith(f"error: {said}")
        assert finished["err"].count("\n") == 1
    assert losses_of(fast) == pytest.approx(losses_of(clear), rel=3e-4)
    page = (clear / "page.html").read_text(encoding="utf-8")
    for module in ("norms", "attention", "layers", "transformer", "tokenizer", "functional"):
        assert f'"file":"cs_basics/{module}.py"' in page, module
    with zipfile.ZipFile(zipped) as archive:
        names = set(archive.namelist())
    ours = {f"cs_basics/{path.name}" for path in (filled / "cs_basics").glob("*.py")}
    assert names - ours <= {"tests/adapters.py", "README.md", "pyproject.toml", "conftest.py"} | {
        "Makefile", "LICENSE", "constraints.txt", "AGENTS.md",
    }  # fmt: skip
    assert ours | {"tests/adapters.py"} <= names


def losses_of(run_dir):
    """Training and validation losses in the order in which they were logged."""
    rows = map(json.loads, (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    names = ("train/loss", "val/loss", "final/loss")
    return [row[name] for row in rows for name in names if name in row]
