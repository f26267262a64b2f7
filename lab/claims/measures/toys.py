"""Small problems, trained in seconds: one whose answer is the mean, images, padded sequences."""

from collections.abc import Callable, Mapping
from statistics import fmean

import torch
from torch import Tensor, nn

from cs_basics.layers import Linear
from cs_basics.optim import AdamW
from lab.claims.measures.draws import normal
from lab.claims.measures.forms import KINDS
from lab.claims.rules import Figures

Batch = tuple[Tensor, Tensor]


def squared(network: nn.Module, batch: Batch) -> Tensor:
    """Return the mean squared error."""
    return (network(batch[0]).squeeze(-1) - batch[1]).square().mean()


def train(network: nn.Module, batch: Callable[[int], Batch], steps: int, lr: float = 3e-3) -> None:
    """Lower the squared error of a network, a new batch for each update."""
    optimizer = AdamW(network.parameters(), lr=lr, weight_decay=0.0)
    for step in range(steps):
        optimizer.zero_grad()
        squared(network, batch(step)).backward()
        optimizer.step()


@torch.no_grad()
def error_of(network: nn.Module, batch: Batch) -> float:
    """Return the error on other samples, as a share of the targets' variance."""
    return (squared(network.eval(), batch) / batch[1].var()).item()


def mean_task(seed: int, *, norms: Mapping[str, str]) -> Figures:
    """Error of norm + two layers whose target is whether the mean of x is above 0, 500 updates."""

    def batch(step: int) -> Batch:
        x = normal(10_000 * seed + step, 64, 32).float() + normal(step, 64, 1).float()
        return x, x.mean(-1).sign()

    return {
        name: fitted(seed, nn.Sequential(KINDS[kind](32), hidden(32)), batch, 500)
        for name, kind in norms.items()
    }


def hidden(d: int) -> nn.Module:
    """Return a small network with one output."""
    return nn.Sequential(Linear(d, 64), nn.Tanh(), Linear(64, 1))


def fitted(seed: int, network: nn.Module, batch: Callable[[int], Batch], steps: int) -> float:
    """Train a network; return its error on other samples."""
    torch.manual_seed(seed)
    for module in network.modules():
        if isinstance(module, Linear):
            nn.init.normal_(module.weight, std=module.d_in**-0.5)
    train(network, batch, steps)
    return error_of(network, batch(-1 - seed))


class Patches(nn.Module):
    """Give the 3 x 3 neighbours of every pixel, (batch, rows, columns, channels), as one vector."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, rows - 2, columns - 2, 9 channels)."""
        return x.unfold(1, 3, 1).unfold(2, 3, 1).flatten(-3)


def neighbours(x: Tensor) -> float:
    """Return the correlation of each pixel with the one below, mean over channels."""
    pairs = [torch.stack([c[:, 1:].flatten(), c[:, :-1].flatten()]) for c in x.unbind(-1)]
    return fmean(torch.corrcoef(pair)[0, 1].item() for pair in pairs)


def images(seed: int, *, norms: Mapping[str, str], steps: int = 100) -> Figures:
    """Train small convolutional networks to tell lying from standing gratings; look inside.

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

    figures: dict[str, float] = {}
    for name, kind in norms.items():
        norm, other = (KINDS[kind](8) for _ in range(2))
        seen: list[tuple[Tensor, Tensor]] = []
        norm.register_forward_hook(lambda _, x, y, seen=seen: seen.append((x[0], y)))
        network = nn.Sequential(
            Patches(), Linear(9, 8), norm, nn.ReLU(), Patches(), Linear(72, 8), other, nn.ReLU(),
            Patches(), Linear(72, 8), nn.Flatten(1, 2), Mean(), Linear(8, 1),
        )  # fmt: skip
        figures[f"{name}_error"] = fitted(seed, network, batch, steps)
        before, after = (neighbours(x.detach()) for x in seen[-1])
        figures |= {f"{name}_before": before, f"{name}_after": after}
    return figures


class Mean(nn.Module):
    """Take the mean over positions."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, positions, d) to (batch, d)."""
        return x.mean(1)


class Pooled(nn.Module):
    """Normalise tokens, (batch, positions, d), and give the mean over those that are no padding."""

    def __init__(self, kind: str, *, sees_padding: bool) -> None:
        super().__init__()
        self.norm, self.sees_padding = KINDS[kind](16), sees_padding

    def forward(self, x: Tensor) -> Tensor:
        """Return the pooled vectors, (batch, d)."""
        is_token = (x != 0).any(-1, keepdim=True)
        if self.sees_padding:
            normed = self.norm(x) * is_token
        else:
            normed = torch.zeros_like(x).masked_scatter(
                is_token.expand_as(x), self.norm(x[is_token.squeeze(-1)])
            )
        return normed.sum(1) / is_token.sum(1)


def padding(seed: int, *, norms: Mapping[str, str], unseen: str = "BatchNorm") -> Figures:
    """Error of networks that read padded sequences, the norm with and without the padding.

    Args:
        seed: Decides data and weights.
        norms: Kinds that see the padding, by name.
        unseen: The kind that sees none of it, "unseen".
    """

    def batch(step: int) -> Batch:
        x = 2 + normal(10_000 * seed + step, 32, 20, 16).float()
        # A batch has many short sequences or few.
        length = 1 + (19 * normal(step, 32, 1).abs().clamp(max=1) * (step % 7) / 6).long()
        x = x * (torch.arange(20) < length)[..., None]
        return x, (x.sum(1) / length - 2)[:, :4].sum(-1)

    kinds = {name: (kind, True) for name, kind in norms.items()} | {"unseen": (unseen, False)}
    return {
        name: fitted(seed, nn.Sequential(Pooled(kind, sees_padding=sees), hidden(16)), batch, 300)
        for name, (kind, sees) in kinds.items()
    }
