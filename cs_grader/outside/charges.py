"""Which problems have paid for a forbidden operator, so that later ones need not pay again."""

from collections import Counter
from collections.abc import Collection, Mapping


class Charges:
    """What a forbidden operator has cost so far.

    A softmax that is torch.softmax fails the problem softmax, and not attention, block and model
    too, which are built from it. But only once it has: where an earlier problem names an operator
    without ever running into it, the one that calls it pays.

    Args:
        excused: Of each problem the groups of operators whose every use an earlier problem leads
            to, with these problems (policy/).
        examined: The problems that are examined; what the others would cost is not known.
    """

    def __init__(
        self, excused: Mapping[str, Mapping[str, Collection[str]]], examined: Collection[str]
    ) -> None:
        self.charged = excused
        self.examined = examined
        self.probes: Counter[str] = Counter()
        self.stopped: Counter[str] = Counter()

    def note(self, problem: str, is_stopped: bool) -> None:
        """Take in whether a probe ended because it called a forbidden operator."""
        self.probes[problem] += 1
        self.stopped[problem] += is_stopped

    def excused(self, problem: str) -> list[str]:
        """The groups of operators that a problem may call, for others have paid for them."""
        charged = self.charged.get(problem, {})
        return [group for group in charged if all(map(self._has_paid, charged[group]))]

    def _has_paid(self, problem: str) -> bool:
        """Whether most of its probes ended with it: a single one could be meant to."""
        if problem not in self.examined:
            return True
        return self.stopped[problem] > self.probes[problem] / 2
