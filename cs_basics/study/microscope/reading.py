"""A microscope for norms: statistics of what every norm of a model reads, and of attention scores.

    with observed(model) as seen:
        model(token_ids)
    reading = summary(seen, step)

The model computes as the book says while it is looked at, and is as before afterwards. Drawn by
plot.py; the script is scripts/microscope.py.
"""

import contextlib
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from unittest.mock import patch

import torch
from jaxtyping import Float, Int
from torch import Tensor

import cs_basics.attention
import cs_basics.variants.attention
from cs_basics.functional import scaled_dot_product_attention
from cs_basics.transformer import TransformerLM

PARTIAL = 1 / 16
"""Share of the coordinates from which partial RMSNorm estimates the root mean square (Zhang and
Sennrich 2019, sec. 5: 6.25 %)."""


@dataclass
class Seen:
    """What passed through a model."""

    norm_inputs: dict[str, Float[Tensor, "tokens d"]] = field(default_factory=dict)
    """What each norm read, in the order of the computation; names such as "1.ln1", "ln_final"."""
    scores: list[Float[Tensor, " pairs"]] = field(default_factory=list)
    """For each block the scaled scores of all pairs of positions that see each other."""


@dataclass(frozen=True)
class Reading:
    """Statistics of one step of a run; each list has a number for each norm or each block."""

    step: int
    norms: list[str]
    """The norms, "1.ln1" being the first of block 1."""
    rms: list[float]
    """Root mean square of what the norm reads."""
    mean: list[float]
    """Its mean, over all coordinates of all tokens."""
    mean_share: list[float]
    """Share of a vector's length that is its mean: |cos| of its angle with (1, ..., 1), averaged
    over the tokens (Gupta et al. 2024, https://arxiv.org/abs/2409.12951). LayerNorm takes away this
    part and RMSNorm keeps it; a random direction has sqrt(2 / (pi d))."""
    partial_ratio: list[float]
    """RMS of the first sixteenth of the coordinates / RMS of all, averaged over the tokens."""
    partial_spread: list[float]
    """Standard deviation of that ratio over the tokens."""
    largest: list[float]
    """Largest absolute value that the norm reads."""
    score_rms: list[float]
    """Root mean square of the scaled attention scores, for each block."""
    score_largest: list[float]
    """Largest absolute score, for each block."""
    chance_share: float
    """The mean's share of a random direction, to compare `mean_share` with."""


def read(model: TransformerLM, token_ids: Int[Tensor, "batch seq"], step: int) -> Reading:
    """Look at a model while it reads some text.

    Args:
        model: A Transformer, not its fast twin: fused layers show nothing.
        token_ids: Windows of text, (batch, seq).
        step: Number of updates that the weights have seen.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad(), observed(model) as seen:
        model(token_ids)
    model.train(was_training)
    return summary(seen, step)


@contextlib.contextmanager
def observed(model: TransformerLM) -> Generator[Seen]:
    """Note what the norms read and which scores attention computes, until the context ends."""
    seen = Seen()
    hooks = [
        module.register_forward_pre_hook(_noting(seen, name))
        for name, module in norms_of(model).items()
    ]

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
        seen.scores.append(scores[..., mask] if mask is not None else scores.flatten())
        return scaled_dot_product_attention(q, k, v, mask)

    modules = (cs_basics.attention, cs_basics.variants.attention)
    with contextlib.ExitStack() as stack:
        for hook in hooks:
            stack.callback(hook.remove)
        for module in modules:
            stack.enter_context(patch.object(module, "scaled_dot_product_attention", attend))
        yield seen


def norms_of(model: TransformerLM) -> dict[str, torch.nn.Module]:
    """The norms of the residual stream by name, in the order in which a pre-norm model runs them.

    A model without norms has empty modules in their places, which read the stream all the same.
    """
    found: dict[str, torch.nn.Module] = {}
    for number, block in enumerate(model.layers, 1):
        names = [name for name, _ in block.named_children() if name.startswith("ln")]
        found |= {f"{number}.{name}": block.get_submodule(name) for name in sorted(names)}
    return found | {"ln_final": model.ln_final}


def _noting(seen: Seen, name: str) -> Callable[[torch.nn.Module, tuple[Tensor, ...]], None]:
    def note(_: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.norm_inputs[name] = inputs[0].detach().float().flatten(0, -2)

    return note


def summary(seen: Seen, step: int) -> Reading:
    """Reduce what was seen to a few numbers for each norm and each block."""
    inputs = list(seen.norm_inputs.values())
    d_model = inputs[0].shape[-1]
    num_first = max(1, math.ceil(PARTIAL * d_model))
    ratios = [_rms(x[:, :num_first]) / _rms(x).clamp_min(1e-30) for x in inputs]
    return Reading(
        step=step,
        norms=list(seen.norm_inputs),
        rms=[x.square().mean().sqrt().item() for x in inputs],
        mean=[x.mean().item() for x in inputs],
        mean_share=[(x.mean(-1).abs() / _rms(x).clamp_min(1e-30)).mean().item() for x in inputs],
        partial_ratio=[ratio.mean().item() for ratio in ratios],
        partial_spread=[ratio.std(correction=0).item() for ratio in ratios],
        largest=[x.abs().amax().item() for x in inputs],
        score_rms=[scores.square().mean().sqrt().item() for scores in seen.scores],
        score_largest=[scores.abs().amax().item() for scores in seen.scores],
        chance_share=math.sqrt(2 / (math.pi * d_model)),
    )


def _rms(x: Float[Tensor, "tokens d"]) -> Float[Tensor, " tokens"]:
    """Root mean square of each vector."""
    return x.square().mean(-1).sqrt()
