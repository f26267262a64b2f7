"""Student's t distribution: how far from its mean a mean of few values may lie by chance."""

QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160),
    *(2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056),
    *(2.052, 2.048, 2.045, 2.042),
)
"""For 1, 2, ... degrees of freedom; with more it falls to 1.960, by less than 5 %."""


def quantile_95(degrees: float) -> float:
    """Return the t that chance exceeds, to either side, in one case of 20.

    Degrees between two of the table count as the fewer, so that the result is never too small.
    """
    return QUANTILES[min(max(1, int(degrees)), len(QUANTILES)) - 1]
