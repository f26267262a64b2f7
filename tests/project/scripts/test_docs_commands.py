"""The commands of the pages: each one can be read, and those that take seconds are run in order."""

import importlib
import re
import runpy
import shlex
import sys

import pytest
from processes import ROOT, run

from cs_basics.run import corpus

PAGES = [
    "README",
    *(f"docs/{name}" for name in ("learn", "train", "teach", "performance", "norms")),
]
CODE = re.compile(r"^```\w*\n(.*?)^```|`([^`\n]+\n?[^`\n]+)`", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"(?:python|torchrun\b[^'\n]*?) (?:scripts/(?P<script>[\w/]+)\.py|-m (?P<module>[\w.]+))"
    r"(?P<flags>(?: [^\n#&':]*)?)"
)
MEANT = {
    "SUITE": "norms",
    "SUBJECT": "training",
    "$RUN": "run",
    "$RESUME": "--resume",
    "ENTRY": "entry",
}
QUICK = {
    *("account", "evaluate", "export", "generate", "import_llama", "microscope", "share", "train"),
}
SMALL = "--vocab-size 300 --context-length 32 --d-model 32 --d-ff 64 --num-layers 2 --num-heads 2"
TINY = f"{SMALL} --max-steps 2 --eval-every 1 --num-samples 1 --fast off".split()


def code_of(page):
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8").replace("\\\n", " ")
    for block, inline in CODE.findall(text):
        yield block or inline.replace("\n", " ")


def commands_of(page):
    for found in COMMAND.finditer("\n".join(code_of(page))):
        flags = [MEANT.get(flag, flag) for flag in shlex.split(found["flags"])]
        yield found["script"], found["module"], flags


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_can_be_read(page, script, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    cli = importlib.import_module("cli")
    monkeypatch.setattr(cli, "run", cli._read_flags)
    for name, module, flags in (commands := list(commands_of(page))):
        if name:
            script(name, *flags)
        elif module != "cs_basics":  # It is run in test_ending.py.
            monkeypatch.setattr(sys, "argv", [module, *flags])
            runpy.run_module(module, run_name="__main__")
    assert commands


@pytest.mark.parametrize("page", PAGES)
def test_every_target_of_a_page_can_be_made(page):
    targets = {t for code in code_of(page) for t in re.findall(r"^make ([a-z]\w*)", code, re.M)}
    is_of_students = page in {"docs/learn", "docs/teach"}
    folder = "scripts/instructor/starter/edition" if is_of_students else "."
    made = run("make", "--dry-run", "--makefile", f"{folder}/Makefile", *targets)
    assert made.returncode == 0, made.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README", "docs/learn", "docs/train"])
def test_quick_commands_run_in_the_order_of_the_page(page, succeeds, texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpus, "VALID_BYTES", 20_000)
    for path in texts:
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "my.txt").symlink_to(texts[0])
    make_train = ("train", None, ["stories"])
    for name, _, flags in [make_train, *commands_of(page)]:
        if name in QUICK and "tinystories" not in flags:  # It has its texts to be downloaded.
            more = [*TINY, "--corpus-megabytes", "0.1"] if name == "train" else []
            succeeds(name, *flags, *more)
