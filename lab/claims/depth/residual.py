"""How the residual stream and the gradients depend on depth, in fresh models."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from cs_basics.functional import cross_entropy
from cs_basics.run.model_config import ModelConfig
from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.model import Transformer
from lab.claims.claim import Values, claim

Placement = Literal["pre", "post"]
PLACEMENTS: tuple[Placement, ...] = ("pre", "post")
DEEPEST = 16
GROWTH = "16 blocks / 2 blocks"
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


@claim(
    "stream-grows",
    lambda v: (
        v["pre-norm, block 16"].least > 1.5 * v["pre-norm, block 1"].most
        and abs(v["post-norm, block 16"].mean / v["post-norm, block 1"].mean - 1) < 0.05
    ),
)
def stream(seed: int) -> Values:
    """Variance of the residual stream after the first and the last block."""
    values: dict[str, float] = {}
    for placement in PLACEMENTS:
        model, seen = fresh(placement, DEEPEST, seed), list[float]()

        def note(_module: nn.Module, _inputs: object, x: Tensor, seen: list[float] = seen) -> None:
            seen.append(x.var().item())

        for block in model.layers:
            block.register_forward_hook(note)
        with torch.no_grad():
            loss_of(model, seed)
        values |= {f"{placement}-norm, block {i}": seen[i - 1] for i in (1, DEEPEST)}
    return values


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


def last_block(placement: Placement) -> Callable[[int], Values]:
    """Return the measurement: gradient of the last block's last matrix, 16 blocks / 2."""

    def measure(seed: int) -> Values:
        shallow, deep = (gradients(placement, depth, seed)[-1] for depth in (2, DEEPEST))
        return {GROWTH: deep / shallow}

    return measure


@claim(
    "first-block-gradient",
    lambda v: v["post-norm, first / last"].most < 0.5 and v["pre-norm, first / last"].least > 0.8,
)
def along_depth(seed: int) -> Values:
    """Gradient of the first block relative to that of the last."""
    pre, post = (gradients(placement, DEEPEST, seed) for placement in PLACEMENTS)
    return {
        "pre-norm, first / last": pre[0] / pre[-1],
        "post-norm, first / last": post[0] / post[-1],
    }


claim("post-norm-last-gradient", lambda v: abs(v[GROWTH].mean - 1) < 0.2)(last_block("post"))
claim(
    "pre-norm-last-gradient",
    lambda v: (
        abs(v[GROWTH].mean - 0.354) < 0.15
        or ("true of the direction" if v[GROWTH].most < 0.95 else "not seen")
    ),
)(last_block("pre"))
