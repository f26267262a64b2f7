"""All runs of an ablation together: means over seeds, and which differences are noise."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cs_basics.run.metrics import Row
from cs_basics.settings.run import TrainConfig
from cs_basics.study.ablation_run import RunResult

QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160),
    *(2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056),
    *(2.052, 2.048, 2.045, 2.042),
)
"""What Student's t exceeds, to either side, in one case of 20: for 1, 2, ... degrees of freedom;
with more it falls to 1.960, by less than 5 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run, as far as it is done."""

    variant: str
    """Name in the suite."""
    config: TrainConfig
    """Its settings."""
    result: RunResult | None
    """What was measured; None: it is not done, or it crashed."""
    rows: Sequence[Row]
    """Its metrics.jsonl."""
    crash: str | None = None
    """How it ended, if it crashed."""

    @property
    def score(self) -> float | None:
        """Bits per byte of a run that is done and did not diverge."""
        if self.result is None or self.result.diverged_at is not None:
            return None
        return self.result.bits_per_byte

    @property
    def status(self) -> str:
        """How the run ended, in a few words; empty if there is nothing to remark."""
        if self.result is None:
            return self.crash or "not run yet"
        if self.result.diverged_at is not None:
            return f"diverged at step {self.result.diverged_at:,}"
        if self.result.loss is None or self.result.loss >= self.result.unigram_loss:
            return "no better than token frequencies"
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """One variant over its seeds."""

    variant: str
    """Name in the suite."""
    runs: tuple[Run, ...]
    """Its runs."""

    @property
    def scores(self) -> list[float]:
        """The scores of its runs, without those that have none."""
        return [run.score for run in self.runs if run.score is not None]

    @property
    def is_sound(self) -> bool:
        """Whether every run made so far has a score, and there is one."""
        made = [run for run in self.runs if run.result is not None or run.crash is not None]
        return 0 < len(self.scores) == len(made)

    @property
    def mean(self) -> float:
        """Mean score; there must be one."""
        return statistics.fmean(self.scores)

    @property
    def variance(self) -> float | None:
        """Variance of the scores; None for fewer than two."""
        return statistics.variance(self.scores) if len(self.scores) > 1 else None


def quantile_95(degrees: float) -> float:
    """Return the t that chance exceeds, to either side, in one case of 20.

    Degrees between two of the table count as the fewer, so that the result is never too small.
    """
    return QUANTILES[min(max(1, int(degrees)), len(QUANTILES)) - 1]


def summarise(runs: Iterable[Run]) -> list[Summary]:
    """Group the runs of a suite by variant, the best first.

    Variants with a diverged or crashed run come after the sound ones, those without a score last.
    """
    by_variant: dict[str, list[Run]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    summaries = [Summary(variant=name, runs=tuple(group)) for name, group in by_variant.items()]
    return sorted(summaries, key=_rank)


class Noise:
    """How much the score of a run varies by chance, from the spread between seeds.

    With two seeds a variant's own variance says almost nothing, so the variances of all variants
    are pooled. All variants share their seeds and so their batches. The effect that a seed has on
    all of them is not subtracted, so the judgement errs on the side of noise.

    Args:
        summaries: The variants.
    """

    def __init__(self, summaries: Sequence[Summary]) -> None:
        pool = [
            (len(s.scores) - 1, s.variance)
            for s in summaries
            if s.is_sound and s.variance is not None
        ]
        self.degrees_of_freedom = sum(degrees for degrees, _ in pool)
        self.pooled: float | None = None
        """Variance of one run; None where no variant has two seeds."""
        if pool:
            self.pooled = sum(degrees * v for degrees, v in pool) / self.degrees_of_freedom

    @property
    def quantile(self) -> float:
        """How many standard errors of a difference chance exceeds in one case of 20."""
        return quantile_95(self.degrees_of_freedom)

    def explains(self, best: Summary, other: Summary) -> bool | None:
        """Whether chance may put one variant so far behind the best; None: unknown."""
        if self.pooled is None:
            return None
        error = (self.pooled * (1 / len(best.scores) + 1 / len(other.scores))) ** 0.5
        return other.mean - best.mean <= self.quantile * error


def _rank(summary: Summary) -> tuple[bool, bool, float, str]:
    mean = summary.mean if summary.scores else 0.0
    return not summary.scores, not summary.is_sound, mean, summary.variant
