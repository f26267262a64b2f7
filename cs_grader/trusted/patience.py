"""How long the probes of a problem are waited for, given what became of those before.

An item that takes too long, or that ends the sandbox, costs itself, however often it is asked. The
others get less time once there are some, and only where nothing has ever come back from a function
are the rest of its items not asked: an endless loop would hold up a whole class. A file that cannot
be imported would, too: each item would try that anew.
"""

from collections import defaultdict

# The reference needs less than a second for any probe of most problems, but text is many times
# slower in some honest solutions, and one of the probes encodes for 40 seconds.
CPU_S = {"train_bpe": 60, "tokenizer": 90}
DEFAULT_CPU_S = 10
# After so many other items of a problem that took too long, an item gets less time.
MOST_SLOW, HURRIED_S = 2, 2
# A function from which nothing has come back and that so many items have waited for in vain, or
# whose items have ended the sandbox or could not import a file, is given up.
MOST_IN_VAIN = 3
BROKEN = ("SyntaxError", "IndentationError", "TabError", "ImportError", "ModuleNotFoundError")
"""What Python raises for such a file."""


class Patience:
    """What is known of the problems of one submission."""

    def __init__(self, idle_s: float, problem_idle_s: float) -> None:
        self.idle_s = idle_s
        self.problem_idle_s = problem_idle_s
        self.waited_s: defaultdict[str, float] = defaultdict(float)
        """For each problem, seconds in which nothing was computed, of all its probes together."""
        self.slow: defaultdict[str, set[str]] = defaultdict(set)
        """For each problem, items that took too long."""
        self.in_vain: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """For each problem and function, items that took too long or were fatal."""
        self.came_back: set[tuple[str, str]] = set()

    def time_for(self, problem: str, item: str) -> tuple[float, float]:
        """Seconds of CPU that a probe of this item may take, and those that it may wait."""
        is_hurried = len(self.slow[problem] - {item}) >= MOST_SLOW
        if is_hurried or self.waited_s[problem] >= self.problem_idle_s:
            return HURRIED_S, min(HURRIED_S, self.idle_s)
        return CPU_S.get(problem, DEFAULT_CPU_S), self.idle_s

    def gives_up(self, problem: str, function: str) -> bool:
        """Whether probes of this function are not run any more."""
        of = problem, function
        return of not in self.came_back and len(self.in_vain[of]) >= MOST_IN_VAIN

    def learn(self, problem: str, function: str, item: str, *, slow: bool, fatal: bool) -> None:
        """Take in what became of a probe; fatal: for the sandbox, or a file cannot be imported."""
        if slow:
            self.slow[problem].add(item)
        if slow or fatal:
            self.in_vain[problem, function].add(item)
        else:
            self.came_back.add((problem, function))
