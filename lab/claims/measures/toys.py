"""Small problems, trained in seconds: the mean is the answer, images, padding, overfitting."""

from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch
from einops.layers.torch import Reduce
from torch import Tensor, nn

from cs_basics.layers import Linear
from cs_basics.optim import AdamW
from lab.claims.measures.draws import normal
from lab.claims.measures.forms import KINDS
from lab.claims.rules import Figures

Batch = tuple[Tensor, Tensor]
NOISE = 0.5
"""Standard deviation of the noise in the overfitted toys' targets."""
FITTED = NOISE**2 / 2
"""Training error at which they are compared: half of the noise has been learnt by heart."""
TOYS = 8
"""Overfitted toys of a seed, each with its own samples."""


def squared(network: nn.Module, batch: Batch) -> Tensor:
    """Return the mean squared error."""
    return (network(batch[0]).squeeze(-1) - batch[1]).square().mean()


def train(
    network: nn.Module, batch: Callable[[int], Batch], steps: int, fitted: float = 0.0
) -> bool:
    """Lower the squared error of a network, a new batch for each update, to `fitted`.

    Returns:
        Whether it came so low.
    """
    optimizer = AdamW(network.parameters(), lr=3e-3, weight_decay=0.0)
    for step in range(steps):
        optimizer.zero_grad()
        loss = squared(network, batch(step))
        if loss.item() <= fitted:
            return True
        loss.backward()
        optimizer.step()
    return False


def error_of(network: nn.Module, batch: Callable[[int], Batch], seed: int, steps: int) -> float:
    """Train a network; return its error on other samples, as a share of the targets' variance."""
    torch.manual_seed(seed)
    for module in network.modules():
        if isinstance(module, Linear):
            nn.init.normal_(module.weight, std=module.d_in**-0.5)
    train(network, batch, steps)
    other = batch(-1 - seed)
    with torch.no_grad():
        return (squared(network.eval(), other) / other[1].var()).item()


def hidden(d: int) -> nn.Module:
    """Return a small network with one output."""
    return nn.Sequential(Linear(d, 64), nn.Tanh(), Linear(64, 1))


def mean_task(seed: int, kind: str) -> Figures:
    """Error of norm + two layers whose target is whether the mean of x is above 0, 500 updates."""

    def batch(step: int) -> Batch:
        x = normal(10_000 * seed + step, 64, 32).float() + normal(step, 64, 1).float()
        return x, x.mean(-1).sign()

    return {"": error_of(nn.Sequential(KINDS[kind](32), hidden(32)), batch, seed, 500)}


class Patches(nn.Module):
    """Give the 3 x 3 neighbours of every pixel, (batch, rows, columns, channels), as one vector."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, rows - 2, columns - 2, 9 channels)."""
        return x.unfold(1, 3, 1).unfold(2, 3, 1).flatten(-3)


def neighbours(x: Tensor) -> float:
    """Return the correlation of each pixel with the one below, mean over channels."""
    pairs = [torch.stack([c[:, 1:].flatten(), c[:, :-1].flatten()]) for c in x.unbind(-1)]
    return fmean(torch.corrcoef(pair)[0, 1].item() for pair in pairs)


def images(seed: int, kind: str) -> Figures:
    """Train a small convolutional network to tell lying from standing gratings; look inside.

    Each image, (12, 12, 1), has its own phase, brightness, contrast and noise. Figures: error, and
    correlation of neighbours before the first norm and after it.
    """

    def batch(step: int) -> Batch:
        draws = normal(10_000 * seed + step, 64, 148, 1).float()
        phase, which, contrast, brightness, *noise = draws.unbind(1)
        wave = torch.cos(torch.arange(12) * 1.5 + 3 * phase)[:, None, :].expand(-1, 12, -1)
        image = torch.where(which[..., None] > 0, wave, wave.mT) * (0.5 + contrast.abs()[..., None])
        image = image + 3 * brightness[..., None] + torch.cat(noise, 1).view(-1, 12, 12)
        return image[..., None], which.sign().flatten()

    norm, other = (KINDS[kind](8) for _ in range(2))
    seen = list[Any]()
    norm.register_forward_hook(lambda _, x, y: seen.append((x[0], y)))
    network = nn.Sequential(
        Patches(), Linear(9, 8), norm, nn.ReLU(), Patches(), Linear(72, 8), other, nn.ReLU(),
        Patches(), Linear(72, 8), Reduce("batch rows columns d -> batch d", "mean"), Linear(8, 1),
    )  # fmt: skip
    error = error_of(network, batch, seed, 100)
    before, after = (neighbours(x.detach()) for x in seen[-1])
    return {"error": error, "before": before, "after": after}


class Pooled(nn.Module):
    """Normalise tokens, (batch, positions, d), and give the mean over those that are no padding."""

    def __init__(self, kind: str, *, sees_padding: bool) -> None:
        super().__init__()
        self.norm, self.sees_padding = KINDS[kind](16), sees_padding

    def forward(self, x: Tensor) -> Tensor:
        """Return the pooled vectors, (batch, d)."""
        is_token = (x != 0).any(-1)
        normed = torch.zeros_like(x)
        looked_at = torch.ones_like(is_token) if self.sees_padding else is_token
        normed[looked_at] = self.norm(x[looked_at])
        return (normed * is_token[..., None]).sum(1) / is_token.sum(1, keepdim=True)


def padding(seed: int, kind: str) -> Figures:
    """Error of networks that read padded sequences, the norm with and without the padding."""

    def batch(step: int) -> Batch:
        x = 2 + normal(10_000 * seed + step, 32, 20, 16).float()
        # A batch has many short sequences or few.
        length = 1 + (19 * normal(step, 32, 1).abs().clamp(max=1) * (step % 7) / 6).long()
        x = x * (torch.arange(20) < length)[..., None]
        return x, (x.sum(1) / length - 2)[:, :4].sum(-1)

    pools = {name: Pooled(kind, sees_padding=name == "seen") for name in ("seen", "unseen")}
    return {
        name: error_of(nn.Sequential(pool, hidden(16)), batch, seed, 300)
        for name, pool in pools.items()
    }


def error_when_fitted(kind: str, seed: int) -> float:
    """Train until the training error is FITTED; return the error on samples without noise."""
    torch.manual_seed(seed)
    teacher = normal(4 * seed, 32, 4).float()
    x, unseen = (normal(4 * seed + i, n, 32).float() for i, n in ((1, 256), (2, 4_096)))

    def truth(inputs: Tensor) -> Tensor:
        return torch.tanh(inputs @ teacher / 32**0.5).sum(-1)

    targets = truth(x) + NOISE * normal(4 * seed + 3, 256).float()
    network = nn.Sequential(Linear(32, 128), KINDS[kind](128), nn.SiLU(), Linear(128, 1))
    assert train(network, lambda _: (x, targets), 2_000, FITTED), "the toy was not fitted"
    with torch.no_grad():
        return squared(network, (unseen, truth(unseen))).item()


def overfitted(seed: int, kind: str) -> Figures:
    """Error on unseen samples of several toys, all equally well fitted to the training samples."""
    seeds = range(TOYS * seed, TOYS * (seed + 1))
    return {"": fmean(error_when_fitted(kind, toy) for toy in seeds)}
