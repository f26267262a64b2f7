"""Sampling for compiled code: `sample` of generate.py without sorting the vocabulary.

The reference implementation sorts all probabilities, which takes longer than a small model. But
only the smallest probability that is kept has to be known:

- with top_k it is among the k largest, which lie in at most k blocks of the vocabulary;
- with top_p alone it is found by bisection: 30 sums over probabilities that stay in the cache.

A token is drawn in two steps, first its block and then its place in the block. Settings are passed
as tensors, so that the step is not compiled again for other values.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cs_basics.generate import Sampling

BLOCK = 16
"""Tokens per block: a compromise between the number of blocks and the work within them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingTensors:
    """The settings of Sampling as arguments of a compiled function; None switches one off."""

    temperature: Float[Tensor, ""] | None
    """None: greedy decoding."""
    top_k: int | None
    top_p: Float[Tensor, ""] | None

    @classmethod
    def of(cls, sampling: Sampling, device: torch.device) -> Self:
        """Convert a Sampling."""

        def tensor(value: float | None, off: float | None) -> Tensor | None:
            return None if value in (None, off) else torch.tensor(value, device=device)

        return cls(
            temperature=tensor(sampling.temperature, 0),
            top_k=sampling.top_k,
            top_p=tensor(sampling.top_p, 1),
        )


def sample_fast(
    logits: Float[Tensor, "batch vocab_size"],
    tensors: SamplingTensors,
    uniform: Float[Tensor, " batch"],
) -> Int[Tensor, " batch"]:
    """Draw the token that `sample` draws in each row; `uniform` holds its random numbers."""
    logits = logits.float()
    if tensors.temperature is None:
        return logits.argmax(dim=-1)
    scores = logits - logits.amax(dim=-1, keepdim=True)
    # Unnormalised probabilities, the highest 1: nothing below depends on their sum.
    weights = torch.exp(scores / tensors.temperature)
    if tensors.top_k is None and tensors.top_p is None:
        return draw_fast(weights, uniform)
    least = least_kept(weights, tensors.top_k, tensors.top_p)
    return draw_fast(weights.masked_fill(weights < least, 0), uniform)


def draw_fast(
    weights: Float[Tensor, "batch vocab_size"], uniform: Float[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """Draw an index per row, each with a probability proportional to its weight, as `sample` does.

    A cumulative sum is sequential, so it is taken over the sums of blocks, and then within the one
    block that is drawn.
    """
    blocks = in_blocks(weights)
    sums = blocks.sum(dim=-1)
    ends = sums.cumsum(dim=-1)
    point = uniform.unsqueeze(-1) * ends[:, -1:]
    number = (ends <= point).sum(dim=-1, keepdim=True)
    before = torch.where(number > 0, ends.gather(-1, (number - 1).clamp(min=0)), 0)
    inner_ends = blocks.take_along_dim(number.unsqueeze(-1), dim=-2).squeeze(-2).cumsum(dim=-1)
    # The sum of the block and its cumulative sum may be rounded differently: the last token with a
    # weight takes what is left.
    is_before = (inner_ends <= point - before) & (inner_ends < inner_ends[:, -1:])
    return (number * BLOCK).squeeze(-1) + is_before.sum(dim=-1)


def in_blocks(weights: Float[Tensor, "batch vocab_size"]) -> Float[Tensor, "batch blocks size"]:
    """Split each row into blocks; the last one is padded with zeros."""
    missing = -weights.shape[-1] % BLOCK
    filling = weights.new_zeros(weights.shape[0], missing)
    return torch.cat([weights, filling], dim=-1).unflatten(-1, (-1, BLOCK))


def largest(
    weights: Float[Tensor, "batch vocab_size"], num_largest: int
) -> Float[Tensor, "batch num_largest"]:
    """Return the largest weights of each row, the largest first; all must be 0 or greater.

    They lie in the num_largest blocks with the largest maxima, since no weight of another block is
    larger than any of these maxima. So only the weights of these blocks have to be sorted.
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
    """Return the lowest weight of each row that passes top_k and then top_p."""
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
    """Return the smallest weight w such that the weights above w sum to less than top_p.

    Positive floats are ordered like their bits read as integers, which are below 2^30 up to 1.0. So
    thirty bisections of that range of integers find the float exactly.
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
