"""Whole programs in other people's styles graduate: every point, and all the way to a browser.

Of two that combine several styles one each day for `make test ARGS="-m ''"`; each style by itself,
which takes some ten minutes:

    PROGRAMS=all make test ARGS="-m '' tests/project/edition/test_programs.py"
"""

import json
import os
import shutil

import pytest
from bank import patches
from editions import ROOT, with_answers
from test_graduation import SMALL, losses_of
from turns import todays

from cs_basics.settings.run import END_OF_TEXT

BANK = patches.read(ROOT / "tests" / "project" / "bank" / "programs.txt")
STYLES = {change.title: change.places for change in BANK}
COMBINED = [
    ["fuses matrices", "no class for RoPE", "generators", "dictionaries anew"],
    ["a module for each head", "wraps the tokenizer", "everything in the state dict", "nothing"],
]
PROMPT, NUM_TOKENS = "Once", "9"
WRITING = ["--prompt", PROMPT, "--max-tokens", NUM_TOKENS, "--temperature", "0"]


ALL = [[title] for title in STYLES]


@pytest.fixture(params=ALL if os.environ.get("PROGRAMS") == "all" else [None], ids=str)
def program(request, filled, answers, tmp_path):
    """The edition with a program of some styles in it."""
    folder = with_answers(shutil.copytree(filled, tmp_path / "program", symlinks=True), answers)
    for word in request.param or todays(COMBINED, 2)[0]:
        (places,) = (STYLES[title] for title in STYLES if word in title)
        patches.apply(places, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("filled", ["independent"], indirect=True)
def test_a_program_of_another_style_graduates(program, sit, inside, of_texts, tmp_path, chromium):
    transformers = pytest.importorskip("transformers", reason="needs the transformers package")
    rows = sit(program)
    assert {item: row["message"] for item, row in rows.items() if row["outcome"] != "passed"} == {}

    run, llama, page = (str(tmp_path / name) for name in ("run", "llama", "p.html"))
    training = ["train", "debug", *SMALL, "--max-steps", "100", *of_texts]
    jobs = {
        "rehearse": ["rehearse"],
        "train": [*training, "--run-dir", run],
        "evaluate": ["evaluate", run, "--text", of_texts[-1], "--json"],
        "export": ["export", run, "--out", llama],
        "share": ["share", run, "--exact", "--out", page],
        "generate": ["generate", run, *WRITING],
    }
    done = dict(
        zip(jobs, inside(program, *({"argv": argv} for argv in jobs.values())), strict=True)
    )
    assert {name: did for name, did in done.items() if did["code"] != 0} == {}
    loss = json.loads(done["evaluate"]["out"])["loss"]
    assert loss == pytest.approx(losses_of(tmp_path / "run")[-1], rel=1e-4)
    written = done["generate"]["out"].rstrip()
    assert written_by_transformers(transformers, llama) == written
    assert written_in(chromium, page) == written


def written_by_transformers(transformers, folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    prompt = tokenizer(f"{END_OF_TEXT}\n{PROMPT}", return_tensors="pt")
    ids = model.generate(**prompt, do_sample=False, max_new_tokens=int(NUM_TOKENS))
    return tokenizer.decode(ids[0], skip_special_tokens=True).strip()


def written_in(browser, page):
    browser.open(page)
    browser.run("return glass.opened.then(() => true)")
    for name, value in {"prompt": PROMPT, "temperature": "0", "maxTokens": NUM_TOKENS}.items():
        browser.run("document.getElementById(arguments[0]).value = arguments[1]", name, value)
    browser.click("#start")
    status = "return document.querySelector('#write .status').textContent"
    browser.wait(lambda: "per second" in browser.run(status))
    assert browser.log_entries("browser") == []
    return PROMPT + browser.run("return document.querySelector('#story').textContent").rstrip()
