"""The weights of a Llama folder: names, shapes, the order of rotated rows, safetensors files.

Qwen3 has the same names, and gains for the norms of queries and keys.

RoPE turns the coordinates 2i and 2i + 1 of a head here (Su et al. 2021, eq. 34,
https://arxiv.org/abs/2104.09864), and i and i + d_head / 2 in these folders (half-split RoPE). A
score is a sum over the coordinates of a head, in any order: reordering the rows of the query and
key weights (and of their gains) turns one model into the other, bit for bit.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cs_basics.interop.conventions import SIZES, check_conventions
from cs_basics.run.json_file import read_json
from cs_basics.settings.model import ModelConfig

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
FLOAT_TYPES = {"F64", "F32", "F16", "BF16"}


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight under both its names."""

    name: str
    """In a state dict of TransformerLM."""
    llama_name: str
    """In a Llama folder."""
    shape: tuple[int, ...]
    """The same in both."""
    rotated_heads: int | None = None
    """Heads whose rows RoPE turns in pairs; None: the rows have the same order in both."""


def llama_weights(config: ModelConfig) -> Iterator[Weight]:
    """Name the weights of a model of this configuration, in the order of the forward pass."""
    vocab_size, d_model, d_ff = config.vocab_size, config.d_model, config.d_ff
    d_q, d_kv, num_heads = config.d_q, config.d_kv, config.num_heads
    num_kv_heads = config.num_kv_heads or num_heads
    qk_norms = (
        ("attn.q_norm", "self_attn.q_norm", (config.d_head,), 1),
        ("attn.k_norm", "self_attn.k_norm", (config.d_head,), 1),
    )
    block = (
        ("ln1", "input_layernorm", (d_model,), None),
        ("attn.q_proj", "self_attn.q_proj", (d_q, d_model), num_heads),
        ("attn.k_proj", "self_attn.k_proj", (d_kv, d_model), num_kv_heads),
        ("attn.v_proj", "self_attn.v_proj", (d_kv, d_model), None),
        ("attn.output_proj", "self_attn.o_proj", (d_model, d_q), None),
        *(qk_norms if config.qk_norm else ()),
        ("ln2", "post_attention_layernorm", (d_model,), None),
        ("ffn.w1", "mlp.gate_proj", (d_ff, d_model), None),
        ("ffn.w3", "mlp.up_proj", (d_ff, d_model), None),
        ("ffn.w2", "mlp.down_proj", (d_model, d_ff), None),
    )
    yield Weight("token_embeddings.weight", "model.embed_tokens.weight", (vocab_size, d_model))
    for layer in range(config.num_layers):
        for ours, theirs, shape, heads in block:
            name, llama_name = f"layers.{layer}.{ours}", f"model.layers.{layer}.{theirs}"
            yield Weight(f"{name}.weight", f"{llama_name}.weight", shape, heads)
    yield Weight("ln_final.weight", "model.norm.weight", (d_model,))
    if not config.tie_embeddings:
        yield Weight("lm_head.weight", "lm_head.weight", (vocab_size, d_model))


def check_names(state: dict[str, Tensor], config: ModelConfig) -> None:
    """Refuse the weights of a model that names, shapes or uses them otherwise than the book does.

    Raises:
        ValueError: A weight is missing or of another shape, or the code has other conventions.
    """
    for name, shape in ((weight.name, weight.shape) for weight in llama_weights(config)):
        if name not in state:
            beside = [other for other in state if other.split(".")[:-2] == name.split(".")[:-2]]
            others = ", ".join((beside or list(state))[:4])
            raise ValueError(
                f"the model has no weight {name}, but {others} ...: export and page want the names "
                "of docs/learn.md, which under 'Names of weights' says how to keep your own"
            )
        if state[name].shape != shape:
            raise ValueError(
                f"{name} has the shape {tuple(state[name].shape)}, not {shape}: export and page "
                "want the sizes that the model is given (d_ff not rounded), and weights (out, in)"
            )
    check_conventions([weight.name for weight in llama_weights(SIZES)])


def to_half_split(weight: Float[Tensor, "rows ..."], num_heads: int) -> Float[Tensor, "rows ..."]:
    """Reorder the rows of each head: (2i, 2i + 1) go to (i, i + d_head / 2)."""
    return rearrange(
        weight, "(heads half pair) ... -> (heads pair half) ...", heads=num_heads, pair=2
    )


def to_interleaved(weight: Float[Tensor, "rows ..."], num_heads: int) -> Float[Tensor, "rows ..."]:
    """Undo `to_half_split`."""
    return rearrange(
        weight, "(heads pair half) ... -> (heads half pair) ...", heads=num_heads, pair=2
    )


