"""Which problems have paid for a forbidden operator, so that later ones need not pay again."""

from collections import Counter
from collections.abc import Collection, Mapping


class Charges:
    """What a forbidden operator has cost so far.

    A softmax that is torch.softmax fails the problem softmax, and not attention, block and model
    too, which are built from it. They are spared only if softmax has failed: where an earlier
    problem names an operator but never calls it, the problem that calls it pays.

    Args:
        excused: For each problem, the groups of operators whose every use is charged to earlier
            problems, and those problems (policy/).
        examined: The problems that are examined; the others count as having paid.
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
        """The groups of operators that a problem may call because others have paid for them."""
        charged = self.charged.get(problem, {})
        return [group for group in charged if all(map(self._has_paid, charged[group]))]

    def _has_paid(self, problem: str) -> bool:
        """Whether a forbidden call ended most of its probes: a single one could be on purpose."""
        if problem not in self.examined:
            return True
        return self.stopped[problem] > self.probes[problem] / 2
