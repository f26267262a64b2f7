"""All runs of an ablation together: means over seeds, and which differences are noise."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cs_basics.run.metrics import Row
from cs_basics.settings.run import TrainConfig
from cs_basics.study.ablation_run import RunResult
from cs_basics.study.student_t import quantile_95

ERRATIC_SPREAD = 4.0
"""A variant is erratic if its standard deviation is over this many times the median one."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """How far one variant is behind another, and whether it is noise."""

    ahead: str
    behind: str
    bits_per_byte: float
    standard_error: float | None
    """Standard error of the difference; None where no variant has two scores."""
    degrees_of_freedom: float
    """How many values the standard error rests on, less the means that were taken from them."""

    @property
    def is_noise(self) -> bool | None:
        """Whether 0 lies in the 95 % t interval of the difference; None: unknown."""
        if self.standard_error is None:
            return None
        return self.bits_per_byte <= quantile_95(self.degrees_of_freedom) * self.standard_error


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
    are pooled. An erratic variant is left out of the pool and judged by its own variance: one that
    nearly diverges would otherwise hide the differences between all the others. All variants share
    their seeds and so their batches. The effect that a seed has on all of them is not subtracted,
    so the judgement errs on the side of noise.

    Args:
        summaries: The variants.
    """

    def __init__(self, summaries: Sequence[Summary]) -> None:
        spread = [(s, s.variance) for s in summaries if s.is_sound and s.variance is not None]
        most = ERRATIC_SPREAD**2 * statistics.median([v for _, v in spread] or [0.0])
        self.erratic = {s.variant: variance for s, variance in spread if variance > most}
        pool = [(len(s.scores) - 1, variance) for s, variance in spread if variance <= most]
        self.degrees_of_freedom = sum(degrees for degrees, _ in pool)
        self.pooled: float | None = None
        """Variance of one run; None where no variant has two seeds."""
        if pool:
            self.pooled = sum(degrees * v for degrees, v in pool) / self.degrees_of_freedom

    def difference(self, one: Summary, other: Summary) -> Difference:
        """Compare two variants that have scores."""
        ahead, behind = sorted((one, other), key=lambda summary: summary.mean)
        error, degrees = None, 0.0
        if self.pooled is not None:
            # Welch and Satterthwaite: the pool is one estimate, an erratic variance one of its own.
            both = [(self.erratic.get(s.variant), len(s.scores)) for s in (one, other)]
            pool = sum(self.pooled / num for variance, num in both if variance is None)
            parts = [(variance / num, num - 1) for variance, num in both if variance is not None]
            parts.append((pool, self.degrees_of_freedom))
            total = sum(variance for variance, _ in parts)
            error = total**0.5
            uncertain = sum(variance**2 / of_part for variance, of_part in parts)
            degrees = total**2 / uncertain if uncertain else self.degrees_of_freedom
        return Difference(
            ahead=ahead.variant,
            behind=behind.variant,
            bits_per_byte=behind.mean - ahead.mean,
            standard_error=error,
            degrees_of_freedom=degrees,
        )


def _rank(summary: Summary) -> tuple[bool, bool, float, str]:
    mean = summary.mean if summary.scores else 0.0
    return not summary.scores, not summary.is_sound, mean, summary.variant
