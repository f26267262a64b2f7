"""The ledger: claims are found, measured and judged, and their rows in claims.md filled in."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence

import torch

import lab.claims
from cs_basics.fast.compilation import reason_not_to_compile
from lab.claims.claim import CLAIMS, Claim, Intervals
from lab.claims.interval import interval_of
from lab.claims.trainings import trained

NEEDS: Mapping[str, Callable[[], bool]] = {
    "": lambda: True,
    "a GPU": torch.cuda.is_available,
    "torch.compile": lambda: reason_not_to_compile(torch.device("cpu")) is None,
}
"""What a claim may need, and whether this machine has it."""


def find_claims() -> dict[str, Claim]:
    """Return every claim by its name, after importing the modules of this package."""
    for module in pkgutil.walk_packages(lab.claims.__path__, "lab.claims."):
        if "__main__" not in module.name and "test_" not in module.name:
            importlib.import_module(module.name)
    return CLAIMS


def measured(claim: Claim, seeds: Sequence[int]) -> Intervals:
    """Measure a claim with each seed, after making the trainings that are missing."""
    found = [
        claim.measure(
            {name: trained(settings, seed) for name, settings in claim.trains.items()}
            if claim.trains
            else seed
        )
        for seed in seeds
    ]
    return {name: interval_of([values[name] for values in found]) for name in found[0]}


def verdict_of(claim: Claim, intervals: Intervals) -> str:
    """Judge what was measured, in words."""
    verdict = claim.verdict(intervals)
    return verdict if isinstance(verdict, str) else str(verdict).lower()


def value_of(intervals: Intervals) -> str:
    """Return what was measured, in words."""
    return "; ".join(f"{name}: {interval}" for name, interval in intervals.items())


def with_result(page: str, name: str, verdict: str, value: str, when: str) -> str:
    """Return claims.md with these cells in the row of a claim."""
    lines = page.split("\n")
    (row,) = (i for i, line in enumerate(lines) if line.startswith(f'| <a id="{name}"></a>'))
    cells = re.split(r"(?<!\\)\|", lines[row])
    escaped = re.sub(r"([\\|_*])", r"\\\1", value)
    cells[2], cells[3], cells[7] = f" {verdict} ", f" {escaped} ", f" {when} "
    lines[row] = "|".join(cells)
    return "\n".join(lines)
