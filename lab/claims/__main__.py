"""Measure what is said of the norm and its neighbours: python -m lab.claims --quick.

Run again after a stop or a kill, it goes on where it was: every row is kept after each seed. The
claims, and how to add one: lab/claims/__init__.py.
"""

import datetime
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated

from process import keep_freed_memory  # isort: split

import tyro
from cli import check_can_write, run

from cs_basics.run.atomic import remove_leftovers, write_atomically
from cs_basics.run.document import to_html, write_markdown
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import format_duration
from lab import ROOT
from lab.claims.document import TITLE, Result, blocks
from lab.claims.ledger import Entry, choose_entries, find_entries, measure
from lab.claims.row import Row, read_row
from lab.claims.trainings import BASE, Trainings, name_of
from lab.timing import machine

SEEDS = (0, 1, 2)
"""The page in lab/claims/ has at least these."""
QUICK_S, TRAINING_S = 0.4, 60.0
"""Seconds that a measurement and a small training are taken to need until some have been made."""


def main(
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    quick: bool = False,
    seeds: tuple[int, ...] = SEEDS,
    out: Path = Path("runs/claims"),
    page: Path | None = None,
    list_claims: bool = False,
) -> None:
    """Measure claims, judge them, and write the ledger (claims.md) into a folder.

    Once every claim that this machine can measure is measured, the ledger is also written to
    lab/claims/claims.md.

    Args:
        names: Claims, files or folders of claims (none: all).
        quick: Leave out the small trainings and everything else that takes minutes.
        seeds: Every claim that depends on chance is measured with each of these seeds.
        out: Folder of the measurements; those that it already holds are not made again.
        page: Also write the ledger as one HTML file.
        list_claims: Only print the names of the claims, and the file of each.
    """
    entries = choose_entries(find_entries(), names)
    if list_claims:
        for entry in entries:
            print(f"{entry.name:<36}{entry.path.relative_to(ROOT)}")
        return
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds={seeds}: give one or more, each once")
    if min(seeds) < 0:
        raise ValueError(f"seeds={seeds}: each must be 0 or greater")
    for path in (out / "claims.md", *([page] if page else [])):
        check_can_write(path)
    keep_freed_memory()
    chosen = [entry for entry in entries if entry.claim.cost == "quick" or not quick]
    with RunFolder(out).claim():
        folder = out / "rows"
        folder.mkdir(exist_ok=True)
        remove_leftovers(folder)
        crashes = measure_all(chosen, seeds, folder, Trainings(out / "trainings", BASE))
        results = [Result(e, read_row(folder, e.name, e.code)) for e in find_entries()]
        for result in (r for r in results if r.entry in chosen):
            print(f"{result.entry.name:<36}{result.verdict}")
        write(results, out)
        if set(SEEDS) <= set(seeds) and all(is_done(result, seeds) for result in results):
            write(results, Path(__file__).parent)
    if page is not None:
        write_atomically(page, to_html(TITLE, blocks(results)).encode())
    if crashes:
        raise ValueError(f"not measured: {'; '.join(crashes)}")


def measure_all(
    entries: Sequence[Entry], seeds: tuple[int, ...], folder: Path, trainings: Trainings
) -> list[str]:
    """Measure what is missing, and keep each row after every seed; return what crashed."""
    rows = {entry.name: read_row(folder, entry.name, entry.code) for entry in entries}
    work = [
        (entry, seed)
        for entry in entries
        if not entry.missing
        for seed in entry.seeds(seeds)
        if str(seed) not in rows[entry.name].values
    ]
    if not work:
        print(f"everything is measured (to measure it again, delete files of {folder})")
    crashes: list[str] = []
    times: list[float] = []
    on = machine() if work else ""
    for index, (entry, seed) in enumerate(work):
        left = seconds_left(work[index:], times, trainings)
        place = f"[{index + 1:>3}/{len(work)}]"
        print(f"{place} {entry.name}, seed {seed}  ({format_duration(left)} left)", flush=True)
        started, made = time.monotonic(), len(trainings.seconds)
        try:
            values = measure(entry.claim, seed, trainings)
        except Exception as error:
            # One measurement that fails must not cost the others.
            crashes.append(f"{entry.name} ({type(error).__name__}: {error})")
            continue
        elapsed_s = time.monotonic() - started
        times.append(elapsed_s - sum(trainings.seconds[made:]))
        today = datetime.datetime.now().astimezone().date().isoformat()
        row: Row = rows[entry.name].with_values(seed, values, elapsed_s, today, on)
        row.write(folder)
        rows[entry.name] = row
    return crashes


def seconds_left(
    work: Sequence[tuple[Entry, int]], times: Sequence[float], trainings: Trainings
) -> float:
    """Estimate the time of what is left, from the times so far; each training is made once."""
    missing = {
        name_of(settings, seed)
        for entry, seed in work
        for settings in entry.claim.trains.values()
        if trainings.missing(settings, seed)
    }
    of_one = fmean(times) if times else QUICK_S
    of_training = fmean(trainings.seconds) if trainings.seconds else TRAINING_S
    return len(work) * of_one + len(missing) * of_training


def is_done(result: Result, seeds: tuple[int, ...]) -> bool:
    """Tell whether all seeds of a claim are measured, or it cannot be measured here."""
    wanted = {str(seed) for seed in result.entry.seeds(seeds)}
    return bool(result.entry.missing) or wanted <= result.row.values.keys()


def write(results: Sequence[Result], folder: Path) -> None:
    """Write claims.md and its pictures into a folder."""
    write_markdown(folder / "claims.md", TITLE, blocks(results))
    print(f"written to {folder / 'claims.md'}")


if __name__ == "__main__":
    run(main)
