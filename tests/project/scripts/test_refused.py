"""Bad input to a script: one line that says what to do, exit code 2, and no file is touched."""

import contextlib
import gzip
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from processes import ROOT
from test_scripts import SCRIPTS

from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.settings.presets import PRESETS
from cs_basics.tokenizer import Tokenizer

TEXTS = "--train-text text.txt --valid-text text.txt"
TRAIN = f"train debug {TEXTS} --run-dir new"
RESUME = "train debug --run-dir run --resume"
TOKENS = "train_tokenizer --text text.txt --out new --vocab-size"
ENCODE = "encode --tokenizer tokenizer"
ZIP = "instructor/make_gradescope --out new"
STORIES = "write_stories --out new --megabytes"
NOBODY = 65534
PRESETS_D_FF = PRESETS["debug"][1].model.d_ff

FILES = {
    "missing": "none.txt", "empty": "empty.txt", "packed": "binary.txt",
    "unreadable": "locked.txt", "a folder": "folder",
}  # fmt: skip
RUNS = {
    "missing": "none", "empty": "folder", "binary": "damaged", "unreadable": "locked",
    "a file": "text.txt",
}  # fmt: skip
ASKED = {
    "ablate": {
        "reads": (FILES, "positions --valid-text text.txt --max-steps 3 --out new --train-text {}"),
        "writes": "positions --preset debug {texts} --max-steps 3 --out {}",
        "number": "positions --preset debug {texts} --out new --max-steps {}",
    },
    "account": {"number": "stories --batch-size {}"},
    "convert_tokenizer": {"reads": (FILES, "{} --out new"), "writes": "tokenizer --out {}"},
    "doctor": {"reads": (FILES, "--log {}")},
    "encode": {
        "reads": (FILES, "--tokenizer tokenizer --out new --text {}"),
        "writes": "--tokenizer tokenizer --text text.txt --out {}",
        "number": "--tokenizer tokenizer --text text.txt --out new --num-workers {}",
    },
    "evaluate": {
        "reads": (FILES, "run --text {}"), "number": "run --text text.txt --batch-size {}",
    },
    "export": {"reads": (RUNS, "{} --out new"), "writes": "run --out {}"},
    "generate": {"reads": (RUNS, "{}"), "number": "run --max-tokens {}"},
    "import_llama": {"reads": (RUNS, "{} --out new"), "writes": "llama --out {}"},
    "microscope": {
        "reads": (RUNS, "{}"), "writes": "run --out {}",
    },
    "package": {"reads": (RUNS, "--out new --root {}"), "writes": "--out {}"},
    "rehearse": {},
    "share": {"reads": (RUNS, "{} --out new"), "writes": "run --out {}"},
    "train": {
        "reads": (FILES, "debug --run-dir new --text {}"),
        "writes": "debug {texts} --run-dir {}",
        "number": "debug {texts} --run-dir new --lr {}",
    },
    "train_tokenizer": {
        "reads": (FILES, "--vocab-size 300 --out new --text {}"),
        "writes": "--text text.txt --vocab-size 300 --out {}",
        "number": "--text text.txt --out new --vocab-size {}",
    },
    "write_stories": {"writes": "--megabytes 1 --out {}", "number": "--out new --megabytes {}"},
    "instructor/grade": {
        "reads": (FILES, "{} --require-isolation process --out new"),
        "writes": "submissions --require-isolation process --out {}",
        "number": "submissions --out new --minutes {}",
    },
    "instructor/make_gradescope": {
        "reads": (FILES | {"empty": "none.txt"}, "--out new --packages {}"), "writes": "--out {}",
        "number": "--out new --minutes {}",
    },
    "instructor/make_starter": {"writes": "--out {}"},
    "instructor/verify": {
        "reads": (RUNS, "{} {texts}"),
        "number": "entry {texts} --seeds {}",
    },
}  # fmt: skip
"""What each script reads, writes and counts; {} is the value that is asked about."""


