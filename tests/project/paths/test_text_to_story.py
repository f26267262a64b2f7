"""From a text to a story, stopped on the way and resumed; to others' format, and back from there.

Each step is a command of docs/train.md, and begins with what the one before has left.
"""

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics
from cs_basics.run.trainer import Trainer

TINY = shlex.split("""
    --vocab-size 300 --context-length 32 --d-model 32 --d-ff 64 --batch-size 4 --max-steps 20
    --num-kv-heads 2 --warmup-steps 3 --eval-every 5 --num-samples 0 --device cpu --dtype float32
""")


@pytest.fixture
def stopped_at_8(monkeypatch):
    """Let whoever watches a run want it to stop while update 8 is made."""
    next_batch = Trainer.next_batch

    def next_batch_and_stop(self):
        if self.step + 1 == 8:
            os.kill(os.getpid(), signal.SIGTERM)
        return next_batch(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "next_batch", next_batch_and_stop)
        yield patch


@pytest.mark.usefixtures("no_pictures")
def test_a_text_becomes_a_story_here_and_elsewhere(
    script, succeeds, stopped_at_8, texts, of_texts, tmp_path
):
    run, llama, back = (tmp_path / name for name in ("run", "llama", "back"))
    stopped = script("train", "debug", *of_texts, "--run-dir", run, *TINY)
    assert stopped.code == 128 + signal.SIGTERM
    assert "stopped by SIGTERM after step 8, and saved; go on by" in stopped.out
    python, _, *go_on = shlex.split(stopped.out.splitlines()[-1])
    assert Path(python).absolute() == Path(sys.executable)
    assert go_on == ["--run-dir", str(run), "--resume"]
    assert RunFolder(run).all_checkpoints()[-1].name == "step-00000008.pt"

    stopped_at_8.undo()
    trained = succeeds("train", *go_on).out
    for expected in (
        "bits per byte", "step     20", str(run / "report.html"), str(run / "page.html"),
        "scripts/generate.py",
    ):  # fmt: skip
        assert expected in trained
    assert "overfitted" not in trained

    written = succeeds("generate", run, "--prompt", "Once upon a time", "--max-tokens", "20").out
    assert written.startswith("Once upon a time")
    asked = ["--prompt", "One day", "The", "--num-samples", "2", "--max-tokens", "9", "--seed", "5"]
    alone = succeeds("generate", run, *asked).out
    assert succeeds("generate", run, *asked, "--batch-size", "3").out == alone
    assert alone.count("---") == 8

    measure = ["--text", texts[1], "--dtype", "float32"]
    row = json.loads(succeeds("evaluate", run, *measure, "--json").out)
    last = read_metrics(run / "metrics.jsonl")[-1]
    assert row["loss"] == pytest.approx(last["final/loss"], rel=1e-5)
    assert row["bits_per_byte"] == pytest.approx(last["final/bits_per_byte"], rel=1e-5)
    assert row["tokens_per_s"] > 0
    told = succeeds("evaluate", run, *measure).out
    assert f"bits per byte  {row['bits_per_byte']:.4f}" in told

    exported = succeeds("export", run, "--out", llama)
    assert 'pipeline("text-generation"' in exported.out
    assert exported.err == ""
    more = ["--context-length", "32", *of_texts, "--max-steps", "3"]
    assert succeeds("import_llama", llama, "--out", back, *more).err == ""
    assert succeeds("generate", back, *asked).out == alone
    again = json.loads(succeeds("evaluate", back, *measure, "--json").out)
    assert again["loss"] == pytest.approx(row["loss"], rel=1e-5)
    further = ["--device", "cpu", "--fast", "off", "--num-samples", "1"]
    succeeds("train", "stories", "--run-dir", back, "--resume", *further)
    assert RunFolder(back).all_checkpoints()[-1].name == "step-00000003.pt"
