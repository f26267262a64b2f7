"""Operated models, and what happens inside a model: what page/worker.js computes, in PyTorch.

An operated model has parts that are switched off or scaled; it is a copy that shares all weights
except the changed ones. Names of parts are those of page/model.js: `layers.0.attn.heads.3`,
`layers.0.attn.rope`, `layers.0.ffn`, `layers.0.ln1`, `ln_final`.
"""

import copy
import itertools
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from cs_basics.attention import CausalSelfAttention
from cs_basics.functional import cross_entropy, scaled_dot_product_attention, silu, softmax
from cs_basics.interop.serve.batch import NUM_RIVALS, likeliest
from cs_basics.layers import SwiGLU
from cs_basics.transformer import TransformerLM
from cs_basics.variants.attention import GroupedQueryAttention
from cs_basics.variants.blocks import PostNormBlock
from cs_basics.variants.feed_forward import FeedForward
from cs_basics.variants.norms import GemmaRMSNorm
from cs_basics.variants.value_residual import StreamAndValues, stream_of

NUM_UNITS, NUM_TOKENS = 10, 5


def operated(
    model: TransformerLM, off: Collection[str], scale: Mapping[str, float]
) -> TransformerLM:
    """Return a copy with some parts off, and with what some layers add to the stream scaled.

    Args:
        model: The model; stays as it is.
        off: Some of `parts`.
        scale: Factors by names of layers, such as `layers.0`.

    Raises:
        AttributeError: The model has no such part.
    """
    model = copy_sharing_tensors(model)
    for name in off:
        place, _, part = name.rpartition(".")
        owner: Any = model.get_submodule(place.removesuffix(".heads"))
        if part == "ffn":
            _multiply(owner.ffn.w2, 0)
        elif part == "rope":
            owner.rope = None
        elif part.startswith("ln"):
            setattr(owner, part, nn.Sequential())  # returns what it is given
        else:
            head = owner.d_head * int(part)
            keeps = torch.ones_like(owner.output_proj.weight[0])
            keeps[head : head + owner.d_head] = 0
            _multiply(owner.output_proj, keeps)
    for name, factor in scale.items():
        block: Any = model.get_submodule(name)
        for norm, last in (("ln1_after", block.attn.output_proj), ("ln2_after", block.ffn.w2)):
            after = getattr(block, norm, nn.Sequential())
            if isinstance(after, GemmaRMSNorm):
                after.weight = nn.Parameter(factor * after.gain.detach() - 1)
            else:
                _multiply(last if isinstance(after, nn.Sequential) else after, factor)
    return model


