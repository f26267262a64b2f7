"""Operations and passes over memory of uncompiled norms, counted below autograd."""

from collections.abc import Callable
from itertools import islice

import torch

from cs_basics.run.model_config import ModelConfig
from cs_basics.study.accounting import forward_flops, num_norms
from lab.claims.claim import Intervals, Values, Verdict, claim
from lab.claims.counting import traffic
from lab.claims.norm_calls import calls_of, norms

ROWS, D = 256, 512
"""Counts do not depend on the size."""


def ratio(values: Intervals, direction: str) -> float:
    """Return RMSNorm's count relative to LayerNorm's."""
    return values[f"RMSNorm, {direction}"].mean / values[f"LayerNorm, {direction}"].mean


def of_formulas(values: Intervals) -> Verdict:
    """Judge "RMSNorm has fewer", of the formulas and of torch's kernels."""
    is_fewer = ratio(values, "both") < 1
    if values["torch.nn.RMSNorm, both"].mean > values["torch.nn.LayerNorm, both"].mean:
        return is_fewer and "true of the formulas, not of torch's kernels"
    return is_fewer


def counted(what: str, num_norms: int, *directions: str) -> Callable[[int], Values]:
    """Return the measurement: a count of Traffic for some norms."""

    def measure(_seed: int) -> Values:
        x = torch.randn(ROWS, D, requires_grad=True)
        return {
            f"{name}, {direction}": round(
                getattr(traffic(calls_of(module, x)[direction], x.numel()), what), 1
            )
            for name, module in islice(norms(D).items(), num_norms)
            for direction in directions
        }

    return measure


claim(
    "one-statistic",
    lambda v: (v["RMSNorm, forward"].mean, v["LayerNorm, forward"].mean) == (1, 2),
)(counted("num_reductions", 2, "forward"))
claim(
    "half-the-computation",
    lambda v: ratio(v, "forward") <= 0.5 or "true of the statistics, not of the operations",
)(counted("num_whole", 2, "forward"))
claim("fewer-operations", of_formulas)(counted("num_operations", 4, "forward", "both"))
claim("fewer-passes", of_formulas)(counted("num_passes", 4, "forward", "both"))


@claim("share-of-a-model", lambda v: v["share of the operations, %"].mean > 1)
def share_of_a_model(_seed: int) -> Values:
    """Operations of the norms of Llama 7B's shape, as a share of those of its products."""
    config = ModelConfig(
        vocab_size=32_000, context_length=2048, d_model=4096, d_ff=11_008, num_layers=32,
        num_heads=32,
    )  # fmt: skip
    products = sum(forward_flops(config).values())
    per_number = counted("num_whole", 1, "forward")(0)["RMSNorm, forward"]
    of_norms = num_norms(config) * config.context_length * config.d_model * per_number
    return {"share of the operations, %": 100 * of_norms / products}
