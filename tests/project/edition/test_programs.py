"""Whole programs in other people's styles graduate: every point, and all the way to a browser.

Two that combine several styles for `make test ARGS="-m ''"`; each by itself, which takes half an
hour:

    PROGRAMS=all make test ARGS="-m '' tests/project/edition/test_programs.py"
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import patches
import pytest
from editions import ROOT, plain_environment, with_answers
from test_graduation import SMALL, losses_of

from cs_basics.run.config import END_OF_TEXT

STYLES = [
    change
    for change in patches.read(ROOT / "tests" / "project" / "bank" / "programs.txt")
    if change.kind == "a program"
]
COMBINED = [
    ["fuses matrices", "no class for RoPE", "generators", "dictionaries anew"],
    ["a module for each head", "wraps the tokenizer", "everything in the state dict", "nothing"],
]
CHOSEN = [[style.title] for style in STYLES] if os.environ.get("PROGRAMS") == "all" else COMBINED
PROMPT, NUM_TOKENS = "Once", 9
STEPS = ["--max-steps", "200", "--checkpoint-every", "40", "--eval-every", "200"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("filled", ["independent"], indirect=True),
    pytest.mark.parametrize("words", CHOSEN, ids=" and ".join),
]


@pytest.fixture
def program(words, filled, answers, tmp_path):
    """The edition with a program of these styles in it."""
    folder = with_answers(shutil.copytree(filled, tmp_path / "program", symlinks=True), answers)
    for word in words:
        (style,) = (style for style in STYLES if word in style.title)
        patches.apply(style.places, folder)
    return folder


@pytest.fixture
def kill():
    """Start a script and kill it as soon as there is a certain file."""

    def start(folder, path, name, *arguments):
        command = [sys.executable, f"scripts/{name}.py", *arguments]
        with subprocess.Popen(command, cwd=folder, env=plain_environment()) as process:
            while process.poll() is None and not path.exists():
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL

    return start


def test_a_program_of_another_style_graduates(
    program, sit, inside, kill, texts, tmp_path, chromium
):
    transformers = pytest.importorskip("transformers", reason="needs the transformers package")
    rows = sit(program)
    assert {item: row["message"] for item, row in rows.items() if row["outcome"] != "passed"} == {}

    whole, killed, llama = (tmp_path / name for name in ("whole", "killed", "llama"))
    page = tmp_path / "page.html"
    train, valid = map(str, texts)
    training = ["train", "debug", *SMALL, *STEPS, "--train-text", train, "--valid-text", valid]
    first = killed / "checkpoints" / "step-00000040.pt"
    kill(program, first, *training, "--run-dir", str(killed))
    writing = ["--prompt", PROMPT, "--temperature", "0", "--max-tokens", str(NUM_TOKENS)]
    jobs = {
        "rehearse": ["rehearse"],
        "train": [*training, "--run-dir", str(whole)],
        "resume": ["train", "debug", "--run-dir", str(killed), "--resume"],
        "evaluate": ["evaluate", str(killed), "--text", valid, "--json"],
        "export": ["export", str(killed), "--out", str(llama)],
        "share": ["share", str(killed), "--exact", "--out", str(page)],
        "generate": ["generate", str(killed), *writing],
    }
    done = dict(
        zip(jobs, inside(program, *({"argv": argv} for argv in jobs.values())), strict=True)
    )
    assert {name: did for name, did in done.items() if did["code"] != 0} == {}
    # torch loads whatever an optimizer keeps in float64 as float32.
    assert losses_of(killed)[-1] == pytest.approx(losses_of(whole)[-1], rel=1e-4)
    loss = json.loads(done["evaluate"]["out"])["loss"]
    assert loss == pytest.approx(losses_of(killed)[-1], rel=1e-5)
    written = done["generate"]["out"].rstrip()
    assert written_by_transformers(transformers, llama) == written
    assert written_in(chromium, page) == written


def written_by_transformers(transformers, folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    prompt = tokenizer(f"{END_OF_TEXT}\n{PROMPT}", return_tensors="pt")
    ids = model.generate(**prompt, do_sample=False, max_new_tokens=NUM_TOKENS)
    return tokenizer.decode(ids[0], skip_special_tokens=True).strip()


def written_in(browser, page):
    browser.open(page)
    browser.run("return glass.opened.then(() => true)")
    for name, value in {"prompt": PROMPT, "temperature": 0, "maxTokens": NUM_TOKENS}.items():
        browser.run("document.getElementById(arguments[0]).value = arguments[1]", name, value)
    browser.click("#start")
    status = "return document.querySelector('#write .status').textContent"
    browser.wait(lambda: "per second" in browser.run(status))
    assert browser.log_entries("browser") == []
    return PROMPT + browser.run("return document.querySelector('#story').textContent").rstrip()
