"""Damaged files, each through the command that reads it: one line names it, nothing is touched."""

import json
import os
import shutil
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cs_basics.interop.llama import export_llama
from cs_basics.run.folder import RunFolder
from cs_basics.run.json_file import MAX_DESCRIPTION_BYTES
from cs_basics.run.token_file import MAGIC

COMMANDS = {
    "run": "generate run",
    "run/tokens": "train debug --run-dir run --resume",
    "llama": "import_llama llama --out new",
}
"""What reads the files of a folder."""


def replace(content, path):
    path.write_bytes(content)


def change(old, new, path):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def resize(size, path):
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)


def end_in(token_id, path):
    path.write_bytes(path.read_bytes()[:-2] + token_id.to_bytes(2, "little"))


def field(path, **values):
    """Set fields of a description; ... leaves one out."""
    changed = json.loads(path.read_text()) | values
    path.write_text(json.dumps({k: v for k, v in changed.items() if v is not ...}))


def weights(path, added=None, left_out=()):
    kept = {k: v for k, v in load_file(path).items() if k not in left_out}
    save_file(kept | (added or {}), path)


def index_of(name, path):
    index = {"weight_map": dict.fromkeys(load_file(path), name)}
    path.with_name("model.safetensors.index.json").write_text(json.dumps(index))


CONFIG, VOCAB, MERGES = (
    f"run/{name}" for name in ("config.json", "tokenizer/vocab.json", "tokenizer/merges.txt")
)
TOKENS, CHECKPOINT = "run/tokens/valid.bin", "run/checkpoints/step-00000020.pt"
LLAMA, WEIGHTS = "llama/config.json", "llama/model.safetensors"
Q_PROJ = "model.layers.1.self_attn.q_proj.weight"
DAMAGED = [
    (CONFIG, partial(resize, 40), "config.json is not a JSON file"),
    (CONFIG, partial(resize, MAX_DESCRIPTION_BYTES + 1), "config.json has 100,000,001 bytes"),
    (CONFIG, partial(change, b'layers": ', b'layers": 100000000'), "a model of at least"),
    (CONFIG, partial(change, b'vocab_size": ', b'vocab_size": 1000000'), "a model of at least"),
    (CONFIG, partial(change, b'd_model": 32', b'd_model": {}'), "cannot be read: d_model="),
    (CONFIG, partial(change, b'batch_size": ', b'batch_size": -'), "cannot be read: batch_size="),
    (CONFIG, partial(change, b'length": ', b'length": 10000000'), "be read: context_length="),
    (CONFIG, partial(change, b'd_ff": 64', b'd_ff": 96'), "[96, 32]"),
    (VOCAB, partial(replace, b"{"), "vocab.json is not a JSON file"),
    (VOCAB, partial(replace, b"[" * 100_000), "vocab.json is nested too deeply"),
    (VOCAB, partial(replace, b'{"a": "b"}'), "must give each token an integer, not 'b'"),
    (VOCAB, partial(replace, b'{"a": 0, "b": 0}'), "vocab.json gives the same id"),
    (VOCAB, Path.unlink, "vocab.json"),
    (MERGES, partial(replace, b"#version: 0.2\na b\nabc\n"), "merges.txt line 3"),
    ("run/tokenizer/special_tokens.json", partial(replace, b"3"), "is not a list of strings"),
    (CHECKPOINT, partial(resize, 1 << 40), "damaged or not a checkpoint"),
    (TOKENS, partial(resize, -1), "bytes where"),
    (TOKENS, partial(resize, 500), "not a token file"),
    (TOKENS, partial(replace, b"Once upon a time " * 100), "not a token file"),
    (TOKENS, partial(change, b'"version": 1', b'"version": 9'), "version 9 of the format, not 1"),
    (TOKENS, partial(change, b'"uint16"', b'"uint32"'), "damaged header"),
    (TOKENS, partial(change, b'"num_tokens": ', b'"num_tokens":-'), "damaged header"),
    (TOKENS, partial(change, b'checksum": "', b'checksum":"0'), "encoded by the tokenizer 0"),
    (TOKENS, partial(replace, MAGIC + b"[" * 1007), "damaged header"),
    (TOKENS, partial(end_in, 1299), "1299, but the vocabulary ends at 299"),
    (LLAMA, Path.unlink, "holds no config.json: give"),
    (LLAMA, partial(resize, 40), "config.json is not a JSON file"),
    (LLAMA, partial(field, model_type="gpt2"), 'model_type="gpt2"'),
    (LLAMA, partial(field, model_type="qwen2"), "attention has biases"),
    (LLAMA, partial(field, hidden_size=...), "hidden_size is missing"),
    (LLAMA, partial(field, max_position_embeddings=10**12), "context_length=10000"),
    (LLAMA, partial(field, rope_parameters={"rope_type": "llama3"}), 'rope_type="llama3"'),
    (LLAMA, partial(field, attention_bias=True), "attention_bias=true"),
    (LLAMA, partial(field, head_dim=16), "(64, 32)"),
    (LLAMA, partial(field, vocab_size=290), "vocab_size=290"),
    (WEIGHTS, Path.unlink, "holds no model.safetensors: fetch"),
    (WEIGHTS, partial(resize, 5_000), "model.safetensors is damaged"),
    (WEIGHTS, partial(weights, left_out=[Q_PROJ]), f"no weight {Q_PROJ}"),
    (WEIGHTS, partial(weights, added={f"{Q_PROJ}s": torch.ones(32)}), "has a weight"),
    (WEIGHTS, partial(weights, added={Q_PROJ: torch.ones(32, 16)}), "(32, 16)"),
    (WEIGHTS, partial(weights, added={Q_PROJ: torch.ones(32, 32).char()}), "as I8"),
    (WEIGHTS, partial(index_of, "../run/x"), "no file of this folder"),
    (WEIGHTS, partial(index_of, "none.safetensors"), "none.safetensors"),
    ("llama/tokenizer.json", partial(resize, 500), "tokenizer.json is not a JSON file"),
]
"""A file, what is done to it, and what the line says."""


@pytest.fixture(scope="module")
def whole(finished, tmp_path_factory):
    """A run with one checkpoint and the Llama folder of it."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(finished.run.run_dir, folder / "run")
    (folder / "run/checkpoints/step-00000015.pt").unlink()
    export_llama(RunFolder(folder / "run"), folder / "llama")
    return folder


def content(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_size < MAX_DESCRIPTION_BYTES
    }


@pytest.mark.parametrize(("name", "damage", "words"), DAMAGED)
def test_a_damaged_file_is_refused_in_one_line(
    refused, whole, tmp_path, monkeypatch, name, damage, words
):
    folder = shutil.copytree(whole, tmp_path / "place")
    monkeypatch.chdir(folder)
    damage(folder / name)
    before, started = content(folder), time.process_time()
    command = max((place for place in COMMANDS if name.startswith(place)), key=len)
    assert words in refused(*COMMANDS[command].split())
    assert content(folder) == before
    assert time.process_time() - started < 5, "memory was taken for what cannot be"


def test_no_memory_is_one_line(refused, tmp_path, monkeypatch):
    def refuse(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 EB")

    monkeypatch.setattr("cs_basics.run.folder.RunFolder.read_config", refuse)
    assert "not enough memory" in refused("generate", tmp_path)
