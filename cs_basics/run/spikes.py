"""Sudden jumps of the training loss. Tested by `make test ARGS=tests/project/test_watching.py`."""

import math
from dataclasses import asdict, dataclass

# The mean looks back over about fifty updates, and is not trusted before it has seen as many.
DECAY = 0.98
MIN_LOSSES = 50
# A loss is a spike if it lies so many standard deviations above the mean of those before it, and so
# many nats: late in a run the deviations are tiny.
DEVIATIONS = 6.0
MIN_NATS = 0.5


@dataclass(slots=True)
class SpikeDetector:
    """Tells when the loss jumps: once for each time that it does."""

    mean: float = 0.0
    """Of the losses so far, the latest counting most."""
    variance: float = 0.0
    """Likewise."""
    num_losses: int = 0
    """How many there were."""
    is_high: bool = False
    """Whether the last one belonged to a spike."""

    def is_new_spike(self, loss: float) -> bool:
        """Take in the loss of an update, and tell whether a spike begins with it."""
        limit = self.mean + max(DEVIATIONS * math.sqrt(self.variance), MIN_NATS)
        was_high = self.is_high
        self.is_high = self.num_losses >= MIN_LOSSES and loss > limit
        # At most the limit enters the mean, or a single spike would hide those that follow.
        deviation = (limit if self.is_high else loss) - self.mean
        self.num_losses += 1
        share = max(1 - DECAY, 1 / self.num_losses)
        self.mean += share * deviation
        self.variance = (1 - share) * (self.variance + share * deviation**2)
        return self.is_high and not was_high

    def state(self) -> dict[str, float]:
        """Return what a checkpoint has to keep."""
        return asdict(self)
