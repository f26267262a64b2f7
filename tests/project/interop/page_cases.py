"""Small models of every form and their pages, for the tests of a page."""

import json
from pathlib import Path

import torch
from torch import nn

from cs_basics.run.checkpoint_file import write_checkpoint
from cs_basics.run.folder import RunFolder
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.presets import PRESETS
from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.variants.model import Transformer

SIZES = {
    "context_length": 48, "d_model": 32, "d_ff": 48, "num_layers": 2, "num_heads": 4,
}  # fmt: skip

FORMS = {
    "book": {},
    "grouped": {"num_kv_heads": 2, "qk_norm": True, "norm_eps": 1e-3},
    "tied": {"tie_embeddings": True, "ffn": "silu", "norm": "partial-rmsnorm"},
    "post": {"placement": "post", "norm": "layernorm", "positions": "none"},
    "sandwich": {"placement": "sandwich", "norm": "group-rmsnorm", "rope_theta": 500.0},
    "no norms": {"placement": "none", "num_kv_heads": 1},
    "llama": {"norm": "rmsnorm-llama", "d_model": 36, "num_heads": 6},
    "no bias": {"norm": "layernorm-no-bias"},
    "gemma": {
        "norm": "rmsnorm-gemma", "placement": "sandwich", "head_dim": 6,
        "ffn": "gelu", "num_kv_heads": 2, "qk_norm": True,
    },
    "relu": {"ffn": "relu"},
    "value residual": {
        "value_residual": True, "head_bias": True, "tie_embeddings": True, "num_layers": 3,
    },
    "mixed grouped values": {
        "value_residual": True, "num_kv_heads": 2, "head_bias": True, "num_layers": 3,
    },
    "relu squared": {"ffn": "relu-squared"},
}  # fmt: skip


def make_run(folder: Path, tokenizer, **choices) -> RunFolder:
    """Write a run with random weights that are all far from what they are at the start."""
    config = PRESETS["debug"][1]
    sizes = {**SIZES, "vocab_size": tokenizer.vocab_size, **choices}
    config = config.replace(run_dir=folder, device="cpu", dtype="float32", **sizes)
    torch.manual_seed(3)
    model = Transformer(config.model)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.trunc_normal_(parameter, mean=1.0, std=0.3)
    run = RunFolder(folder)
    run.write_config(config)
    save_tokenizer(tokenizer, run.tokenizer)
    run.checkpoints.mkdir()
    write_checkpoint(run.checkpoint_of(0), model, make_optimizer(model, config), 0)
    return run


def ask(browser, name, **request):
    """Let the page's worker answer a request, and return the answer and the news before it."""
    script = """
        const [name, request] = arguments, news = [];
        return glass.opened
            .then(() => glass.engine.ask(name, request, { onNews: (one) => news.push(one) }))
            .then((answer) => JSON.stringify([ArrayBuffer.isView(answer) ? [...answer] : answer,
                                              news]));
    """
    answer, news = json.loads(browser.run(script, name, request))
    return answer, news


def open_page(browser, path: Path):
    """Open a page and wait for its model."""
    browser.open(path)
    browser.run("return glass.opened.then(() => true)")


def without(model, name):
    """Switch off in PyTorch what an operation of that name switches off in the page."""
    place, _, part = name.rpartition(".")
    block = model.get_submodule(place.removesuffix(".attn.heads") or "")
    with torch.no_grad():
        if ".heads" in place:
            width = block.attn.d_head
            block.attn.output_proj.weight[:, int(part) * width : (int(part) + 1) * width] = 0
        elif part == "ffn":
            block.ffn.w2.weight.zero_()
        elif part == "rope":
            block.rope = None
        else:
            setattr(block, part, nn.Sequential())
