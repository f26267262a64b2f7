"""The ledger: every claim that is found in the folders of this package, measured row by row."""

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import torch

from cs_basics.fast.compilation import reason_not_to_compile
from lab.claims.claim import FALSE, NOT_SEEN, TRUE, Claim, Values
from lab.claims.row import Row
from lab.claims.trainings import Trainings

TOPICS = {
    "forgets": "What a norm forgets",
    "rounding": "Rounding and eps",
    "cost": "What a norm costs",
    "neighbours": "The neighbours",
    "depth": "Depth, weights and rates at initialisation",
    "training": "After training",
    "errors": "Errors that circulate",
}
"""The folders of claims, in reading order, and their headings."""

NEEDS: Mapping[str, Callable[[], bool]] = MappingProxyType(
    {
        "": lambda: True,
        "a GPU": torch.cuda.is_available,
        "torch.compile": lambda: reason_not_to_compile(torch.device("cpu")) is None,
        "transformers": lambda: importlib.util.find_spec("transformers") is not None,
    }
)
"""What a claim may need, and whether this machine has it; no machine has any other need."""


@dataclass(frozen=True)
class Entry:
    """A claim and where it stands."""

    claim: Claim
    topic: str
    path: Path

    @property
    def name(self) -> str:
        """Name of the claim."""
        return self.claim.name

    @property
    def code(self) -> str:
        """Checksum of its file."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]

    @property
    def missing(self) -> str:
        """What the claim needs and this machine does not have; empty: nothing."""
        needs = self.claim.needs
        return "" if needs in NEEDS and NEEDS[needs]() else needs

    def seeds(self, seeds: tuple[int, ...]) -> tuple[int, ...]:
        """Return the seeds to measure with: only the first, if no seed changes the values."""
        return seeds[:1] if self.claim.is_exact else seeds


def find_entries() -> list[Entry]:
    """Return every claim: the list CLAIMS of each file in the folders of TOPICS."""
    entries: list[Entry] = []
    for topic in TOPICS:
        for path in sorted((Path(__file__).parent / topic).glob("[!_]*.py")):
            module = importlib.import_module(f"{__package__}.{topic}.{path.stem}")
            claims: list[Claim] = module.CLAIMS
            entries += [Entry(claim, topic, path) for claim in claims]
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names), "two claims have one name"
    return entries


def choose_entries(entries: list[Entry], names: tuple[str, ...]) -> list[Entry]:
    """Return the entries whose name, file or folder is among the names; without names, all.

    Raises:
        ValueError: A name is that of no entry, file or folder.
    """
    for name in names:
        if not any(name in _names(entry) for entry in entries):
            near = [entry.name for entry in entries if name in entry.name]
            hint = f": did you mean {', '.join(near)}?" if near else ""
            raise ValueError(f"there is no claim, file or folder of claims {name!r}{hint}")
    return [entry for entry in entries if not names or _names(entry) & set(names)]


def _names(entry: Entry) -> set[str]:
    return {entry.name, entry.path.stem, entry.topic}


def measure(claim: Claim, seed: int, trainings: Trainings) -> Values:
    """Measure a claim with one seed, after making the trainings that it needs and are missing."""
    if not claim.trains:
        return claim.measure(seed)
    return claim.measure(
        {name: trainings.trained(settings, seed) for name, settings in claim.trains.items()}
    )


def verdict_of(entry: Entry, row: Row) -> str:
    """Judge a claim by what was measured so far, or say why nothing was."""
    if len(row.values) == 1 and not entry.claim.is_exact:
        return "not judged: one seed tells nothing of chance"
    if row.values:
        verdict = entry.claim.verdict(row.intervals())
        assert verdict in (TRUE, FALSE, NOT_SEEN) or verdict.startswith(("true ", "true,")), verdict
        return verdict
    return f"not measured: needs {entry.missing}" if entry.missing else "not measured yet"
