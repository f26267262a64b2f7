"""Detection of spikes: sudden jumps of the training loss."""

import math
from dataclasses import asdict, dataclass

# Decay of the moving averages, which reach back over about fifty updates; no spike is reported
# before they have seen that many losses.
DECAY = 0.98
MIN_LOSSES = 50
# A loss is a spike if it exceeds the mean of those before it by this many standard deviations and
# this many nats; the second condition matters late in a run, when the deviations are tiny.
DEVIATIONS = 6.0
MIN_NATS = 0.5


@dataclass(slots=True)
class SpikeDetector:
    """Detects spikes from the losses of successive updates; each spike is reported once."""

    mean: float = 0.0
    """Exponential moving average of the losses."""
    variance: float = 0.0
    """Exponential moving variance of the losses."""
    num_losses: int = 0
    """Number of losses so far."""
    is_high: bool = False
    """Whether the last loss was part of a spike."""

    def is_new_spike(self, loss: float) -> bool:
        """Add the loss of an update; return whether a spike starts with it."""
        limit = self.mean + max(DEVIATIONS * math.sqrt(self.variance), MIN_NATS)
        was_high = self.is_high
        self.is_high = self.num_losses >= MIN_LOSSES and loss > limit
        # Losses enter the averages clipped at the limit, or one spike would hide the next ones.
        deviation = (limit if self.is_high else loss) - self.mean
        self.num_losses += 1
        share = max(1 - DECAY, 1 / self.num_losses)
        self.mean += share * deviation
        self.variance = (1 - share) * (self.variance + share * deviation**2)
        return self.is_high and not was_high

    def state(self) -> dict[str, float]:
        """Return the constructor's arguments that restore this state from a checkpoint."""
        return asdict(self)
