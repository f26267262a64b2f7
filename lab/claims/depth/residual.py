"""How the residual stream and the gradients depend on depth, in fresh models."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import torch
from matplotlib.axes import Axes
from torch import Tensor, nn

from cs_basics.functional import cross_entropy
from cs_basics.transformer import TransformerBlock, TransformerLM
from cs_basics.variants.config import ModelConfig
from cs_basics.variants.model import build_model
from lab.claims.claim import Claim, Intervals, Values, true_if
from lab.claims.sources import CIRCULATES, XIONG

Placement = Literal["pre", "post", "sandwich", "none"]
DEPTHS = (2, 4, 8, 16)
DEEPEST = DEPTHS[-1]
SHAPE = ModelConfig(
    vocab_size=256, context_length=32, d_model=128, d_ff=344, num_layers=DEEPEST, num_heads=4
)


def fresh(placement: Placement, num_layers: int, seed: int) -> TransformerLM:
    """Return a model as it is initialised."""
    torch.manual_seed(seed)
    return build_model(dataclasses.replace(SHAPE, placement=placement, num_layers=num_layers))


def loss_of(model: TransformerLM, seed: int) -> Tensor:
    """Return the loss of a model on random tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(SHAPE.vocab_size, (4, SHAPE.context_length + 1), generator=generator)
    return cross_entropy(model(ids[:, :-1]), ids[:, 1:])


def stream(seed: int) -> Values:
    """Variance of the residual stream after each block."""
    values: dict[str, float] = {}
    placements: tuple[Placement, ...] = ("pre", "post")
    for placement in placements:
        model, seen = fresh(placement, DEEPEST, seed), list[float]()

        def note(_module: nn.Module, _inputs: object, x: Tensor, seen: list[float] = seen) -> None:
            seen.append(x.var().item())

        for block in model.layers:
            block.register_forward_hook(note)
        with torch.no_grad():
            loss_of(model, seed)
        values |= {f"{placement}-norm, block {i}": v for i, v in enumerate(seen, start=1)}
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
    """Return the measurement: gradient of the last block's last matrix, by depth."""

    def measure(seed: int) -> Values:
        sizes = {depth: gradients(placement, depth, seed)[-1] for depth in DEPTHS}
        return {f"{depth} blocks": size for depth, size in sizes.items()} | {
            f"{DEEPEST} blocks / {DEPTHS[0]} blocks": sizes[DEEPEST] / sizes[DEPTHS[0]]
        }

    return measure


def along_depth(seed: int) -> Values:
    """Gradient of each block, and that of the first relative to the last."""
    values: dict[str, float] = {}
    placements: tuple[Placement, ...] = ("pre", "post")
    for placement in placements:
        sizes = gradients(placement, DEEPEST, seed)
        values[f"{placement}-norm, first / last"] = sizes[0] / sizes[-1]
        values |= {f"{placement}-norm, block {i}": size for i, size in enumerate(sizes, start=1)}
    return values


def draw_blocks(what: str) -> Callable[[Axes, Intervals], None]:
    """Return a function that draws values by block."""

    def draw(axes: Axes, values: Intervals) -> None:
        blocks = range(1, DEEPEST + 1)
        for placement in ("pre-norm", "post-norm"):
            means = [values[f"{placement}, block {block}"].mean for block in blocks]
            axes.plot(blocks, means, marker="o", label=placement)
        axes.set_yscale("log")
        axes.set_xlabel("block")
        axes.set_ylabel(what)
        axes.legend()

    return draw


GROWTH = f"{DEEPEST} blocks / {DEPTHS[0]} blocks"

CLAIMS = [
    Claim(
        name="stream-grows",
        says="With pre-norm the variance of the residual stream grows with depth; with post-norm "
        "it does not.",
        source=f"{XIONG}; circulates",
        shows="variance after blocks 1 and 16 of fresh models of 16 blocks, d = 128",
        measure=stream,
        verdict=lambda v: true_if(
            v["pre-norm, block 16"].least > 1.5 * v["pre-norm, block 1"].most
            and abs(v["post-norm, block 16"].mean / v["post-norm, block 1"].mean - 1) < 0.05
        ),
        shown=(
            "pre-norm, block 1",
            "pre-norm, block 16",
            "post-norm, block 1",
            "post-norm, block 16",
        ),
        draw=draw_blocks("variance of the residual stream"),
    ),
    Claim(
        name="post-norm-last-gradient",
        says="With post-norm the gradient of the last block does not depend on the depth.",
        source=f"{XIONG}, theorem 1",
        shows="gradient of the last feed-forward matrix at initialisation, 16 blocks / 2 blocks",
        measure=last_block("post"),
        verdict=lambda v: true_if(abs(v[GROWTH].mean - 1) < 0.2),
        shown=(GROWTH,),
    ),
    Claim(
        name="pre-norm-last-gradient",
        says="With pre-norm the gradient of the last block shrinks as 1 / sqrt(depth).",
        source=f"{XIONG}, theorem 1",
        shows="the same; 1 / sqrt(16 / 2) = 0.35. The embedding's share of the stream, larger than "
        "what a block adds, makes it shrink later",
        measure=last_block("pre"),
        verdict=lambda v: true_if(
            abs(v[GROWTH].mean - 0.354) < 0.15,
            "true of the direction" if v[GROWTH].most < 0.95 else "not seen",
        ),
        shown=(GROWTH,),
    ),
    Claim(
        name="first-block-gradient",
        says="With post-norm little gradient reaches the first block, with pre-norm as much as the "
        "last or more.",
        source=CIRCULATES,
        shows="gradient of the feed-forward matrix, block 1 / block 16, fresh models",
        measure=along_depth,
        verdict=lambda v: true_if(
            v["post-norm, first / last"].most < 0.5 and v["pre-norm, first / last"].least > 0.8
        ),
        shown=("pre-norm, first / last", "post-norm, first / last"),
        draw=draw_blocks("gradient of the feed-forward matrix"),
    ),
]