REFUSED = {
    "train stories --lrr 3": f"Unrecognized options: --lrr, 3. Perhaps you meant: --lr. See "
    f"{ROOT / 'scripts' / 'train.py'} stories --help",
    "train debug --lerning-rate 1": "--lerning-rate, 1. Perhaps you meant: --lr. See "
    f"{ROOT / 'scripts' / 'train.py'} debug --help",
    "train_tokenizer text.txt": "Missing from",
    "train tales": "The first word is one of: debug, stories, own-text",
    "train --run-dir run --no-resume": "The first word is one of: debug, stories",
    "train --text text.txt": "options: --text text.txt. The first word is one of: debug, stories",
    "train stories --max-steps ten": "instantiated from ['ten']. See",
    "generate run --num-samples": "Missing value for argument '--num-samples'",
    "instructor/grade .": "/grade.py: --out PATH. See ",
    "instructor/make_starter --out new --solution new": "error: --solution new is --out, too",
    "instructor/make_starter --out run": "run exists",
    f"{ZIP} --exam-seed 77": "--exam-seed 77",
    f"{ZIP} --only nothing": "--only nothing",
    f"{ZIP} --out text.txt/x/y.zip": "text.txt is not a folder",
    f"{TRAIN} --train-text wide.txt": "this converts it: iconv -f UTF-16",
    f"{TRAIN} --train-text short.txt": "fewer than one context",
    TRAIN: "text.txt is the same as the training text text.txt",
    "train debug --run-dir new --batch-size 4 --grad-accum-steps 3": "cannot be shared out",
    f"{TRAIN} --num-heads 5": "d_model=64 is not divisible by num_heads=5",
    f"{TRAIN} --device cuda": "device=cuda",
    f"{TRAIN} --run-dir text.txt": "text.txt is there already: choose another name",
    f"{TRAIN} --run-dir text.txt/x": "text.txt/x cannot be: a part of that path is a file",
    f"{TRAIN} --text text.txt": "--text is cut in two: leave out --train-text",
    "account stories --tokens-per-s 10": "tokens_per_s needs peak_tflops",
    "account stories --peak-tflops 1e300": "peak_tflops=1e+300",
    "account stories --peak-tflops 1 --tokens-per-s nan": "tokens_per_s=nan",
    "account stories --peak-tflops 1 --mfu 2": "mfu=2",
    "account nonsense": "The first word is one of: debug, stories",
    "convert_tokenizer text.txt --out new": "text.txt: name a folder, a .json file or",
    "generate run --temperature -1": "temperature=-1.0 must be 0 (the likeliest token) or greater",
    "share run --out text.txt": "text.txt already exists: add --overwrite",
    "write_stories --megabytes 1 --out text.txt": "text.txt already exists: add --overwrite",
    "train debug --run-dir run": "run already holds a run: go on with it by --resume",
    f"{RESUME} --lr 0.5": "was started with lr=0.003",
    f"{RESUME} --d-ff 96": "was started with d_ff=64",
    f"{RESUME} --d-ff {PRESETS_D_FF}": "was started with d_ff=64",
    "generate run --top-p 0": "top_p=0",
    f"generate run --seed {2**63}": f"seed={2**63} must be 0",
    "share unfinished --out new": "holds no checkpoint",
    "share unfinished --checkpoint best --out new": "holds no best checkpoint",
    "generate unfinished --checkpoint best": "holds no best checkpoint",
    "evaluate unfinished --checkpoint best --text text.txt": "holds no best checkpoint",
    "export unfinished --checkpoint best --out new": "holds no best checkpoint",
    "share run --out text.txt/in/a.html": "text.txt is not a folder",
    "export run --out tokenizer": "tokenizer already exists",
    "export run --out text.gguf": "text.gguf already exists",
    "export run --out new --dtype q8_0": "--dtype q8_0 is of a .gguf file",
    f"ablate positions --preset debug {TEXTS} --out .": "holds no ablation",
    f"{STORIES} 1e303": "megabytes=1e+303 must be positive and at most 1,000,000",
    f"{STORIES} 1 --seed -3": "seed=-3",
    f"{TOKENS} 300 --out tokenizer": "--overwrite",
    f"{TOKENS} 300 --out text.txt": "is a file",
    f"{TOKENS} 300 --special-tokens a a": "empty or repeated",
    f"{ENCODE} --text text.txt --out new --tokenizer missing": "missing holds no vocab.json: give",
    f"{ENCODE} --text text.txt --out wide.txt": "--overwrite",
    f"{ENCODE} --text text.txt --out text.txt --overwrite": "is the text itself",
    f"{ENCODE} --text text.txt --out text.txt/new": "not a folder",
}


