"""`sample` of generate.py once more, so that a compiler can make a few passes of it.

The definition sorts the whole vocabulary, which takes longer than the model where that is small.
Only the least probability that is kept has to be known. With top_k it is among k values, which lie
in k blocks of the vocabulary. With top_p alone it is found by halving: 31 sums over the
probabilities, each a fast pass over memory that is in the cache, for every row. The token is drawn
in two steps: its block, then its place in there. And numbers are tensors here, so that other
settings are no reason to compile again.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cs_basics.generate import Sampling

BLOCK = 16
"""Tokens of a block: few enough that the blocks of a row are few, and few are left to search."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Knobs:
    """The settings of Sampling as a compiled function takes them; None: switched off."""

    temperature: Float[Tensor, ""] | None
    """None: always the likeliest."""
    top_k: int | None
    top_p: Float[Tensor, ""] | None
    repetition_penalty: Float[Tensor, ""] | None

    @classmethod
    def of(cls, sampling: Sampling, device: torch.device) -> Self:
        """Return the knobs that stand for a Sampling."""

        def knob(value: float | None, off: float | None) -> Tensor | None:
            return None if value in (None, off) else torch.tensor(value, device=device)

        return cls(
            temperature=knob(sampling.temperature, 0),
            top_k=sampling.top_k,
            top_p=knob(sampling.top_p, 1),
            repetition_penalty=knob(sampling.repetition_penalty, 1),
        )


def sample_fast(
    logits: Float[Tensor, "batch vocab_size"],
    knobs: Knobs,
    uniform: Float[Tensor, " batch"],
    seen: Bool[Tensor, "batch vocab_size"] | None = None,
) -> Int[Tensor, " batch"]:
    """Draw one token per row; arguments and result as in `sample`."""
    logits = logits.float()
    if knobs.repetition_penalty is not None and seen is not None:
        penalty = knobs.repetition_penalty
        penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
        logits = torch.where(seen, penalised, logits)
    if knobs.temperature is None:
        return logits.argmax(dim=-1)
    scores = logits - logits.amax(dim=-1, keepdim=True)
    # Probabilities but for a factor, by which nothing below would change: the highest is 1.
    weights = torch.exp(scores / knobs.temperature)
    if knobs.top_k is None and knobs.top_p is None:
        return draw_fast(weights, uniform)
    least = least_kept(weights, knobs.top_k, knobs.top_p)
    return draw_fast(weights.masked_fill(weights < least, 0), uniform)


def draw_fast(
    weights: Float[Tensor, "batch vocab_size"], uniform: Float[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """Draw an index per row; arguments and result as in `draw`.

    A running sum adds one number after the other, each waiting for the last. Here it runs over the
    sums of blocks, and then over a single block.
    """
    blocks = in_blocks(weights)
    sums = blocks.sum(dim=-1)
    ends = sums.cumsum(dim=-1)
    place = _below(uniform.unsqueeze(-1) * ends[:, -1:], ends[:, -1:])
    number = (ends <= place).sum(dim=-1, keepdim=True)
    before = torch.where(number > 0, ends.gather(-1, (number - 1).clamp(min=0)), 0)
    inner_ends = blocks.take_along_dim(number.unsqueeze(-1), dim=-2).squeeze(-2).cumsum(dim=-1)
    # Both sums of a block are rounded, each in its own way.
    inner_place = _below(place - before, inner_ends[:, -1:])
    return (number * BLOCK).squeeze(-1) + (inner_ends <= inner_place).sum(dim=-1)


def _below(place: Float[Tensor, "batch 1"], end: Float[Tensor, "batch 1"]) -> Tensor:
    """Return the place, or the last number below the end."""
    return torch.minimum(place, torch.nextafter(end, end * 0))


def in_blocks(weights: Float[Tensor, "batch vocab_size"]) -> Float[Tensor, "batch blocks size"]:
    """Return each row as blocks, the last one filled up with zeros."""
    missing = -weights.shape[-1] % BLOCK
    filling = weights.new_zeros(weights.shape[0], missing)
    return torch.cat([weights, filling], dim=-1).unflatten(-1, (-1, BLOCK))


def largest(
    weights: Float[Tensor, "batch vocab_size"], num_largest: int
) -> Float[Tensor, "batch num_largest"]:
    """Return the largest weights of each row, the largest first; all must be 0 or greater.

    They lie in the blocks with the largest maxima: a weight of another block would have as many
    weights above it as there are such blocks. So few of the weights have to be put in order.
    """
    blocks = in_blocks(weights)
    if num_largest >= blocks.shape[-2]:
        return weights.topk(num_largest, dim=-1).values
    best = blocks.amax(dim=-1).topk(num_largest, dim=-1, sorted=False).indices
    candidates = blocks.take_along_dim(best.unsqueeze(-1), dim=-2).flatten(-2)
    return candidates.topk(num_largest, dim=-1).values


def least_kept(
    weights: Float[Tensor, "batch vocab_size"],
    top_k: int | None,
    top_p: Float[Tensor, ""] | None,
) -> Float[Tensor, "batch 1"]:
    """Return the lowest weight that top_k, and then top_p, leaves in each row."""
    if top_k is None:
        assert top_p is not None
        return _least_of_nucleus(weights, top_p)
    ordered = largest(weights, min(top_k, weights.shape[-1]))
    if top_p is not None:
        before = ordered.cumsum(dim=-1) - ordered
        is_enough = before >= top_p * ordered.sum(dim=-1, keepdim=True)
        ordered = ordered.masked_fill(is_enough, 1.0)
    return ordered.amin(dim=-1, keepdim=True)


def _least_of_nucleus(
    weights: Float[Tensor, "batch vocab_size"], top_p: Float[Tensor, ""]
) -> Float[Tensor, "batch 1"]:
    """Return the least weight w such that those above w sum to less than top_p.

    The bits of a positive float, read as an integer, are in the order of the floats, and below
    2^30 up to 1.0: so halving an interval of integers thirty times names the float exactly.
    """
    bits = weights.view(torch.int32)
    enough = top_p * weights.sum(dim=-1, keepdim=True)
    low = torch.zeros_like(bits[..., :1])
    high = bits.amax(dim=-1, keepdim=True)
    for _ in range(30):
        middle = (low + high) // 2
        above = weights.masked_fill(bits <= middle, 0).sum(dim=-1, keepdim=True)
        is_enough = above >= enough
        low = torch.where(is_enough, middle + 1, low)
        high = torch.where(is_enough, high, middle)
    return high.view(torch.float32)
