"""The tokenizer benchmark: every contender does the same work; rows say what was measured."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from cs_basics.bpe import train_bpe
from cs_basics.run.tokenizer_folder import load_tokenizer, save_tokenizer
from cs_basics.tokenizer import Tokenizer

ROOT = Path(__file__).parents[3]
EOT = "<|endoftext|>"


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "maintain"))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(f"The cat sat, and  sat.\n{EOT}\nA caf\u00e9 in 1984!\n" * 50, newline="")
    return path


@pytest.fixture
def folder(tmp_path, text):
    save_tokenizer(Tokenizer(*train_bpe(text, 300, [EOT]), [EOT]), tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


@pytest.mark.parametrize("name", ["ours", "clear", "tokenizers", "tiktoken"])
def test_contenders_give_the_same_ids(benchmarks, text, folder, tmp_path, monkeypatch, name):
    if name in ("tokenizers", "tiktoken"):
        pytest.importorskip(name)
    monkeypatch.setenv("TOKENIZER_SCRATCH", str(tmp_path))
    module = benchmarks("tokenizer_contender")
    contender = module.CONTENDERS[name](1)
    contender.load(load_tokenizer(folder))
    expected = load_tokenizer(folder).encode(text.read_bytes().decode())
    documents = module.documents(str(text))
    assert len(documents) == 50
    in_documents = load_tokenizer(folder).encode("".join(documents))
    for found in (contender.documents(documents), contender.batch(documents)):
        assert [token_id for ids in found for token_id in ids] == in_documents
    contender.whole(str(text), str(tmp_path / "out"))
    header = 1024 if name == "ours" else 0
    ids = np.frombuffer((tmp_path / "out").read_bytes()[header:], np.uint16)
    assert ids.tolist() == expected
    assert contender.decode(expected).encode() == text.read_bytes()


def test_the_team_measures_in_turns_in_processes_of_their_own(benchmarks, text, folder, tmp_path):
    module = benchmarks("tokenizer")
    task = {"do": "documents", "text": str(text), "tokenizer": str(folder)}
    with module.Team(tmp_path, rounds=3) as team:
        times = team.times(["ours", "clear"], 1, task)
        assert set(times) == {"ours", "clear"}
        assert all(0 < seconds < 10 for seconds in times.values())
        assert 10 < team.peak_memory("ours", 1, task) < 2000
        with pytest.raises(ValueError, match="ours: the process ended early"):
            team.times(["ours"], 1, {"do": "raw", "text": "missing", "tokenizer": str(folder)})


def test_a_row_compares_speeds_and_states_the_goal(benchmarks, text, folder):
    texts = benchmarks("tokenizer_texts")
    found = benchmarks("tokenizer")._faster(
        "encode", texts.Text("tiny", text, folder), {"ours": 1.0, "tiktoken": 4.0}, tiktoken=3.0
    )
    (row,) = found
    assert (row.name, row.ratio, row.met) == ("encode, tiny (peer: tiktoken)", 4.0, True)
    assert row.ours == pytest.approx(text.stat().st_size / 1e6)


def test_the_picture_shows_speeds(benchmarks, tmp_path):
    measuring = benchmarks("measuring")
    rows = [
        measuring.compare("encode, tiny (peer: tiktoken)", 9.0, 3.0, "MB/s", at_least=3),
        measuring.compare("encode, tiny (peer: clear)", 9.0, 1.0, "MB/s"),
        measuring.Row("memory (peer: tokenizers)", 1.0, "MB", 2.0),
    ]
    benchmarks("tokenizer").draw(rows, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_is_json_with_the_rows_that_were_asked_for(benchmarks, script, monkeypatch):
    measuring, tokenizer = benchmarks("measuring"), benchmarks("tokenizer")
    row = measuring.compare("encode, tiny (peer: tiktoken)", 9.0, 3.0, "MB/s", at_least=3)
    monkeypatch.setattr(tokenizer, "measure", lambda: measuring.Report([row]))
    result = script("maintain/bench", "tokenizer", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["rows"] == [row.to_json()]
