"""Muon with all matrices of equal shape in one product, in the type whose products are fastest."""

from typing import Any

import torch
from torch import Tensor

from cs_basics.fast.adamw import FusedAdamW
from cs_basics.variants.muon import Coefficients, Muon, minimax, rate


class StackedMuon(Muon, FusedAdamW):
    """Muon whose orthogonal updates are computed for stacks of matrices.

    Arguments, errors and state dict as in Muon. The gradients of matrices hold garbage afterwards.
    """

    dtype = torch.float32
    """Type of the products; singular values are approximate anyway."""

    def update_matrices(self, group: dict[str, Any]) -> None:
        """Update the matrices of a group that have a gradient, and their momenta, in place."""
        momentum = group["momentum"]
        stacks: dict[tuple[int, int], list[Tensor]] = {}
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                state["m"] = torch.zeros_like(p)
            state["m"].lerp_(p.grad, 1 - momentum)
            p.grad.lerp_(state["m"], momentum)
            stacks.setdefault((min(p.shape), max(p.shape)), []).append(p)
        for shape, matrices in stacks.items():
            stack = matrices[0].new_empty((len(matrices), *shape), dtype=self.dtype)
            for part, p in zip(stack, matrices, strict=True):
                like(p, part).copy_(p.grad)  # pyright: ignore[reportArgumentType]
            stack = orthogonalised_in_place(stack, minimax(group["num_steps"]))
            for part, p in zip(stack, matrices, strict=True):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(like(p, part), alpha=rate(group["lr"], p))


def like(matrix: Tensor, part: Tensor) -> Tensor:
    """Transpose `part` if the matrix is taller than wide."""
    return part.mT if matrix.shape[0] > matrix.shape[1] else part


def orthogonalised_in_place(x: Tensor, coefficients: Coefficients) -> Tensor:
    """Return `orthogonalised` of a stack of matrices no taller than wide, overwriting the stack."""
    norms = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True, dtype=torch.float32)
    x.div_(1.01 * norms + 1e-7)
    for a, b, c in coefficients:
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
