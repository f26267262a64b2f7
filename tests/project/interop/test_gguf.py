"""GGUF files in llama.cpp itself: our ids, logits and tokens; and what such a file cannot hold."""

from itertools import islice

import page_cases
import pytest
import torch
from awkward import CLOSED, EOT, train_on_text
from hypothesis import given
from page_cases import CONTEXT
from test_llama import MODELS
from test_tokenizer_files import texts

from cs_basics.bpe import SINGLE_BYTES
from cs_basics.fast.decoding import generate
from cs_basics.tokenizer import Tokenizer

gguf_file = pytest.importorskip("cs_basics.interop.gguf_file", reason="needs the gguf package")
MOST_APART = {"float32": 1e-5, "float16": 5e-3, "q8_0": 1e-1}


@pytest.fixture(scope="module")
def llama_cpp():
    """The llama_cpp package, or the reason why these tests are skipped."""
    return pytest.importorskip("llama_cpp", reason="needs llama.cpp: make llama_cpp")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return Tokenizer(*train_on_text(tmp_path_factory.mktemp("text")), [*CLOSED, "<a b>"])


def opened(llama_cpp, path):
    """Open a file, with keys and values in float32, too."""
    of_cache = dict.fromkeys(("type_k", "type_v"), llama_cpp.GGML_TYPE_F32)
    return llama_cpp.Llama(
        str(path), n_ctx=CONTEXT, logits_all=True, n_threads=1, verbose=False, **of_cache
    )


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float32") for name in MODELS), ("grouped", "float16"), ("grouped", "q8_0")],
)
def test_llama_cpp_gives_our_logits_and_tokens(llama_cpp, make_run, tmp_path, name, dtype):
    run, path = make_run(**MODELS[name]), tmp_path / "model.gguf"
    gguf_file.export_gguf(run, path, dtype=dtype)
    ours, theirs = run.load_model(), opened(llama_cpp, path)
    ids = torch.randint(ours.vocab_size, (CONTEXT,), generator=torch.Generator())
    theirs.eval(ids.tolist())
    with torch.no_grad():
        logits = torch.tensor(theirs.scores[:CONTEXT])
        torch.testing.assert_close(logits, ours(ids[None])[0], rtol=0, atol=MOST_APART[dtype])
    if dtype == "float32":
        prompt = ids[:20].tolist()
        written = list(islice(theirs.generate(prompt, temp=0.0), 100))
        assert written == list(generate(ours, prompt, 100))


@pytest.fixture(scope="module")
def in_llama_cpp(llama_cpp, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    rows = tokenizer.vocab_size + 3  # some of no token
    run = page_cases.make_run(folder / "run", tokenizer, vocab_size=rows)
    gguf_file.export_gguf(run, folder / "model.gguf")
    return opened(llama_cpp, folder / "model.gguf")


@given(texts)
def test_llama_cpp_gives_our_ids_and_text(tokenizer, in_llama_cpp, text):
    ids = tokenizer.encode(text)
    assert in_llama_cpp.tokenize(text.encode(), special=True) == ids
    assert in_llama_cpp.detokenize(ids, special=True).decode() == text


def test_llama_cpp_reads_a_tokenizer_without_merges(llama_cpp, tmp_path):
    tokenizer = Tokenizer(dict(enumerate([*SINGLE_BYTES, EOT.encode()])), [], [EOT])
    run, path = page_cases.make_run(tmp_path / "run", tokenizer), tmp_path / "model.gguf"
    gguf_file.export_gguf(run, path)
    assert opened(llama_cpp, path).tokenize(b"no", special=True) == tokenizer.encode("no")


def test_the_script_writes_the_same_bytes_again(script, make_run, tmp_path):
    run, paths = make_run(), [tmp_path / "1.gguf", tmp_path / "2.gguf"]
    for path in paths:
        done = script("export", run.path, "--out", path, "--dtype", "q8_0")
        assert (done.code, done.err) == (0, "")
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_what_a_file_cannot_hold_is_refused(refused, make_run, tokenizer, tmp_path):
    out = ["--out", tmp_path / "model.gguf"]
    run = make_run(value_residual=True)
    assert "value_residual=True has no form" in refused("export", run.path, *out)
    byte = Tokenizer(tokenizer.vocab, tokenizer.merges, [EOT, "\n"])
    run = page_cases.make_run(tmp_path / "byte", byte)
    assert "special token '\\n'" in refused("export", run.path, *out)
    assert not list(tmp_path.glob("*.gguf*"))
