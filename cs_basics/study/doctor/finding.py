"""What a check finds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    place: Any = None
    """File and line of the user's, "" where that cannot be told. A check may give the function or
    the module that stands there, or None for the model: see `run_check`."""

    def rank(self) -> int:
        """Return the place of the cause in a report."""
        return CAUSES.index(self.cause)

    def __str__(self) -> str:
        text = f"{self.cause}: {self.seen}\n  expected: {self.expected}\n"
        text += f"  where: {self.place}\n" if self.place else ""
        return f"{text}  try: {self.experiment}"


Findings = Iterator[Finding]
"""What a check yields."""
