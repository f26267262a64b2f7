"""The command lines: what they print and leave behind (bad input: test_refused.py)."""

import functools
import json
import os
import random
import re
import shlex
from pathlib import Path

import pytest
from processes import ROOT, python

from cs_basics.fast.attention import FusedAttention
from cs_basics.fast.text.tokenizer import FastTokenizer
from cs_basics.run import corpus
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics
from cs_basics.settings.presets import PRESETS

SCRIPTS = sorted(
    str(path.relative_to(ROOT / "scripts").with_suffix(""))
    for pattern in ("*.py", "instructor/*.py")
    for path in (ROOT / "scripts").glob(pattern)
    if "run(main)" in path.read_text()
)

TINY = shlex.split("""
    --vocab-size 300 --context-length 32 --d-model 32 --d-ff 64 --batch-size 4 --max-steps 20
    --warmup-steps 3 --eval-every 5 --num-samples 0 --no-page --device cpu --dtype float32
""")


@pytest.fixture
def tiny(of_texts, no_pictures, tmp_path):  # noqa: ARG001
    """How the tiny model is trained by the script."""
    return ["train", "debug", *of_texts, "--run-dir", tmp_path / "run", *TINY]


@pytest.fixture
def train(succeeds, tiny):
    """Train the tiny model."""
    return functools.partial(succeeds, *tiny)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_explains_every_option(succeeds, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")  # In a wider terminal there are two boxes in a line.
    arguments = ["debug", "--help"] if name in {"train", "account"} else ["--help"]
    result = succeeds(name, *arguments)
    options = re.split(r"^[│ ] (?=--\w)", result.out, flags=re.MULTILINE)[1:]
    assert options or name == "rehearse"  # It takes none.
    for option in options:
        # Below the option, or two spaces to the right; "(default: 1)" and "(required)" end it.
        invocation, explanation = re.split(r"\s{2,}", option.replace("│", " "), maxsplit=1)
        assert not explanation.startswith("("), invocation


def test_a_run_that_was_better_before_its_end_says_so(train, trained):
    note = {"checkpoint": "step-00000015.pt", "validation_loss": 0.5}
    RunFolder(trained).best.write_text(json.dumps(note))
    result = train("--resume")
    assert "overfitted: at step 15 the loss was 0.5000" in result.out


def test_a_text_that_ends_harder_than_it_begins_is_not_overfitting(
    train, texts, tmp_path, monkeypatch
):
    monkeypatch.setattr("cs_basics.run.trainer.EVAL_TOKENS", 400)
    noise = bytes(random.Random(0).choices(range(33, 127), k=20_000)).decode()
    mixed = tmp_path / "mixed.txt"
    mixed.write_text(Path(texts[1]).read_text() + noise)
    result = train("--valid-text", mixed, "--lr", "0.02")
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    parts = [row["val/loss"] for row in rows if "val/loss" in row]
    assert parts == sorted(parts, reverse=True)
    assert parts[0] < 0.97 * rows[-1]["final/loss"]
    assert "overfitted" not in result.out


def test_a_run_is_resumed_with_its_own_settings(train, succeeds, trained):
    assert "vocab_size=8192: the run keeps its tokenizer, of 300" in (
        train("--resume", "--vocab-size", "8192").out
    )
    more = ("--max-steps", "23", "--device", "cpu", "--num-samples", "2")
    succeeds("train", "debug", "--run-dir", trained, *more, "--resume")
    assert RunFolder(trained).all_checkpoints()[-1].name == "step-00000023.pt"
    # A flag that is given counts, even if its value is that of the preset.
    assert RunFolder(trained).read_config().run.num_samples == 2
    as_in_preset = str(PRESETS["debug"][1].run.num_samples)
    train("--resume", "--num-samples", as_in_preset)
    assert RunFolder(trained).read_config().run.num_samples == int(as_in_preset)


def test_a_prompt_may_hold_any_bytes(script, trained):
    # As Python has them where a terminal hands over bytes that are not UTF-8.
    written = script("generate", trained, "--max-tokens", "2", "--prompt", "caf\udce9")
    assert (written.code, written.out[:9]) == (0, "caf\\udce9")


def test_a_run_goes_on_with_texts_that_have_moved_and_not_with_others(
    succeeds, refused, trained, texts, tmp_path
):
    moved = [tmp_path / f"moved-{path.name}" for path in texts]
    for old, new in zip(texts, moved, strict=True):
        new.write_bytes(old.read_bytes())
    given = ("--train-text", moved[0], "--valid-text", moved[1], "--run-dir", trained, "--resume")
    succeeds("train", "debug", *given, "--max-steps", "21")
    moved[0].write_bytes(texts[0].read_bytes() + b"More.")
    assert "was encoded from" in refused("train", "debug", *given)


@pytest.mark.usefixtures("no_pictures")
def test_without_a_folder_the_next_free_one_is_taken(succeeds, of_texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [*of_texts, *TINY, "--max-steps", 1]
    for _ in range(2):
        succeeds("train", "debug", *given)
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["debug", "debug-2"]
    # The newest is resumed, wherever it stands in the numbering.
    Path("runs/debug-2").rename("runs/debug-4")
    succeeds("train", "debug", *given, "--resume", "--max-steps", 2)
    assert RunFolder(Path("runs/debug-4")).all_checkpoints()[-1].name == "step-00000002.pt"


def test_prompts_that_the_model_reads_otherwise_are_hinted_at(script, trained):
    write = ["generate", trained, "--max-tokens", "2", "--prompt"]
    assert "hint" not in script(*write, "Once upon").err
    assert "'Once upon ' ends in a blank" in script(*write, "Once upon ").err
    said = "<|user|> is no special token of this run"
    assert said in script(*write, "<|user|>Hi<|endoftext|>").err
    told = script(*write, "Once upon a time" * 100).err
    read = RunFolder(trained).read_config().model.context_length
    assert f"tokens, and the model reads the last {read}" in told


@pytest.mark.usefixtures("no_pictures")
def test_the_corpus_is_written_where_no_text_is_given(succeeds, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "VALID_BYTES", 20_000)  # All is evaluated at the end.
    folder = tmp_path / "run"
    sizes = ["--corpus-megabytes", "0.1"]
    succeeds("train", "debug", "--run-dir", folder, *TINY, *sizes, "--max-steps", 1)
    assert (folder / "corpus" / "train.txt").stat().st_size >= 100_000
    assert 20_000 <= (folder / "corpus" / "valid.txt").stat().st_size < 100_000


def test_wandb_offline_keeps_the_run_on_disk_without_a_login(train, tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    train("--max-steps", 1, "--wandb", "offline")
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*"))


def test_ctrl_c_while_the_text_is_prepared_keeps_what_is_done_and_says_how_to_go_on(
    script, succeeds, tiny, tmp_path, monkeypatch
):
    encode_file = corpus.encode_file

    def interrupted(tokenizer, text, out, **options):
        if out.name == "train.bin":
            raise KeyboardInterrupt
        return encode_file(tokenizer, text, out, **options)

    with monkeypatch.context() as patch:
        patch.setattr(corpus, "encode_file", interrupted)
        result = script(*tiny)
    assert result.code == 130
    assert result.err.splitlines()[-1] == "interrupted"
    done = tmp_path / "run" / "tokens" / "valid.bin"
    changed_ns = done.stat().st_mtime_ns
    *_, go_on = result.out.splitlines()
    succeeds("train", *shlex.split(go_on)[2:])
    assert done.stat().st_mtime_ns == changed_ns


@pytest.mark.usefixtures("no_pictures")
def test_more_merges_than_the_text_has_pairs_is_said_and_trained_with(succeeds, refused, tmp_path):
    text = tmp_path / "same.txt"
    text.write_text("ab " * 400)
    (other := tmp_path / "other.txt").write_text("ab " * 399)
    command = ["train", "debug", "--train-text", text, "--valid-text", other, *TINY]
    command += ["--run-dir", tmp_path / "run", "--max-steps", 1]
    result = succeeds(*command)
    assert RunFolder(tmp_path / "run").read_config().model.vocab_size < 300
    assert "300" in result.out + result.err
    succeeds(*command, "--resume")
    assert "vocab_size=257" in refused(*command, "--vocab-size", "257", "--resume")


def test_with_fast_off_the_book_writes_and_evaluates(succeeds, trained, texts, monkeypatch):
    commands = (
        ("generate", trained, "--seed", "1", "--max-tokens", "8", "--num-samples", "2"),
        ("evaluate", trained, "--text", texts[1], "--json", "--dtype", "float32"),
    )
    fast = [succeeds(*command).out for command in commands]
    monkeypatch.setattr("cs_basics.fast.decoding.generate_batch", None)
    monkeypatch.setattr(FusedAttention, "forward", None)
    monkeypatch.setattr(FastTokenizer, "encode", None)
    book = [succeeds(*command, "--fast", "off").out for command in commands]
    assert book[0] == fast[0]
    losses = [json.loads(out)["loss"] for out in (book[1], fast[1])]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.slow
def test_without_a_compiler_the_run_goes_on_uncompiled_and_says_so(tiny, tmp_path):
    environment = os.environ | {
        "CXX": str(tmp_path / "no-such-compiler"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
    }
    result = python("scripts/train.py", *tiny[1:], "--fast", "auto", env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("torch.compile does not work here, so the run is not compiled") == 1
    assert "kernel" not in result.stdout, "one cause, one line"
    assert "Traceback" not in result.stderr
