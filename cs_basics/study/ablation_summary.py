"""What the runs of an ablation say together: means over seeds, and which differences are noise.

Tested by `make test ARGS=tests/project/test_ablation_summary.py`.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cs_basics.run.config import TrainConfig
from cs_basics.run.metrics import Row
from cs_basics.study.ablation_run import RunResult

ERRATIC_SPREAD = 4.0
STANDARD_ERRORS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run as it lies on disk."""

    variant: str
    """Name in the suite."""
    config: TrainConfig
    """Its settings."""
    result: RunResult | None
    """Its numbers; None: it is not done, or it crashed."""
    rows: Sequence[Row]
    """Its metrics.jsonl."""
    crash: str | None = None
    """How it ended, if it crashed."""

    @property
    def status(self) -> str:
        """One phrase on how the run ended; empty if it just trained."""
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
    scores: tuple[float, ...]
    """Bits per byte of the runs that did not diverge."""

    @property
    def is_sound(self) -> bool:
        """Whether every run made so far has a score, and there is one."""
        made = [run for run in self.runs if run.result is not None or run.crash is not None]
        return 0 < len(self.scores) == len(made)

    @property
    def mean(self) -> float:
        """Mean bits per byte; defined if there is a score."""
        return statistics.fmean(self.scores)

    @property
    def variance(self) -> float | None:
        """Variance of the bits per byte between seeds; None for fewer than two."""
        return statistics.variance(self.scores) if len(self.scores) > 1 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """How far one variant is behind another, and whether that means anything."""

    ahead: str
    behind: str
    bits_per_byte: float
    standard_error: float | None
    """None where one seed leaves no way to tell."""

    @property
    def is_noise(self) -> bool | None:
        """Whether the difference is below STANDARD_ERRORS standard errors; None: unknown."""
        if self.standard_error is None:
            return None
        return self.bits_per_byte < STANDARD_ERRORS * self.standard_error


def summarise(runs: Iterable[Run]) -> list[Summary]:
    """Group runs by variant; the best first, then those with lost runs, then those with no score.

    Args:
        runs: All runs of a suite.
    """
    by_variant: dict[str, list[Run]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    summaries = [
        Summary(variant=name, runs=tuple(group), scores=tuple(_scores(group)))
        for name, group in by_variant.items()
    ]
    return sorted(summaries, key=_rank)


class Noise:
    """What chance does to the score of a run, from the spread between seeds.

    With two seeds a variant's own variance says next to nothing, so the variances of all variants
    are pooled. A variant whose standard deviation is over ERRATIC_SPREAD times the median one is
    left out of the pool and judged by its own: one that nearly diverges would otherwise drown the
    differences of all the others. All variants share their seeds, and with them their batches; as
    what the seeds have in common is not taken out, the judgement errs on the side of noise.

    Args:
        summaries: The variants.
    """

    def __init__(self, summaries: Sequence[Summary]) -> None:
        spread = {s.variant: s for s in summaries if s.is_sound and s.variance is not None}
        variances = {name: summary.variance or 0.0 for name, summary in spread.items()}
        median = statistics.median(variances.values()) if variances else 0.0
        self.erratic = {
            name: variance
            for name, variance in variances.items()
            if variance > ERRATIC_SPREAD**2 * median
        }
        pool = [
            (len(summary.scores) - 1, variances[name])
            for name, summary in spread.items()
            if name not in self.erratic
        ]
        self.degrees_of_freedom = sum(degrees for degrees, _ in pool)
        self.pooled: float | None = (
            sum(degrees * variance for degrees, variance in pool) / self.degrees_of_freedom
            if pool
            else None
        )
        """Variance of one run; None where no variant has two seeds."""

    def difference(self, one: Summary, other: Summary) -> Difference:
        """Compare two variants that have scores."""
        ahead, behind = sorted((one, other), key=lambda summary: summary.mean)
        error = None
        if self.pooled is not None:
            variances = [
                self.erratic.get(s.variant, self.pooled) / len(s.scores) for s in (one, other)
            ]
            error = sum(variances) ** 0.5
        return Difference(
            ahead=ahead.variant,
            behind=behind.variant,
            bits_per_byte=behind.mean - ahead.mean,
            standard_error=error,
        )


def _scores(runs: Iterable[Run]) -> Iterable[float]:
    for run in runs:
        result = run.result
        if result is not None and result.diverged_at is None and result.bits_per_byte is not None:
            yield result.bits_per_byte


def _rank(summary: Summary) -> tuple[bool, bool, float, str]:
    mean = summary.mean if summary.scores else 0.0
    return not summary.scores, not summary.is_sound, mean, summary.variant
