"""Which mistake is it? Put the same few questions to a submission for every known mistake.

One answer may look like several mistakes. So a problem has a list of trials: calls on which known
mistakes differ from what is right and from each other. They run only after an item has failed,
once in a process. A mistake is named if it explains every trial and no other mistake does. Where
two mistakes meet, the one that explains most of what is wrong is named, and that it is not all.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
Answers = Mapping[str, Any]
"""What each mistake answers, by its diagnosis.

A list of arrays or numbers, or a tuple of lists, holds several possible answers. None: what it
answers cannot be foretold, so that the question says nothing about it.
"""

FEWEST_VALUES = 2
"""So many values must be wrong in just the way that a mistake makes them wrong."""


@dataclass(frozen=True)
class Trial:
    """One question, what came back, what is right, and what each known mistake would answer."""

    label: str
    """What is particular about the question, in the words of the contract: "two heads"."""
    got: Any
    """An array or a sequence; None if there was an exception, or an answer of no use."""
    expected: Any
    answers: Answers
    """A mistake that is missing here makes no difference to this question."""
    limit: float = 0.0
    is_settled: bool = True
    """Whether the same question got the same answer once more."""

    @property
    def is_right(self) -> bool:
        return self.got is not None and is_same(self.got, self.expected, self.limit)

    def would_change(self, mistake: str) -> bool:
        """Whether the right answer is none of those that this mistake may lead to."""
        answer = self.answers.get(mistake, self.expected)
        return mistake in self.answers and not any(
            num_different(one, self.expected, self.limit) == 0 for one in options_of(answer)
        )

    def shows_in_part(self, mistake: str) -> int:
        """As `shows`, of the values alone that this mistake changes; others may be wrong, too."""
        if not isinstance(self.got, np.ndarray) or self.answers.get(mistake) is None:
            return 0
        return int(np.sum(changed)) if np.ndim(changed := self.changed_by(mistake)) else -1

    def changed_by(self, mistake: str) -> Array:
        """Where this mistake changes the answer, if each such value is as it makes it.

        Of one that may have several answers, those that change nothing are left out. A number says
        that none fits.
        """
        options = options_of(self.answers[mistake])
        if not any(num_different(option, self.expected, self.limit) for option in options):
            return np.zeros(np.shape(self.got), bool)
        found = np.array(0)
        for option in options:
            answer = np.asarray(option, np.float64)
            if not answer.shape == np.shape(self.expected) == self.got.shape != ():
                continue
            away = is_away(answer, self.expected, self.limit)
            near = 2 * self.limit * growth(answer, self.expected)
            with np.errstate(invalid="ignore"):
                is_alike = away.any() and np.ptp(answer[away]) <= near
            if is_alike:  # One value all over, such as 0, may come near by chance.
                near = 1e-6 * largest(answer[away])
            if away.any() and not np.any(away & is_away(self.got, answer, near)):
                away &= ~np.isnan(answer)
                found = away if not found.ndim or away.sum() > found.sum() else found
        return found

    def shows(self, mistake: str, slack: float = 2) -> int:
        """How many values are wrong in the way of this mistake; -1 if it is not this one.

        They may differ from its answer by `slack` times what a right answer may.
        """
        answer = self.answers.get(mistake, self.expected)
        if self.got is None or answer is None:
            return 0
        options = options_of(answer) if mistake in self.answers else [self.expected]
        found = [
            num_different(answer, self.expected, self.limit)
            for answer in options
            if is_same(self.got, answer, slack * self.limit * growth(answer, self.expected))
        ]
        return max(found, default=-1)


def growth(answer: Any, expected: Any) -> float:
    """How many times larger an answer is than the right one: its rounding is as much larger."""
    if not isinstance(expected, np.ndarray):
        return 1.0
    return max(1.0, largest(np.asarray(answer, np.float64)) / max(largest(expected), 1e-30))


def largest(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def options_of(answers: Any) -> list[Any]:
    is_list_of_numbers = isinstance(answers, list) and any(
        isinstance(answer, np.ndarray | np.generic) for answer in answers
    )
    return list(answers) if is_list_of_numbers or isinstance(answers, tuple) else [answers]


def is_same(got: Any, answer: Any, limit: float) -> bool:
    if not isinstance(got, np.ndarray):
        return got == answer
    answer = np.asarray(answer, np.float64)
    return answer.shape == got.shape and not np.any(is_away(got, answer, limit))


def num_different(answer: Any, expected: Any, limit: float) -> int:
    """Count the values that a mistake changes; an answer that is all nan shows nothing."""
    if not isinstance(expected, np.ndarray):
        return 0 if answer == expected else max(len(answer), len(expected))
    answer = np.asarray(answer, np.float64)
    if answer.shape != expected.shape:
        return max(answer.size, FEWEST_VALUES)
    if np.all(np.isnan(answer)):
        return 0
    return int(np.sum(is_away(answer, expected, limit)))


def is_away(got: Array, answer: Array, limit: float) -> Array:
    with np.errstate(invalid="ignore"):
        near = (np.abs(got - answer) <= limit) | (got == answer)
    return ~(near | (np.isnan(got) & np.isnan(answer)))


def confirmed(causes: Iterable[str], trials: Sequence[Trial]) -> list[str]:
    """The one mistake that explains all trials; none if there is another, or if nothing shows it.

    Args:
        causes: Mistakes that fit what was found first, which is the first of the trials.
        trials: Questions and answers, the one that failed included.
    """
    left = []
    for cause in causes:
        shown = [trial.shows(cause) for trial in trials]
        if min(shown) >= 0 and sum(shown) >= FEWEST_VALUES:
            left.append(cause)
    return left if len(left) == 1 else []


def possible(trials: Sequence[Trial]) -> list[str]:
    """The mistakes that no trial speaks against, and those that a wrong one speaks for."""
    known = dict.fromkeys(mistake for trial in trials for mistake in trial.answers)
    right = [trial for trial in trials if trial.is_right]
    left = [mistake for mistake in known if all(trial.shows(mistake) >= 0 for trial in right)]
    wrong = [trial for trial in trials if not trial.is_right]
    shown = {mistake: [trial.shows(mistake) for trial in wrong] for mistake in left}
    return [
        mistake
        for mistake in left
        if all(n >= 0 for n in shown[mistake]) or max(shown[mistake]) > 0
    ]


def explaining_most(causes: Iterable[str], trials: Sequence[Trial]) -> list[str]:
    """The one mistake that explains more of the wrong trials than the others do.

    What is right must not speak against it. It has to be seen in more than one trial, and in all
    that it would change, or else in all of the wrong ones but one: what other mistakes make wrong
    elsewhere says nothing of this one.

    Args:
        causes: As for confirmed.
        trials: As for confirmed.
    """
    left = set(possible(trials))
    shown = {cause: [trial.shows(cause) for trial in trials] for cause in causes if cause in left}
    seen = {cause: sum(n >= FEWEST_VALUES for n in those) for cause, those in shown.items()}
    most = max(seen.values(), default=0)
    best = [cause for cause, number in seen.items() if number == most]
    if most < 2 or len(best) > 1:
        return []
    wrong = [trial for trial in trials if trial.got is not None and not trial.is_right]
    would = sum(trial.would_change(best[0]) for trial in wrong)
    return best if most >= min(would, len(wrong) - 1) else []


def explaining_their_part(trials: Sequence[Trial]) -> list[str]:
    """Mistakes that explain all that they change, however much else is wrong; most of it first.

    They have to show in the first of the trials and in another, there in other values each. Where
    two explain as much of the same values, neither is named.
    """
    shown = {cause: [t.shows_in_part(cause) for t in trials] for cause in trials[0].answers}
    seen = {
        cause: sum(those)
        for cause, those in shown.items()
        if min(those) >= 0 and those[0] >= FEWEST_VALUES and sum(n > 0 for n in those) > 1
    }
    found: list[str] = []
    taken = np.zeros(np.shape(trials[0].expected), bool)
    while left := {c: n for c, n in seen.items() if not np.any(taken & trials[0].changed_by(c))}:
        most = max(left.values())
        best = [cause for cause, number in left.items() if number == most]
        found += best if len(best) == 1 else []
        for cause in best:
            taken |= trials[0].changed_by(cause)
    return found


def unexplained(causes: Sequence[str], trials: Sequence[Trial]) -> str:
    """Say what else is wrong, where the trials know these mistakes and show more than them."""
    known = [cause for cause in causes if any(cause in trial.answers for trial in trials)]
    left = [t.label for t in trials if known and min(t.shows(one, 50) for one in known) < 0]
    return f"Something else is wrong, too: {'; '.join(left)}." if left else ""


def once(make: Callable[..., Iterable[Trial]]) -> Callable[..., list[Trial]]:
    """Let trials run once in a process, which examines one submission only."""
    held: dict[tuple[Any, ...], list[Trial]] = {}

    @functools.wraps(make)
    def trials(observe: Callable[..., Any], *which: Any) -> list[Trial]:
        if which not in held:
            held[which] = list(make(functools.partial(observe, aside=True), *which))
        return held[which]

    return trials


def ask(
    observe: Callable[..., Any],
    label: str,
    expected: Array,
    answers: Answers | Callable[[Any], Answers],
    read: Callable[[Any], Any] = lambda seen: seen["output"]["values"],
    tolerance: float = 1e-5,
    scale: float | None = None,
    **inputs: Any,
) -> Trial:
    """Ask one question, twice.

    Args:
        observe: Runs probes.
        label: See Trial.
        expected: The right answer.
        answers: See Trial; or makes them of what came, if anything did.
        read: Finds the answer in what the probe saw.
        tolerance: As for compare.expect_close.
        scale: As for compare.expect_close.
        inputs: The probe and its inputs.
    """

    def answer() -> Any:
        try:
            return read(observe(**inputs))
        except (Exception, pytest.fail.Exception):
            return None

    got = answer()
    is_settled = is_alike(got, answer())
    answers = answers(got) if callable(answers) else answers
    if got is not None and isinstance(expected, np.ndarray | np.floating):
        got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
        tolerance *= scale or max(largest(expected), 1e-30)
    return Trial(label, got, expected, answers, tolerance, is_settled)


def is_alike(one: Any, other: Any) -> bool:
    """Whether two answers to one question agree, if not to the bit.

    A matrix product may depend on where in memory its factors are.
    """
    if not isinstance(one, np.ndarray):
        return one == other
    return np.shape(one) == np.shape(other) and np.allclose(one, other, 1e-4, 1e-5, equal_nan=True)


def right_and_wrong(trials: Sequence[Trial]) -> str:
    """Say which trials are right and which are wrong, if there are some of both."""
    asked = [trial for trial in trials if trial.got is not None]
    right = [trial.label for trial in asked if trial.is_right]
    wrong = [trial.label for trial in asked if not trial.is_right]
    if not right or not wrong:
        return ""
    return f"Wrong: {'; '.join(wrong)}.\n  Right: {'; '.join(right)}."
