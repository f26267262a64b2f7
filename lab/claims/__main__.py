"""Measure what is said of the norm and its neighbours: python -m lab.claims --quick."""

import datetime
from pathlib import Path
from typing import Annotated

from process import keep_freed_memory  # isort: split

import tyro
from cli import run

from cs_basics.run.atomic import write_atomically
from lab.claims.ledger import NEEDS, find_claims, measured, value_of, verdict_of, with_result
from lab.timing import machine

PAGE = Path(__file__).with_name("claims.md")


def main(
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    quick: bool = False,
    seeds: tuple[int, ...] = (0, 1, 2),
    write: bool = False,
) -> None:
    """Measure claims and judge them; the sentences stand in lab/claims/claims.md.

    The small trainings that claims share are kept in runs/claims and not made twice.

    Args:
        names: Claims, as the rows of the page are called (none: all).
        quick: Leave out the claims that need small trainings, a minute each, and those that time
            training steps.
        seeds: Every claim is measured with each of these seeds.
        write: Fill the results into the rows of lab/claims/claims.md.
    """
    if len(seeds) < 2 or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ValueError(f"seeds={seeds}: give two or more from 0 on, each once")
    claims = find_claims()
    for name in names:
        if name not in claims:
            near = ", ".join(known for known in claims if name in known) or "see claims.md"
            raise ValueError(f"there is no claim {name!r}: {near}")
    keep_freed_memory()
    today = datetime.datetime.now().astimezone().date().isoformat()
    when = f"{today}, {len(seeds)} seeds, {machine()}"
    print(when)
    for name in names or claims:
        claim = claims[name]
        if quick and (claim.trains or claim.takes_minutes):
            continue
        if not NEEDS[claim.needs]():
            print(f"{name}: not measured: needs {claim.needs}")
            continue
        intervals = measured(claim, seeds)
        verdict, value = verdict_of(claim, intervals), value_of(intervals)
        print(f"{name}: {verdict} ({value})", flush=True)
        if write:
            page = with_result(PAGE.read_text(encoding="utf-8"), name, verdict, value, when)
            write_atomically(PAGE, page.encode())


if __name__ == "__main__":
    run(main)
