"""Which recipes have to be trained, and which rungs are accepted: decided by the scores so far."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.ladder.rungs import Rung
from lab.ladder.scores import Kind, Record
from lab.ladder.statistics import P, is_lower, p_value

Recipe = tuple[str, ...]
"""Names of rungs, in the order of the ladder; () is the base."""
Scores = Mapping[Recipe, Mapping[int, float]]
"""Bits per byte on the held-out tenth, by recipe and seed; infinite for a run that failed."""
NOT_YET = "not measured yet"


@dataclass(frozen=True)
class Trial:
    """A comparison of two recipes that differ in one rung."""

    without: Recipe
    with_it: Recipe
    is_done: bool
    p: float = 1.0
    is_accepted: bool = False
    has_failed: bool = False
    """Whether a training with the rung has no score."""

    @property
    def verdict(self) -> str:
        """The outcome in a few words."""
        if not self.is_done:
            return NOT_YET
        if self.is_accepted:
            return "better"
        if self.has_failed:
            return "failed"
        return "worse" if self.p < P else "not seen"


@dataclass
class Climb:
    """The state of the ladder."""

    alone: dict[str, Trial] = field(default_factory=dict[str, Trial])
    """Each rung on the base and what it needs."""
    on_top: dict[str, Trial | None] = field(default_factory=dict[str, "Trial | None"])
    """Each rung on all that were accepted before; None: what it needs was not."""
    accepted: Recipe = ()
    missing: list[Recipe] = field(default_factory=list[Recipe])
    """Recipes that can be trained now, the next one first."""
    is_decided: bool = True
    """Whether it is known of every rung if it is accepted."""


@dataclass(frozen=True)
class Ladder:
    """All that is known of a ladder."""

    rungs: Sequence[Rung]
    """All, also those that were not tried."""
    state: Climb
    record: Record
    seeds: Sequence[int]

    def scores(self, recipe: Recipe, kind: Kind = "choice") -> list[float]:
        """Return the bits per byte of a recipe, in the order of the seeds."""
        of_seeds = self.record.runs(kind).get(recipe, {})
        return [of_seeds[seed].value for seed in self.seeds if seed in of_seeds]


def climb(rungs: Sequence[Rung], scores: Scores, seeds: Sequence[int]) -> Climb:
    """Judge every rung whose recipes have a score for each seed, and say what is missing."""
    state, names = Climb(), [rung.name for rung in rungs]
    missing_alone: list[Recipe] = []

    def trial(below: Recipe, rung: Rung, missing: list[Recipe]) -> Trial:
        above = tuple(name for name in names if name in {*below, rung.name})
        found = [[scores.get(recipe, {}).get(seed) for seed in seeds] for recipe in (below, above)]
        if any(None in row for row in found):
            missing += [r for r, row in zip((below, above), found, strict=True) if None in row]
            return Trial(below, above, is_done=False)
        without, with_it = ([value for value in row if value is not None] for row in found)
        p, is_better = p_value(with_it, without), is_lower(with_it, without)
        has_failed = not all(map(math.isfinite, with_it))
        return Trial(below, above, is_done=True, p=p, is_accepted=is_better, has_failed=has_failed)

    for rung in rungs:
        state.alone[rung.name] = trial(rung.needs, rung, missing_alone)
        if not state.is_decided:
            state.on_top[rung.name] = Trial((), (), is_done=False)
            continue
        if not set(rung.needs) <= set(state.accepted):
            state.on_top[rung.name] = None
            continue
        on_top = state.on_top[rung.name] = trial(state.accepted, rung, state.missing)
        state.is_decided = on_top.is_done
        if on_top.is_accepted:
            state.accepted = on_top.with_it
    # Trials on top first: only they decide which rungs are accepted.
    state.missing = list(dict.fromkeys([*state.missing, *missing_alone]))
    return state


def runs_left_at_most(
    rungs: Sequence[Rung], scores: Scores, seeds: Sequence[int], state: Climb
) -> int:
    """Return how many runs are missing, if every rung has to be tried on top of others, too."""
    known = sum(seed not in scores.get(recipe, {}) for recipe in state.missing for seed in seeds)
    undecided = sum(
        on_top is not None and not on_top.is_done and not on_top.with_it
        for on_top in (state.on_top[rung.name] for rung in rungs)
    )
    return known + undecided * len(seeds)
