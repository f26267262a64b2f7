"""How the residual stream and the gradients depend on depth, in fresh models."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from cs_basics.functional import cross_entropy
from cs_basics.norms import RMSNorm
from cs_basics.run.model_config import ModelConfig
from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.model import Transformer
from lab.claims.measures.forms import FORMS
from lab.claims.rules import Figures

Placement = Literal["pre", "post"]
DEEPEST = 16
SHAPE = ModelConfig(
    vocab_size=256, context_length=32, d_model=128, d_ff=344, num_layers=DEEPEST, num_heads=4
)


def fresh(placement: Placement, num_layers: int, seed: int) -> TransformerLM:
    """Return a model as it is initialised."""
    torch.manual_seed(seed)
    return Transformer(dataclasses.replace(SHAPE, placement=placement, num_layers=num_layers))


def loss_of(model: TransformerLM, seed: int) -> Tensor:
    """Return the loss of a model on random tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(SHAPE.vocab_size, (4, SHAPE.context_length + 1), generator=generator)
    return cross_entropy(model(ids[:, :-1]), ids[:, 1:])


def stream(seed: int, *, one: Placement, other: Placement) -> Figures:
    """Variance of the residual stream after the first and the last block, for two placements."""
    figures: dict[str, float] = {}
    placements: dict[str, Placement] = {"one": one, "other": other}
    for name, placement in placements.items():
        model, seen = fresh(placement, DEEPEST, seed), list[float]()

        def note(_module: nn.Module, _inputs: object, x: Tensor, seen: list[float] = seen) -> None:
            seen.append(x.var().item())

        for block in model.layers:
            block.register_forward_hook(note)
        with torch.no_grad():
            loss_of(model, seed)
        figures |= {f"{name}_first": seen[0], f"{name}_last": seen[-1]}
    return figures


def gradients(placement: Placement, num_layers: int, seed: int) -> list[float]:
    """Return the gradient norm of each block's last matrix."""
    model = fresh(placement, num_layers, seed)
    loss_of(model, seed).backward()
    sizes: list[float] = []
    for block in model.layers:
        assert isinstance(block, TransformerBlock)
        gradient = block.ffn.w2.weight.grad
        assert gradient is not None
        sizes.append(gradient.norm().item())
    return sizes


def gradient_growth(seed: int, *, placement: Placement) -> Figures:
    """Gradient of the last block's last matrix, deep / shallow, and of the first block's / last."""
    shallow, deep = (gradients(placement, depth, seed) for depth in (2, DEEPEST))
    return {"deep_by_shallow": deep[-1] / shallow[-1], "first_by_last": deep[0] / deep[-1]}


def eps_moved(seed: int, *, eps: float = 1e-5) -> Figures:
    """Change of a fresh model's loss when eps moves out of the root."""
    torch.manual_seed(seed)
    return change_by_eps(fresh("pre", 4, seed), partial(loss_of, seed=seed), eps)


def change_by_eps(
    model: TransformerLM, loss: Callable[[TransformerLM], Tensor], eps: float = 1e-5
) -> Figures:
    """Compare the loss of a model, and with eps outside the root of every norm."""
    seen: list[float] = []

    def outside(norm: nn.Module, inputs: tuple[Tensor], _: Tensor) -> Tensor:
        assert isinstance(norm, RMSNorm)
        seen.append(inputs[0].square().mean(dim=-1).sqrt().min().item())
        return FORMS["eps outside"](inputs[0], norm.weight, eps)

    with torch.no_grad():
        before = loss(model).item()
        for module in model.modules():
            if isinstance(module, RMSNorm):
                module.eps = eps
                module.register_forward_hook(outside)
        after = loss(model).item()
    return {"change": abs(after - before), "smallest_rms": min(seen)}
