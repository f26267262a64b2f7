"""Bad input to a script: one line that says what to do, exit code 2, and no file is touched."""

import shutil

import pytest
from processes import ROOT

from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.settings.presets import PRESETS
from cs_basics.tokenizer import Tokenizer

TEXTS = "--train-text text.txt --valid-text text.txt"
TRAIN = f"train debug {TEXTS} --run-dir new"
RESUME = "train debug --run-dir run --resume"
TOKENS = "train_tokenizer --text text.txt --out new --no-warn --vocab-size"
ENCODE = "encode --tokenizer tokenizer --no-warn"
ZIP = "instructor/make_gradescope --out new"
STORIES = "write_stories --out new --megabytes"
PRESETS_D_FF = PRESETS["debug"][1].model.d_ff

REFUSED = {
    "train stories --lrr 3": f"Unrecognized options: --lrr, 3. Perhaps you meant: --lr. See "
    f"{ROOT / 'scripts' / 'train.py'} stories --help",
    "train tales": "Available subcommands: debug, stories, own-text",
    "train stories --max-steps ten": "instantiated from ['ten']. See",
    "train stories --lr -1": "error: lr=-1.0 must be greater",
    "generate run --num-samples": "Missing value for argument '--num-samples'",
    "instructor/grade .": "/grade.py: --out PATH. See ",
    "instructor/make_starter --out new --solution new": "error: --solution new is --out, too",
    "instructor/make_starter --out run": "run exists",
    f"{ZIP} --minutes 0": "--minutes 0",
    f"{ZIP} --exam-seed 77": "--exam-seed 77",
    f"{ZIP} --only nothing": "--only nothing",
    f"{ZIP} --packages nowhere.txt": "nowhere.txt is not a file",
    f"{ZIP} --out text.txt/x/y.zip": "text.txt is not a folder",
    f"{TRAIN} --train-text none.txt": "none.txt does not exist",
    f"{TRAIN} --train-text wide.txt": "this converts it: iconv -f UTF-16",
    f"{TRAIN} --train-text short.txt": "fewer than one context",
    f"{TRAIN} --num-heads 5": "d_model=64 is not divisible by num_heads=5",
    f"{TRAIN} --device cuda": "device=cuda",
    f"{TRAIN} --run-dir text.txt": "text.txt is there already: choose another name",
    f"{TRAIN} --run-dir text.txt/x": "text.txt/x cannot be: a part of that path is a file",
    f"{TRAIN} --text text.txt": "--text is cut in two: leave out --train-text",
    "train debug --run-dir new --text none.txt": "none.txt does not exist: name a text by --text",
    "train debug --run-dir new --text tokenizer": "tokenizer is a folder: name a text file",
    "account nonsense": "there is no preset nonsense: use one of debug, stories",
    "download tinystories --out text.txt": "--out text.txt is a file: name a folder",
    "convert_tokenizer text.txt --out new": "text.txt: name a folder, a .json file or",
    "generate run --temperature -1": "temperature=-1.0 must be 0 (the likeliest token) or greater",
    "share run --out text.txt": "text.txt already exists: add --overwrite",
    "write_stories --megabytes 1 --out text.txt": "text.txt already exists: add --overwrite",
    "train debug --run-dir run": "run already holds a run: go on with it by --resume",
    f"{RESUME} --lr 0.5": "was started with lr=0.003",
    f"{RESUME} --d-ff 96": "was started with d_ff=64",
    f"{RESUME} --d-ff {PRESETS_D_FF}": "was started with d_ff=64",
    "generate none": "none holds no run",
    "evaluate . --text text.txt": ". holds no run",
    "generate run --top-p 0": "top_p=0",
    "generate run --num-samples 0": "num_samples=0",
    f"generate run --seed {2**63}": f"seed={2**63} must be 0",
    "share none --out new": "none holds no run",
    "share empty --out new": "holds no checkpoint",
    "share broken --out new": "damaged",
    "share run --out text.txt/in/a.html": "text.txt is not a folder",
    "export run --out tokenizer": "tokenizer already exists",
    "export run --out text.gguf": "text.gguf already exists",
    "export run --out new --dtype q8_0": "--dtype q8_0 is of a .gguf file",
    f"ablate positions --preset debug {TEXTS} --out .": "holds no ablation",
    f"{STORIES} 0": "megabytes=0",
    f"{STORIES} 1e303": "megabytes=1e+303 must be positive and at most 1,000,000",
    f"{STORIES} 1 --seed -3": "seed=-3",
    f"{TOKENS} 300 --text missing": "missing does not exist: name a text file",
    f"{TOKENS} 300 --text none": "none does not exist",
    f"{TOKENS} 300 --text empty.txt": "empty",
    f"{TOKENS} 200": "vocab_size=200",
    f"{TOKENS} 300 --out tokenizer": "--overwrite",
    f"{TOKENS} 300 --out text.txt": "is a file",
    f"{TOKENS} 300 --special-tokens a a": "empty or repeated",
    f"{ENCODE} --text tokenizer --out new": "folder",
    f"{ENCODE} --text text.txt --out new --tokenizer missing": "missing holds no vocab.json: give",
    f"{ENCODE} --text text.txt --out new --tokenizer broken/tokenizer": "is not a JSON file",
    f"{ENCODE} --text text.txt --out wide.txt": "--overwrite",
    f"{ENCODE} --text text.txt --out text.txt --overwrite": "is the text itself",
    f"{ENCODE} --text text.txt --out text.txt/new": "not a folder",
    f"{ENCODE} --text text.txt --out new --num-workers 0": "num_workers=0",
}


def content(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture
def place(trained, tmp_path, monkeypatch):
    """The working folder, with texts, a tokenizer, a run, and two that lack something."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (tmp_path / "text.txt").write_text("the cat sat<|endoftext|>on the mat\n" * 50)
    (tmp_path / "text.gguf").write_text("of another run")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "short.txt").write_text("Too short.")
    (tmp_path / "wide.txt").write_text("Once upon a time", encoding="utf-16")
    save_tokenizer(Tokenizer({i: bytes([i]) for i in range(256)}, []), tmp_path / "tokenizer")
    shutil.copytree(trained, tmp_path / "empty", ignore=shutil.ignore_patterns("*.pt"))
    shutil.copytree(trained, tmp_path / "broken")
    for path in (tmp_path / "broken").glob("checkpoints/*"):
        path.write_bytes(b"damaged")
    (tmp_path / "broken" / "tokenizer" / "vocab.json").write_text("{")
    return tmp_path


@pytest.mark.parametrize("command", REFUSED)
def test_bad_input_is_one_line_and_nothing_is_touched(refused, place, command):
    before = content(place)
    line = refused(*command.split())
    assert REFUSED[command] in line
    assert not set(line) & set("\u2502\u2500\u256d\u256f")
    assert content(place) == before
