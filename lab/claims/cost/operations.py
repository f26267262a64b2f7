"""Operations and passes over memory of uncompiled norms, counted below autograd."""

import torch

from cs_basics.study.accounting import forward_flops, num_norms
from cs_basics.variants.config import ModelConfig
from lab.claims.claim import Claim, Intervals, Values, true_if
from lab.claims.counting import traffic
from lab.claims.norm_calls import calls_of, norms
from lab.claims.sources import CIRCULATES, ZHANG

ROWS, D = 256, 512
"""Counts do not depend on the size."""


def counts(_seed: int) -> Values:
    """Count what each norm does: in all, over all of x, reductions, passes."""
    x = torch.randn(ROWS, D, requires_grad=True)
    values: dict[str, float] = {}
    for name, module in norms(D).items():
        for direction, call in calls_of(module, x, torch.ones_like(x)).items():
            counted = traffic(call, x.numel())
            values |= {
                f"{name}, {direction}: operations": counted.num_operations,
                f"{name}, {direction}: over all of x": counted.num_whole,
                f"{name}, {direction}: reductions": counted.num_reductions,
                f"{name}, {direction}: passes": round(counted.num_bytes / x.nbytes, 1),
            }
    return values


def ratio(values: Intervals, what: str) -> float:
    """Return RMSNorm's count relative to LayerNorm's."""
    return values[f"RMSNorm, {what}"].mean / values[f"LayerNorm, {what}"].mean


def share_of_a_model(_seed: int) -> Values:
    """Operations of the norms of Llama 7B's shape, as a share of those of its products."""
    config = ModelConfig(
        vocab_size=32_000, context_length=2048, d_model=4096, d_ff=11_008, num_layers=32,
        num_heads=32,
    )  # fmt: skip
    products = sum(forward_flops(config).values())
    of_norms = num_norms(config) * config.context_length * config.d_model * per_number("RMSNorm")
    return {"share of the operations, %": 100 * of_norms / products}


def per_number(name: str) -> float:
    """Return the operations of a norm's forward for each number of x."""
    return counts(0)[f"{name}, forward: over all of x"]


CLAIMS = [
    Claim(
        name="one-statistic",
        says="RMSNorm needs one statistic of each vector, LayerNorm two.",
        source=f"{ZHANG}, sec. 4",
        shows="reductions over all of x in the forward, uncompiled",
        measure=counts,
        verdict=lambda v: true_if(
            v["RMSNorm, forward: reductions"].mean == 1
            and v["LayerNorm, forward: reductions"].mean == 2
        ),
        shown=("RMSNorm, forward: reductions", "LayerNorm, forward: reductions"),
        is_exact=True,
    ),
    Claim(
        name="half-the-computation",
        says="RMSNorm saves 50 % of the computation.",
        source=CIRCULATES,
        shows="operations over all of x in the forward; half of the statistics are saved, which is "
        "what seems to be meant",
        measure=counts,
        verdict=lambda v: (
            "true of the statistics, not of the operations"
            if ratio(v, "forward: reductions") == 0.5 < ratio(v, "forward: over all of x")
            else true_if(ratio(v, "forward: over all of x") <= 0.5)
        ),
        shown=("RMSNorm, forward: over all of x", "LayerNorm, forward: over all of x"),
        is_exact=True,
    ),
    Claim(
        name="fewer-operations",
        says="RMSNorm is fewer operations than LayerNorm.",
        source=CIRCULATES,
        shows="operations that run below autograd, uncompiled (torch's LayerNorm is one)",
        measure=counts,
        verdict=lambda v: (
            "true of the formulas, not of torch's kernels"
            if ratio(v, "forward: operations") < 1
            and v["torch.nn.RMSNorm, both: operations"].mean
            > v["torch.nn.LayerNorm, both: operations"].mean
            else true_if(ratio(v, "forward: operations") < 1)
        ),
        shown=tuple(
            f"{name}, {direction}: operations"
            for name in ("RMSNorm", "LayerNorm", "torch.nn.RMSNorm", "torch.nn.LayerNorm")
            for direction in ("forward", "both")
        ),
        is_exact=True,
    ),
    Claim(
        name="fewer-passes",
        says="RMSNorm moves less memory than LayerNorm.",
        source=CIRCULATES,
        shows="reads and writes of a tensor of x's size, uncompiled; the least is 2 forward, "
        "5 with backward",
        measure=counts,
        verdict=lambda v: (
            "true of the formulas, not of torch's kernels"
            if ratio(v, "both: passes") < 1
            and v["torch.nn.RMSNorm, both: passes"].mean
            > v["torch.nn.LayerNorm, both: passes"].mean
            else true_if(ratio(v, "both: passes") < 1)
        ),
        shown=tuple(
            f"{name}, {direction}: passes"
            for name in ("RMSNorm", "LayerNorm", "torch.nn.RMSNorm", "torch.nn.LayerNorm")
            for direction in ("forward", "both")
        ),
        is_exact=True,
    ),
    Claim(
        name="share-of-a-model",
        says="Norms are a considerable part of a model's computation.",
        source=CIRCULATES,
        shows="operations of all norms beside those of all matrix products, shape of Llama 7B, "
        "2,048 tokens (their share of the time is larger: they are bound by memory)",
        measure=share_of_a_model,
        verdict=lambda v: true_if(v["share of the operations, %"].mean > 1),
        is_exact=True,
    ),
]