def to_llama_weights(
    state: dict[str, Tensor], config: ModelConfig, is_half_split: bool = True
) -> dict[str, Tensor]:
    """Return the weights of a state dict of TransformerLM under the names of Llama.

    Args:
        state: The state dict.
        config: The model's.
        is_half_split: Whether to reorder rotated rows as those folders have them.

    Raises:
        ValueError: A weight is missing or of another shape, or the code has other conventions.
    """
    check_names(state, config)
    return {
        weight.llama_name: (
            to_half_split(state[weight.name], weight.rotated_heads)
            if weight.rotated_heads and is_half_split
            else state[weight.name]
        ).contiguous()
        for weight in llama_weights(config)
    }


def save_llama_weights(weights: dict[str, Tensor], path: Path) -> int:
    """Write weights as safetensors, and return the number of parameters."""
    path.touch()
    mode = path.stat().st_mode
    save_file(weights, path, metadata={"format": "pt"})
    # The library makes files that only their owner can read.
    path.chmod(mode)
    return sum(weight.numel() for weight in weights.values())


def read_llama_weights(folder: Path, config: ModelConfig) -> dict[str, Tensor]:
    """Read the weights of a Llama folder as a state dict of TransformerLM, in float32.

    All names, shapes and types are checked before the first tensor is read.

    Raises:
        OSError: A file is missing or cannot be read.
        ValueError: A file is damaged, or a weight is missing, not expected, or of another shape or
            type than the configuration says.
    """
    with contextlib.ExitStack() as files:
        try:
            found = _open_weights(folder, files)
            wanted: list[Weight] = []
            for weight in llama_weights(config):
                _check_weight(folder, weight, found)
                wanted.append(weight)
            _check_nothing_is_left(folder, wanted, found)
            state = {weight.name: _read_weight(weight, found) for weight in wanted}
        except SafetensorError as error:
            raise ValueError(f"{folder} has a damaged safetensors file: {error}") from None
    if config.tie_embeddings:
        state["lm_head.weight"] = state["token_embeddings.weight"]
    return state


def _open_weights(folder: Path, files: contextlib.ExitStack) -> dict[str, Any]:
    """Open the files; return, by the name of each weight, the file that holds it."""
    places = _read_index(folder / INDEX) if (folder / INDEX).exists() else None
    paths = {WEIGHTS} if places is None else set(places.values())
    opened = {name: files.enter_context(_open_safetensors(folder / name)) for name in paths}
    if places is None:
        return dict.fromkeys(opened[WEIGHTS].keys(), opened[WEIGHTS])
    for name, file in places.items():
        if name not in opened[file].keys():  # noqa: SIM118  not a dictionary
            raise ValueError(f"{folder / file} has no weight {name}, which {INDEX} puts there")
    return {name: opened[file] for name, file in places.items()}


def _open_safetensors(path: Path) -> Any:  # noqa: ANN401  the library's own class
    if not path.is_file():
        raise FileNotFoundError(
            f"{path.parent} holds no {path.name}: fetch the weights that belong to its config.json"
        )
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or not a safetensors file: {error}") from None


def _read_index(path: Path) -> dict[str, str]:
    content = read_json(path)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places:
        raise ValueError(f"{path} has no weight_map")
    for file in places.values():
        # A name with a slash would lead out of the folder.
        if not isinstance(file, str) or not file or Path(file).name != file:
            raise ValueError(f"{path} names {json.dumps(file)[:60]}, no file of this folder")
    return places


def _check_weight(folder: Path, weight: Weight, found: dict[str, Any]) -> None:
    name = weight.llama_name
    if name not in found:
        raise ValueError(f"{folder} has no weight {name}, which its config.json asks for")
    part = found[name].get_slice(name)
    shape = tuple(part.get_shape())
    if shape != weight.shape:
        raise ValueError(
            f"{folder} has {name} of shape {shape}, its config.json says {weight.shape}"
        )
    if part.get_dtype() not in FLOAT_TYPES:
        kinds = ", ".join(sorted(FLOAT_TYPES))
        raise ValueError(f"{folder} has {name} as {part.get_dtype()}, not as one of {kinds}")


def _check_nothing_is_left(folder: Path, wanted: list[Weight], found: dict[str, Any]) -> None:
    names = {weight.llama_name for weight in wanted}
    for name in found:
        # Old files also hold RoPE's angles, and those of tied models sometimes the table twice.
        if name not in names and not name.endswith(("rotary_emb.inv_freq", "lm_head.weight")):
            raise ValueError(
                f"{folder} has a weight {name}, which its config.json does not ask for"
            )


def _read_weight(weight: Weight, found: dict[str, Any]) -> Tensor:
    tensor = found[weight.llama_name].get_tensor(weight.llama_name).to(torch.float32)
    if weight.rotated_heads is None:
        return tensor
    return to_interleaved(tensor, weight.rotated_heads)
