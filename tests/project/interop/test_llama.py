"""Llama folders: the same logits, tokens and bits there and back."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from page_cases import CONTEXT

from cs_basics.fast.decoding import generate
from cs_basics.interop.llama import export_llama, import_llama
from cs_basics.interop.tokenizer_files import save_tokenizer_json
from cs_basics.run.folder import RunFolder
from cs_basics.run.samples import SAMPLING
from cs_basics.run.token_file import tokenizer_checksum
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer

MODELS = {
    "plain": {},
    "llama norm, tied": {"norm": "rmsnorm-llama", "tie_embeddings": True},
    "grouped": {"num_kv_heads": 2, "norm_eps": 1e-3, "rope_theta": 500.0},
    "heads of 12": {"head_dim": 12, "num_kv_heads": 1},
    "qwen3, three heads": {"qk_norm": True, "head_dim": 10, "num_heads": 3, "norm_eps": 1e-2},
    "qwen3, tied": {
        "qk_norm": True, "head_dim": 16, "num_kv_heads": 2, "tie_embeddings": True,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def llama():
    """The transformers package, or the reason why these tests are skipped."""
    return pytest.importorskip("transformers", reason="needs the transformers package")


@pytest.fixture(scope="module")
def tokenizer(bpe):
    return Tokenizer(*bpe, [END_OF_TEXT])


@pytest.fixture
def exported(make_run, tmp_path):
    """A small Llama folder."""
    out = tmp_path / "llama"
    export_llama(make_run(num_kv_heads=2), out)
    return out


def assert_same_logits(ours, theirs):
    length = ours.context_length
    ids = torch.randint(ours.vocab_size, (2, length), generator=torch.Generator())
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), theirs(ids).logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_export_gives_transformers_our_logits_and_import_gives_back_every_bit(
    llama, make_run, tmp_path, name
):
    choices = MODELS[name]
    run = make_run(**choices)
    num_parameters = export_llama(run, tmp_path / "out")
    theirs = llama.AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    assert type(theirs).__name__.startswith("Qwen3" if "qk_norm" in choices else "Llama")
    assert num_parameters == sum(parameter.numel() for parameter in theirs.parameters())
    assert_same_logits(run.load_model(), theirs)
    import_llama(tmp_path / "out", tmp_path / "back")
    back = RunFolder(tmp_path / "back")
    state, same = run.load_model().state_dict(), back.load_model().state_dict()
    assert set(state) == set(same)
    assert all(torch.equal(state[name], same[name]) for name in state)
    ours, again = (tokenizer_checksum(folder.load_tokenizer()) for folder in (run, back))
    assert ours == again
    model = dataclasses.asdict(run.read_config().model)
    # What a Llama folder has only one form of.
    model["norm"] = "rmsnorm-llama"
    model["num_kv_heads"] = model["num_kv_heads"] or model["num_heads"]
    assert dataclasses.asdict(back.read_config().model) == model


@pytest.mark.parametrize(
    ("kind", "num_heads", "shard", "choices"),
    [
        ("Llama", 4, "1GB", {"tie_word_embeddings": True, "head_dim": 12}),
        (
            "Llama", 2, "30KB",
            {"rms_norm_eps": 1e-3, "rope_parameters": {"rope_type": "default", "rope_theta": 500}},
        ),
        ("Qwen3", 3, "1GB", {"head_dim": 10, "hidden_size": 48}),
    ],
)  # fmt: skip
def test_we_give_the_logits_of_a_model_of_transformers(
    llama, tokenizer, tmp_path, kind, num_heads, shard, choices
):
    folder, out = tmp_path / "llama", tmp_path / "run"
    torch.manual_seed(0)
    sizes = {
        "vocab_size": tokenizer.vocab_size, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": num_heads, "num_key_value_heads": 1,
        "max_position_embeddings": CONTEXT, "initializer_range": 0.1,
    }  # fmt: skip
    theirs = getattr(llama, f"{kind}ForCausalLM")(
        getattr(llama, f"{kind}Config")(**sizes | choices)
    ).eval()
    for name, parameter in theirs.named_parameters():
        if "norm" in name:  # gains of 1 would hide one that is left out, or out of order
            torch.nn.init.trunc_normal_(parameter, mean=1.0, std=0.3)
    theirs.save_pretrained(folder, max_shard_size=shard)
    assert (folder / "model.safetensors.index.json").exists() == (shard == "30KB")
    save_tokenizer_json(tokenizer, folder / "tokenizer.json")
    import_llama(folder, out)
    assert_same_logits(RunFolder(out).load_model(), theirs)


def test_the_folder_that_one_is_in_has_a_name(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(exported)
    import_llama(Path(), tmp_path / "back")
    assert RunFolder(tmp_path / "back").imported_from() == exported.name


def test_a_trained_model_writes_the_same_in_transformers(llama, finished, tmp_path):
    run = RunFolder(finished.run.run_dir)
    export_llama(run, tmp_path / "llama")
    model, tokenizer = run.load_model(), run.load_tokenizer()
    write = llama.pipeline("text-generation", model=str(tmp_path / "llama"), device="cpu")
    text = f"{END_OF_TEXT}\nOnce there was a girl called Zoë."
    assert write.tokenizer(text)["input_ids"] == tokenizer.encode(text)
    prompt = "Once"
    story = write(prompt, do_sample=False, max_new_tokens=20)[0]["generated_text"]
    stop_ids = tokenizer.encode(END_OF_TEXT)
    tokens = generate(model, tokenizer.encode(prompt), 20, stop_ids=stop_ids)
    assert story == prompt + tokenizer.decode(tokens)
    settings = write.model.generation_config
    assert settings.do_sample
    assert (settings.temperature, settings.top_p) == (SAMPLING.temperature, SAMPLING.top_p)


def test_rows_of_no_token_are_left_out(make_run, tmp_path):
    export_llama(make_run(vocab_size=420), tmp_path / "llama")
    import_llama(tmp_path / "llama", tmp_path / "back")
    back = RunFolder(tmp_path / "back")
    assert len(back.load_model().lm_head.weight) == back.load_tokenizer().vocab_size < 420


def test_bytes_without_a_token_are_said_at_the_import(succeeds, caplog, exported, tmp_path):
    path = exported / "tokenizer.json"
    content = json.loads(path.read_text())
    for byte in ("\u0100", "\u0101"):  # How NUL and the byte 1 are printed.
        del content["model"]["vocab"][byte]
    path.write_text(json.dumps(content))
    succeeds("import_llama", exported, "--out", tmp_path / "back")
    assert "no token for 2 of the 256 bytes" in caplog.text


@pytest.mark.parametrize(
    ("choices", "word"),
    [
        ({"placement": "post"}, "placement=post"),
        ({"norm": "layernorm"}, "norm=layernorm"),
        ({"positions": "none"}, "positions=none"),
        ({"num_heads": 3, "head_dim": 12}, "num_heads=3 has no form"),
        ({"ffn": "silu"}, "ffn=silu"),
        (
            {"value_residual": True, "head_bias": True},
            "value_residual=True, head_bias=True has no form in Llama's architecture: train with "
            "--no-value-residual --no-head-bias",
        ),
    ],
)
def test_what_has_no_llama_form_is_refused(refused, make_run, tmp_path, choices, word):
    assert word in refused("export", make_run(**choices).path, "--out", tmp_path / "llama")
    assert not list(tmp_path.glob("llama*"))
