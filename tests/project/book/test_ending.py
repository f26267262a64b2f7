"""The ending of the book: from a text to a story, and what it asks for."""

import math
import re
import runpy
import sys

import pytest
import torch
from processes import ROOT

import cs_basics.__main__ as ending
from cs_basics.checkpoint import load_checkpoint
from cs_basics.functional import cross_entropy
from cs_basics.optim import AdamW
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM


@pytest.fixture
def two_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "my texts").mkdir()
    texts = [folder / "train.txt", folder / "valid.txt"]
    for text, count in zip(texts, (2000, 700), strict=True):
        text.write_text("A cat sat on \u00e9 mats.\r\n" * count, encoding="utf-8")
    return texts


def test_it_goes_from_a_text_to_a_story(two_texts, monkeypatch, capsys):
    sizes = {"CONTEXT_LENGTH": 16, "D_MODEL": 16, "NUM_LAYERS": 1, "NUM_HEADS": 2, "D_FF": 32}
    for name, value in {"UPDATES": 60, "BATCH_SIZE": 4, "VOCAB_SIZE": 300, **sizes}.items():
        monkeypatch.setattr(ending, name, value)
    torch.manual_seed(0)
    vocabularies = []
    monkeypatch.setattr(
        ending, "Tokenizer", lambda *given: vocabularies.append(given) or Tokenizer(*given)
    )
    ending.main([str(text) for text in two_texts])
    *updates, bits, story = capsys.readouterr().out.split("\n", 21)
    assert [int(re.match(r"update (\d+): loss \d", line)[1]) for line in updates] == [
        *range(3, 61, 3)
    ]
    assert story.strip()
    [given] = vocabularies
    model = TransformerLM(len(given[0]), *sizes.values())
    assert load_checkpoint("story.pt", model, AdamW(model.parameters())) == 60
    ids = Tokenizer(*given).encode("<|endoftext|>" + two_texts[1].read_bytes().decode())
    nats = 0.0
    for start in range(0, len(ids) - 1, 16):
        window = torch.tensor(ids[start : start + 17])
        nats += (len(window) - 1) * cross_entropy(model(window[:-1]), window[1:]).item()
    expected = nats / math.log(2) / len(two_texts[1].read_bytes())
    assert bits == f"{expected:.3f} bits per byte"
    first, last = (float(re.search(r"loss ([\d.]+)", updates[i])[1]) for i in (0, -1))
    assert last < first / 2


@pytest.mark.parametrize("given", [[], ["nowhere.txt"], ["empty.txt"], ["line.txt"], ["."]])
def test_it_says_in_a_line_what_it_asks_for(two_texts, tmp_path, monkeypatch, capsys, given):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "line.txt").write_text("Once upon a time.\n")
    for arguments in (given, [str(two_texts[0]), *given, *(["."] if not given else [])]):
        monkeypatch.setattr(sys, "argv", ["cs_basics", *arguments])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(ending.__file__, run_name="__main__")
        assert stopped.value.code == 2
        said = capsys.readouterr()
        [line] = said.err.splitlines()
        assert line.startswith("python -m cs_basics TEXT [VALID], texts of at least 10,000 bytes")
        assert line.endswith(f"not {arguments}")
        assert said.out == ""


def test_the_steps_of_the_page_work_in_a_notebook(texts, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "train.md").read_text(encoding="utf-8")
    section = page.partition("## From Python or a notebook\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 2
    assert sum(bool(line) for block in blocks for line in block.splitlines()) <= 25
    (tmp_path / "train.txt").write_bytes(texts[0].read_bytes())
    (tmp_path / "runs").mkdir()
    trained.rename(tmp_path / "runs" / "own-text")
    assert blocks[0].count("range(400)") == 1
    exec("\n".join(blocks).replace("range(400)", "range(2)"), {})
    *updates, story, more = capsys.readouterr().out.split("\n", 3)
    assert [line.startswith(f"Update(step={n}, loss=") for n, line in enumerate(updates, 1)] == [
        True, True
    ]  # fmt: skip
    assert story
    assert more
