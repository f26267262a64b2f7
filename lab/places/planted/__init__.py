"""Faults planted in whole implementations: which of their lines does a failing item name?"""

from pathlib import Path

from bank.plantings import SOURCES, Planting, read


def load() -> list[Planting]:
    """Read all faults of all styles."""
    return [one for style in SOURCES for one in of_style(style)]


def of_style(style: str) -> list[Planting]:
    """Read the faults planted in one implementation."""
    return read(Path(__file__).parent / f"{style}.txt", style)