def content(folder):
    """Return all that is there, to see that nothing has changed."""
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture
def place(trained, monkeypatch):
    """The working folder, with texts, a tokenizer, a run, and some that lack something."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    # Not pytest's, which nobody but its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        monkeypatch.chdir(folder)
        fill(folder, trained)
        yield folder
        monkeypatch.undo()


def fill(folder, trained):
    (folder / "text.txt").write_text("the cat sat<|endoftext|>on the mat\n" * 50)
    (folder / "text.gguf").write_text("of another run")
    (folder / "empty.txt").touch()
    (folder / "short.txt").write_text("Too short.")
    (folder / "wide.txt").write_text("Once upon a time", encoding="utf-16")
    (folder / "binary.txt").write_bytes(gzip.compress(bytes(range(256))))
    save_tokenizer(Tokenizer({i: bytes([i]) for i in range(256)}, []), folder / "tokenizer")
    for name in ("run", "damaged", "locked"):
        shutil.copytree(trained, folder / name)
    shutil.copytree(trained, folder / "unfinished", ignore=shutil.ignore_patterns("*.pt"))
    for path in (folder / "damaged").glob("checkpoints/*"):
        path.write_bytes(b"damaged")
    (folder / "damaged" / "tokenizer" / "vocab.json").write_text("{")
    for name in ("folder", "submissions", "entry", "llama", "sealed"):
        (folder / name).mkdir()
    (folder / "locked.txt").write_text("the cat sat\n" * 50)
    for name in ("locked.txt", "locked/config.json"):
        (folder / name).chmod(0)
    (folder / "submissions" / "alice").mkdir()
    (folder / "submissions" / "alice" / "silu.py").write_text("x = 1")
    (folder / "sealed").chmod(0o555)


@pytest.mark.parametrize("command", REFUSED)
def test_bad_input_is_one_line_and_nothing_is_touched(refused, place, command):
    before = content(place)
    line = refused(*command.split())
    assert REFUSED[command] in line
    assert not set(line) & set("\u2502\u2500\u256d\u256f")
    assert content(place) == before


def questions(script):
    """Yield each kind of bad input to a script: its name, the command line and the value."""
    asked = ASKED[script]
    inputs, reads = asked.get("reads", ({}, ""))
    for kind, value in inputs.items():
        yield kind, reads, value
    if "writes" in asked:
        yield "read-only", asked["writes"], "sealed/new"
    if "number" in asked:
        yield "negative", asked["number"], "-7"
    known = reads or asked.get("writes") or asked.get("number", "")
    yield "unknown flag", known.replace("{}", "7") + " {}", "--nonsense"


@contextlib.contextmanager
def as_a_user():
    """Take from root what it may do: to read and write whatever there is."""
    is_root = os.getuid() == 0
    if is_root:
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        if is_root:
            os.setresuid(0, 0, 0)


def test_each_script_is_asked():
    assert ASKED.keys() == {*SCRIPTS} - {"ablation_run"}  # Which ablate.py starts, and no user.


@pytest.mark.parametrize("script_name", ASKED)
def test_each_kind_of_bad_input_is_one_line_and_nothing_is_touched(script, script_name, place):
    wrong = []
    before = content(place)
    for kind, command, value in questions(script_name):
        with as_a_user() if kind in {"unreadable", "read-only"} else contextlib.nullcontext():
            done = script(script_name, *command.format(value, texts=TEXTS).split())
        lines = [line for line in done.err.splitlines() if not line.startswith("warning: ")]
        is_one = len(lines) == 1 and lines[0].startswith("error: ") and value in lines[0]
        if done.code != 2 or not is_one or content(place) != before:
            wrong.append((kind, done.code, lines[-3:], set(content(place)) ^ set(before)))
            for path in set(content(place)) - set(before):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    assert not wrong, "\n".join(map(str, wrong))