def copy_sharing_tensors(model: TransformerLM) -> TransformerLM:
    """Return a copy of a model that shares its parameters and buffers."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def parts(model: TransformerLM) -> list[str]:
    """Return the names of all that can be switched off."""
    names: list[str] = []
    for name, module in model.named_modules(remove_duplicate=False):
        part = name.rpartition(".")[2]
        is_norm = part.startswith("ln") and not isinstance(module, nn.Sequential)
        if is_norm or part in ("ffn", "rope"):
            names.append(name)
        elif isinstance(module, CausalSelfAttention):
            names += [f"{name}.heads.{head}" for head in range(module.num_heads)]
    return names


def _multiply(module: nn.Module, factor: float | Tensor) -> None:
    """Multiply all weights of a module; the tensors that it had before are not changed."""
    for name, weight in list(module.named_parameters()):
        setattr(module, name, nn.Parameter(weight.detach() * factor))


@torch.no_grad()
def next_logits(model: TransformerLM, text: Sequence[int]) -> Float[Tensor, " vocab_size"]:
    """Return the scores of the token after a text."""
    return model(_as_batch(model, text))[0, -1].float().cpu()


def rivals(model: TransformerLM, text: Sequence[int]) -> list[tuple[int, float]]:
    """Return the likeliest tokens after a text, with their probabilities."""
    return likeliest(softmax(next_logits(model, text), dim=-1), NUM_RIVALS)


@torch.no_grad()
def loss(model: TransformerLM, text: Sequence[int]) -> float:
    """Return the mean loss of a text in nats per token."""
    ids = _as_batch(model, text)
    return cross_entropy(model(ids[:, :-1]).float(), ids[:, 1:]).item()


@torch.no_grad()
def look(model: TransformerLM, text: Sequence[int], position: int) -> dict[str, Any]:
    """Return what trace.js calls an Inspection: what happens at one position of a text."""
    out = _outputs(model, text)
    places = {"embedding": out["token_embeddings"]}
    maps: list[Float[Tensor, "heads seq seq"]] = []
    units: list[Float[Tensor, " d_ff"]] = []
    x, norms = places["embedding"], set(parts(model))
    blocks: Any = model.layers
    for layer, block in enumerate(blocks):
        name = f"layers.{layer}"
        for part, norm in (("attn", "ln1"), ("ffn", "ln2")):
            norm, is_last = f"{name}.{norm}", isinstance(block, PostNormBlock)
            read = out[norm] if norm in norms and not is_last else x
            if part == "attn":
                maps.append(attention_maps(block.attn, read))
            else:
                units.append(hidden_units(block.ffn, read[position]))
            change = out.get(f"{norm}_after", out[f"{name}.{part}"])
            shown = {norm: read, f"{norm}_after": change} if not is_last else {}
            places |= {key: value for key, value in shown.items() if key in norms}
            places[f"{name}.{part}"] = change
            x = x + change
            if is_last:
                x = places[norm] = out[norm]
            places[f"{name}.after_{part}"] = x
    if "ln_final" in norms:
        places["ln_final"] = out["ln_final"]
    at = {name: value[position].float() for name, value in places.items()}
    return {
        "places": [
            {"name": name, "rms": v.square().mean().sqrt().item()} for name, v in at.items()
        ],
        "lens": [
            _lens(model, name, stream, text[position + 1 : position + 2])
            for name, stream in at.items()
            if name == "embedding" or name.endswith(".after_ffn")
        ],
        "attention": [list(heads.flatten(1).float().cpu()) for heads in maps],
        "units": strongest_units(model, units),
    }


def _outputs(model: TransformerLM, text: Sequence[int]) -> dict[str, Float[Tensor, "seq d"]]:
    """Run the model on a text and return the output of each module, by its name."""
    found: dict[str, Tensor] = {}

    def keep(name: str, _module: nn.Module, _inputs: object, output: StreamAndValues) -> None:
        found[name] = stream_of(output)[0]

    hooks = [
        module.register_forward_hook(partial(keep, name)) for name, module in model.named_modules()
    ]
    try:
        model(_as_batch(model, text))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def attention_maps(
    attention: CausalSelfAttention, x: Float[Tensor, "seq d_model"]
) -> Float[Tensor, "heads seq seq"]:
    """Return how each head divides the attention of each position, row by row."""
    q, k = (
        rearrange(projection(x), "seq (heads d) -> heads seq d", d=attention.d_head)
        for projection in (attention.q_proj, attention.k_proj)
    )
    if isinstance(attention, GroupedQueryAttention):
        q, k = attention.q_norm(q), attention.k_norm(k)
    places = torch.arange(len(x), device=x.device)
    if attention.rope is not None:
        q, k = attention.rope(q, places), attention.rope(k, places)
    k = repeat(k, "heads seq d -> (heads group) seq d", group=len(q) // len(k))
    # With a unit vector of its own as each position's value, the output is the shares themselves.
    values = torch.eye(len(x), dtype=x.dtype, device=x.device).expand(len(q), -1, -1)
    return scaled_dot_product_attention(q, k, values, places <= places.unsqueeze(-1))


def hidden_units(ffn: SwiGLU | FeedForward, x: Float[Tensor, " d_model"]) -> Float[Tensor, " d_ff"]:
    """Return what w2 of a feed-forward part reads."""
    return ffn.hidden(x) if isinstance(ffn, FeedForward) else silu(ffn.w1(x)) * ffn.w3(x)


def _lens(
    model: TransformerLM, name: str, stream: Float[Tensor, " d_model"], following: Sequence[int]
) -> dict[str, Any]:
    """Say what the output head would predict of a residual stream (logit lens)."""
    probabilities = softmax(model.lm_head(model.ln_final(stream)).float(), dim=-1)
    return {
        "name": name,
        "likeliest": likeliest(probabilities, NUM_TOKENS),
        "probability": probabilities[following[0]].item() if following else None,
    }


def strongest_units(
    model: TransformerLM, units: Sequence[Float[Tensor, " d_ff"]]
) -> list[dict[str, Any]]:
    """Return the hidden units that add most to the stream, and the tokens each makes likelier."""
    downs: list[Tensor] = [block.ffn.w2.weight for block in model.layers]  # pyright: ignore[reportAttributeAccessIssue, reportAssignmentType]
    sizes = torch.stack([a.abs() * w.norm(dim=0) for a, w in zip(units, downs, strict=True)])
    norm = model.ln_final
    gain = norm.gain if isinstance(norm, GemmaRMSNorm) else getattr(norm, "weight", 1.0)
    found: list[dict[str, Any]] = []
    for index in sizes.flatten().topk(min(NUM_UNITS, sizes.numel())).indices.tolist():
        layer, unit = divmod(index, sizes.shape[1])
        activation = units[layer][unit]
        # The weight alone: the bias of the head is not the unit's doing.
        pushed = model.lm_head.weight @ (activation * downs[layer][:, unit] * gain)
        found.append({
            "layer": layer, "unit": unit, "activation": activation.item(),
            "pushes": pushed.topk(min(NUM_TOKENS, len(pushed))).indices.tolist(),
        })  # fmt: skip
    return found


def _as_batch(model: TransformerLM, text: Sequence[int]) -> Tensor:
    return torch.tensor([list(text)], device=model.lm_head.weight.device)
