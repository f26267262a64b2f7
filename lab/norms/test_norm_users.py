"""Who uses which norm: every row of docs/norms.md against transformers' code of those models."""

import importlib
from types import SimpleNamespace
from typing import get_args

import pytest
import torch

from cs_basics.settings.model import ModelConfig, NormKind
from cs_basics.variants.model import make_norm
from lab import ROOT

CLASSES = {
    "T5": ("t5", "T5"),
    "Llama 1 to 3": ("llama", "Llama"),
    "Mistral": ("mistral", "Mistral"),
    "Gemma": ("gemma", "Gemma"),
    "Gemma 2": ("gemma2", "Gemma2"),
    "Gemma 3": ("gemma3", "Gemma3"),
    "Qwen2": ("qwen2", "Qwen2"),
    "Qwen3": ("qwen3", "Qwen3"),
    "OLMo 2": ("olmo2", "Olmo2"),
    "DeepSeek-V2": ("deepseek_v2", "DeepseekV2"),
    "DeepSeek-V3": ("deepseek_v3", "DeepseekV3"),
}
"""The package of a row in transformers.models, and what the names of its classes begin with."""


def rows():
    """The rows of the table, each with the names in transformers."""
    page = (ROOT / "docs" / "norms.md").read_text(encoding="utf-8")
    table = page.split("| models | order |")[1].split("\n\n")[0].splitlines()[2:]
    for line in table:
        models, _, norm, eps, place, inside, _ = (
            cell.strip(" `") for cell in line.split("|")[1:-1]
        )
        library, prefix = CLASSES[models]
        yield SimpleNamespace(
            models=models, norm=norm, eps=float(eps), place=place, inside=inside,
            library=library, prefix=prefix, kind="Gemma3Text" if prefix == "Gemma3" else prefix,
        )  # fmt: skip


each_user = pytest.mark.parametrize("user", [*rows()], ids=lambda user: user.models)
SIZES = {
    "vocab_size": 32, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16,
    "head_dim": 16, "eos_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
DEEPSEEK = {
    "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "num_key_value_heads": 2, "first_k_dense_replace": 1,
}  # fmt: skip
T5 = {"vocab_size": 32, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 1, "num_heads": 2}
PARTS = ("self_attn", "mlp", "SelfAttention", "DenseReluDense")
INSIDE = {
    "queries and keys, head by head": {"q_norm": 16, "k_norm": 16},
    "queries and keys, all heads together": {"q_norm": 32, "k_norm": 16},
    "compressed queries, and compressed keys and values": {
        "q_a_layernorm": 8, "kv_a_layernorm": 8,
    },
    "nothing": {},
}  # fmt: skip
PLACES = {"before each part": (2, 0), "after each part": (0, 2), "before and after": (2, 2)}
"""How many norms stand before the parts of a block, and how many after them."""


@pytest.fixture
def theirs(user):
    """The module of transformers that holds the models of a row."""
    pytest.importorskip("transformers", reason="needs the transformers package")
    return importlib.import_module(f"transformers.models.{user.library}")


def norm_class(theirs, user):
    modeling = importlib.import_module(f"{theirs.__name__}.modeling_{user.library}")
    return getattr(modeling, f"{user.prefix}{'LayerNorm' if user.prefix == 'T5' else 'RMSNorm'}")


def small_model(theirs, user):
    if user.prefix == "T5":
        return theirs.T5EncoderModel(theirs.T5Config(**T5))
    sizes = SIZES | (DEEPSEEK if "Deepseek" in user.prefix else {})
    if "Deepseek" in user.prefix:
        del sizes["head_dim"]
    config = getattr(theirs, f"{user.kind}Config")(**sizes)
    return getattr(theirs, f"{user.kind}Model")(config)


@each_user
def test_the_norm_has_the_bits_of_ours_in_bfloat16_and_of_no_other_order(user, theirs):
    generator = torch.Generator().manual_seed(0)
    x = (3 * torch.randn(400, 96, generator=generator)).bfloat16()
    weight = torch.randn(96, generator=generator).mul(0.3).add(1).bfloat16()
    with torch.no_grad():
        norm = norm_class(theirs, user)(96, eps=user.eps).bfloat16()
        norm.weight.copy_(weight)
        equal = set()
        for kind in get_args(NormKind):
            config = ModelConfig(d_model=96, num_heads=2, norm=kind, norm_eps=user.eps)
            ours = make_norm(config, dtype=torch.bfloat16)
            ours.weight.copy_(weight)
            if torch.equal(norm(x), ours(x)):
                equal.add(kind)
    assert equal == {user.norm}


@each_user
def test_the_eps_is_the_default_of_the_configuration(user, theirs):
    name = "layer_norm_epsilon" if user.prefix == "T5" else "rms_norm_eps"
    assert getattr(getattr(theirs, f"{user.kind}Config")(), name) == user.eps


@each_user
def test_the_norms_of_a_block_read_and_give_what_the_row_says(user, theirs):
    torch.manual_seed(0)
    model = small_model(theirs, user).eval()
    kind = norm_class(theirs, user)
    read, gave = {}, {}

    def keep(name):
        def hook(_module, arguments, named, output):
            read[name] = arguments[0] if arguments else named["hidden_states"]
            gave[name] = output[0] if isinstance(output, tuple) else output

        return hook

    block = next(module for name, module in model.named_modules() if name.endswith(".0"))
    modules = {name: m for name, m in block.named_modules() if name}
    for name, module in modules.items():
        if isinstance(module, kind) or name.endswith(PARTS):
            module.register_forward_hook(keep(name), with_kwargs=True)
    with torch.no_grad():
        model(torch.arange(8)[None])
    parts = [name for name in read if name.endswith(PARTS)]
    assert len(parts) == 2
    norms = [name for name in read if isinstance(modules[name], kind)]
    before = [norm for norm in norms for part in parts if read[part] is gave[norm]]
    after = [norm for norm in norms for part in parts if read[norm] is gave[part]]
    assert (len(before), len(after)) == PLACES[user.place]
    inside = {
        name.rpartition(".")[2]: modules[name].weight.numel()
        for name in norms
        if name not in {*before, *after}
    }
    assert inside == INSIDE[user.inside]


def test_the_table_has_all_of_them():
    assert {user.models for user in rows()} == {*CLASSES}
