"""The mean of the weights over many updates, which stands for the weights when a run is over."""

from typing import Any

from torch import Tensor, nn


class WeightAverage:
    """A running mean of the weights of a model.

    With decay 1 it is the mean of all weights it was told of (stochastic weight averaging, Izmailov
    et al. 2018, https://arxiv.org/abs/1803.05407). With a smaller one it is that mean at first, and
    an exponential moving average from the update on at which 1 / n falls below 1 - decay.

    Args:
        model: The model; its parameters are read and, by `swap`, written in place.
        start: The share of the run from which on weights count; 1: none do.
        decay: How much of the mean an update keeps at most.
    """

    def __init__(self, model: nn.Module, start: float, decay: float) -> None:
        self.weights: list[Tensor] = [parameter.detach() for parameter in model.parameters()]
        self.start, self.decay = start, decay
        self.count = 0
        self.is_swapped = False
        self.is_of_finished_run = False
        """Whether the run was over once: if it goes on, a new mean begins."""
        self.mean: list[Tensor] = []
        """Parameter by parameter; the weights of the last update while these are swapped."""

    def add(self, progress: float) -> None:
        """Let the weights of an update count, if the run is as far as that."""
        if self.is_of_finished_run:
            self.is_of_finished_run, self.count, self.mean = False, 0, []
        if self.start == 1 or progress < self.start:
            return
        self.count += 1
        if not self.mean:
            self.mean = [weight.clone() for weight in self.weights]
            return
        for mean, weight in zip(self.mean, self.weights, strict=True):
            mean.lerp_(weight, max(1 / self.count, 1 - self.decay))

    def swap(self) -> None:
        """Exchange the weights of the model for their mean, or back; nothing without a mean."""
        if not self.mean:
            return
        for weight, mean in zip(self.weights, self.mean, strict=True):
            kept = weight.clone()
            weight.copy_(mean)
            mean.copy_(kept)
        self.is_swapped = not self.is_swapped

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it, besides the weights of the model."""
        return {"count": self.count, "is_swapped": self.is_swapped, "mean": self.mean}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state, once the weights of the same checkpoint are loaded.

        Raises:
            ValueError: It is not of this model.
        """
        mean = state["mean"]
        if mean and [part.shape for part in mean] != [weight.shape for weight in self.weights]:
            raise ValueError("the mean has not the shapes of the weights")
        self.count, self.is_swapped = state["count"], state["is_swapped"]
        self.mean = [part.to(w.device) for part, w in zip(mean, self.weights, strict=bool(mean))]
        if self.is_swapped:
            self.swap()
            self.is_of_finished_run = True
