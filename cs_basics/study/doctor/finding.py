"""What a check finds."""

from dataclasses import dataclass

ORDER = """
    token-dtype tokenizer batches-wrong targets-shifted loss-precision future-leak
    tie-broken shared-weights in-optimizer-twice not-in-optimizer no-step no-gradient
    context-unused no-positions architecture loss-not-mean optimizer-setup not-zeroed
    accumulation clipping train-eval-mode ranks schedule decay precision start-loss
    rate-too-high rate-too-low batches-repeat evaluation generation checkpoint not-finite
    dead-units attention-collapsed logits-drift overfitting
"""
CAUSES = list[str](ORDER.split())
"""Every cause. One explains the symptoms of those after it, so it comes first in a report: targets
that are not shifted make the loss fall to 0, whatever the learning rate."""


@dataclass(frozen=True)
class Finding:
    """Something that ought to be otherwise."""

    cause: str
    """One of CAUSES."""
    seen: str
    """What was observed, with its number."""
    expected: str
    """What was expected instead, and why."""
    experiment: str
    """A command or a line of code that would confirm the cause."""
    place: str | None = None
    """File and line of the user's where it can be told."""

    def rank(self) -> int:
        """Return the place of the cause in a report."""
        return CAUSES.index(self.cause)

    def __str__(self) -> str:
        lines = [f"{self.cause}: {self.seen}", f"  expected: {self.expected}"]
        lines += [f"  where: {self.place}"] * (self.place is not None)
        return "\n".join([*lines, f"  try: {self.experiment}"])
