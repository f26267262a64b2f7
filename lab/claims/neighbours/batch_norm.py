"""Batch normalisation on a toy: what couples the samples of a batch."""

import torch
from torch import Tensor, nn

from cs_basics.norms import LayerNorm, RMSNorm
from lab.claims.claim import Intervals, Values, claim
from lab.claims.draws import largest, normal

SAMPLES, LENGTH, D = 4, 10, 16
MOMENTUM = 0.1
"""Share of a new batch in the running mean."""


class BatchNorm(nn.Module):
    """Normalise each coordinate over all samples and positions (Ioffe and Szegedy, alg. 1 and 2).

    While training the statistics are the batch's, and a running mean of them is kept; afterwards
    that running mean is used. (Algorithm 2 multiplies the variance by m / (m - 1) first.)

    Args:
        d_model: Size of the last axis.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mean, self.variance = torch.zeros(d_model), torch.ones(d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised x, (..., d_model)."""
        mean, variance = self.mean, self.variance
        if self.training:
            rows = x.reshape(-1, x.shape[-1])
            mean, variance = rows.mean(0), rows.var(0, correction=0)
            self.mean = torch.lerp(self.mean, mean.detach().float(), MOMENTUM)
            self.variance = torch.lerp(self.variance, variance.detach().float(), MOMENTUM)
        return (x - mean) * torch.rsqrt(variance + 1e-5)


def norms() -> dict[str, nn.Module]:
    """Return the norms that are compared."""
    return {"BatchNorm": BatchNorm(D), "LayerNorm": LayerNorm(D), "RMSNorm": RMSNorm(D)}


def moved(x: Tensor, changed: Tensor, *part: int | slice) -> Values:
    """Return how far a part of the output moves."""
    return {name: largest((norm(changed) - norm(x))[part]) for name, norm in norms().items()}


def other_samples(seed: int) -> Values:
    """How far the output of the first sample moves when the others change."""
    x = normal(seed, SAMPLES, LENGTH, D).float()
    changed = x.clone()
    changed[1:] = 1 + 2 * normal(seed + 1, SAMPLES - 1, LENGTH, D)
    return moved(x, changed, 0)


def padding(seed: int) -> Values:
    """How far the first sample's outputs move when the others are padded with zeros."""
    x = normal(seed, SAMPLES, LENGTH, D).float()
    padded = x.clone()
    padded[1:, LENGTH // 2 :] = 0.0
    return moved(x, padded, 0)


def gradient_of_others(seed: int) -> Values:
    """Size of the gradient of the first sample's output with respect to the other samples."""
    sizes: dict[str, float] = {}
    for name, norm in norms().items():
        x = normal(seed, SAMPLES, LENGTH, D).float().requires_grad_()
        cotangent = normal(seed + 1, LENGTH, D).float()
        (found,) = torch.autograd.grad(norm(x)[0], x, cotangent)
        sizes[name] = found[1:].norm().item()
    return sizes


def two_modes(seed: int) -> Values:
    """How far outputs differ between training and evaluation, after one batch."""
    x = 2 + normal(seed, SAMPLES, LENGTH, D).float()
    return {name: largest(norm.train()(x) - norm.eval()(x)) for name, norm in norms().items()}


def later_positions(seed: int) -> Values:
    """How far the first position's outputs move when later positions change: a look ahead."""
    x = normal(seed, SAMPLES, LENGTH, D).float()
    changed = x.clone()
    changed[:, 1:] *= 3
    return moved(x, changed, slice(None), 0)


@claim("batchnorm-batch-of-one", lambda v: v["BatchNorm"].most < 1e-06 and v["RMSNorm"].least > 0.9)
def batch_of_one(seed: int) -> Values:
    """RMS of the output for a batch of one sample with one position."""
    x = normal(seed, 1, 1, D).float()
    return {name: norm(x).square().mean().sqrt().item() for name, norm in norms().items()}


def is_of_batch_norm_alone(values: Intervals) -> bool:
    """Judge "BatchNorm does, the others do not"."""
    others = (values["LayerNorm"], values["RMSNorm"])
    return values["BatchNorm"].least > 1e-2 and all(o.most < 1e-6 for o in others)


for _name, _measure in {
    "couples": other_samples,
    "padding": padding,
    "gradients": gradient_of_others,
    "modes": two_modes,
    "looks-ahead": later_positions,
}.items():
    claim(f"batchnorm-{_name}", is_of_batch_norm_alone)(_measure)
