"""How the residual stream and the gradients depend on depth, in fresh models."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from cs_basics.functional import cross_entropy
from cs_basics.norms import RMSNorm
from cs_basics.settings.model import ModelConfig
from cs_basics.variants.model import Transformer
from lab.claims.rules import Figures

DEEPEST = 16
SHAPE = ModelConfig(
    vocab_size=256, context_length=32, d_model=128, d_ff=344, num_layers=DEEPEST, num_heads=4
)


def fresh(seed: int, num_layers: int, placement: Any = "pre") -> Any:  # noqa: ANN401
    """Return a model as it is initialised."""
    torch.manual_seed(seed)
    return Transformer(dataclasses.replace(SHAPE, placement=placement, num_layers=num_layers))


def loss_of(model: nn.Module, seed: int) -> Tensor:
    """Return the loss of a model on random tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(SHAPE.vocab_size, (4, SHAPE.context_length + 1), generator=generator)
    return cross_entropy(model(ids[:, :-1]), ids[:, 1:])


@torch.no_grad()
def stream(seed: int, placement: str) -> Figures:
    """Variance of the residual stream after the first and the last block."""
    model, seen = fresh(seed, DEEPEST, placement), list[float]()
    blocks: list[nn.Module] = [*model.layers]
    for block in blocks:
        block.register_forward_hook(lambda _block, _inputs, x: seen.append(x.var().item()))
    loss_of(model, seed)
    return {"first": seen[0], "last": seen[-1]}


def gradients(seed: int, num_layers: int, placement: str) -> list[float]:
    """Return the gradient norm of each block's last matrix."""
    model = fresh(seed, num_layers, placement)
    loss_of(model, seed).backward()
    return [block.ffn.w2.weight.grad.norm().item() for block in model.layers]


def gradient_growth(seed: int, *, placement: str) -> Figures:
    """Gradient of the last block's last matrix, deep / shallow, and of the first block's / last."""
    shallow, deep = (gradients(seed, depth, placement) for depth in (2, DEEPEST))
    return {"deep_by_shallow": deep[-1] / shallow[-1], "first_by_last": deep[0] / deep[-1]}


def eps_moved(seed: int, *, eps: float = 1e-5) -> Figures:
    """Change of a fresh model's loss when eps moves out of the root."""
    return change_by_eps(fresh(seed, 4), partial(loss_of, seed=seed), eps)


@torch.no_grad()
def change_by_eps(model: Any, loss: Callable[[Any], Tensor], eps: float = 1e-5) -> Figures:  # noqa: ANN401
    """Compare the loss of a model, and with eps outside the root of every norm."""
    seen: list[float] = []

    def outside(norm: Any, inputs: tuple[Tensor], _: Tensor) -> Tensor:  # noqa: ANN401
        rms = inputs[0].square().mean(dim=-1, keepdim=True).sqrt()
        seen.append(rms.min().item())
        return inputs[0] / (rms + eps) * norm.weight

    before = loss(model).item()
    for module in model.modules():
        if isinstance(module, RMSNorm):
            module.eps = eps
            module.register_forward_hook(outside)
    return {"change": abs(loss(model).item() - before), "smallest_rms": min(seen)}
