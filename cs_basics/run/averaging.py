"""The mean of the weights over many updates, which replaces the weights at the end of a run."""

from typing import Any

from torch import Tensor, nn


class WeightAverage:
    """A running mean of the weights of a model.

    With decay 1 it is the plain mean of all weights added so far (stochastic weight averaging,
    Izmailov et al. 2018, https://arxiv.org/abs/1803.05407). With a smaller decay it starts as that
    mean and becomes an exponential moving average once 1 / (number of updates) < 1 - decay.

    Args:
        model: The model; its parameters are read and, by `swap`, written in place.
        start: The share of the run after which weights are averaged; 1: never.
        decay: The largest share of the mean that an update keeps.
    """

    def __init__(self, model: nn.Module, start: float, decay: float) -> None:
        self.weights: list[Tensor] = [parameter.detach() for parameter in model.parameters()]
        self.start, self.decay = start, decay
        self.count = 0
        self.is_swapped = False
        self.is_of_finished_run = False
        """Whether the mean is that of a finished run: if the run goes on, a new mean begins."""
        self.mean: list[Tensor] = []
        """The mean of each parameter; while swapped, the weights after the last update."""

    def add(self, progress: float) -> None:
        """Add the weights after an update to the mean, once the run has reached `start`."""
        if self.is_of_finished_run or progress < self.start:
            # Before the start there can be a mean: that of a run resumed with more steps.
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
        """Swap the weights of the model with their mean, or back; without a mean, do nothing."""
        if not self.mean:
            return
        for weight, mean in zip(self.weights, self.mean, strict=True):
            kept = weight.clone()
            weight.copy_(mean)
            mean.copy_(kept)
        self.is_swapped = not self.is_swapped

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores of the mean, besides the weights of the model."""
        return {"count": self.count, "is_swapped": self.is_swapped, "mean": self.mean}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state, after the weights of the same checkpoint have been loaded.

        Raises:
            ValueError: The state belongs to another model.
        """
        mean = state["mean"]
        if mean and [part.shape for part in mean] != [weight.shape for weight in self.weights]:
            raise ValueError("the mean does not have the shapes of the weights")
        self.count, self.is_swapped = state["count"], state["is_swapped"]
        self.mean = [part.to(w.device) for part, w in zip(mean, self.weights, strict=bool(mean))]
        if self.is_swapped:
            self.swap()
            self.is_of_finished_run = True
