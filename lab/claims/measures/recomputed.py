"""A block of which only the input is kept, and the rest computed again in the backward pass."""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cs_basics.transformer import TransformerBlock
from lab.claims.measures.draws import normal
from lab.claims.rules import Figures


def kept(seed: int, *, is_recomputed: bool = True) -> Figures:
    """Largest difference of output and gradients, and share of the numbers that are kept."""
    torch.manual_seed(seed)
    block = TransformerBlock(32, 2, 64, dtype=torch.float64)
    x, cotangent = normal(seed, 2, 16, 32), normal(seed + 1, 2, 16, 32)
    found: list[list[Tensor]] = []
    sizes: list[int] = []
    for again in (False, is_recomputed):
        held: dict[int, int] = {}

        def note(number: Tensor, held: dict[int, int] = held) -> Tensor:
            held[number.data_ptr()] = number.numel()
            return number

        leaves = [x.detach().requires_grad_(), *block.parameters()]
        with torch.autograd.graph.saved_tensors_hooks(note, lambda number: number):
            output = (
                checkpoint(block, leaves[0], use_reentrant=False) if again else block(leaves[0])
            )
        sizes.append(sum(held.values()))
        found.append([output, *torch.autograd.grad(output, leaves, cotangent)])
    apart = [(one - other).abs().max() for one, other in zip(*found, strict=True)]
    return {"apart": torch.stack(apart).max().item(), "kept_percent": 100 * sizes[1] / sizes[0]}
