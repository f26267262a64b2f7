"""Measure what is said of the norm and its neighbours, and write the page: python -m lab.claims."""

from typing import Annotated

from process import keep_freed_memory  # isort: split

import tyro
from cli import run

from cs_basics.run.atomic import write_atomically
from lab.claims.page import NORMS, PAGE, norms_page, page_of, verdict_of
from lab.claims.results import (
    NEEDS,
    contrary_verdict,
    is_decided,
    keep,
    read_results,
    result_of,
)
from lab.claims.rules import Figures
from lab.claims.sentences import read_sentences


def main(
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    quiet: bool = False,
    trained: bool = False,
    again: bool = False,
    contrary: bool = False,
    backwards: bool = False,
) -> None:
    """Measure what is missing or stale, and write claims.md and the table of docs/norms.md.

    The result of each claim is kept, and the trainings that claims share in runs/claims: a run that
    was ended goes on where it was.

    Args:
        names: Claims, as the rows of the page are called (none: all but the following; minutes).
        quiet: Also those that are times, which need a machine with nothing else to do.
        trained: Also those that need small trainings, a minute each.
        again: Measure anew what was measured.
        contrary: Only judge, after the exchange of what is measured that turns the verdict.
        backwards: From the last claim to the first: a second process, beside one that is not.
    """
    claims = read_sentences()
    for name in names:
        if name not in claims:
            near = ", ".join(known for known in claims if name in known) or "see claims.md"
            raise ValueError(f"there is no claim {name!r}: {near}")
    keep_freed_memory()
    costs = ["quick", "slow", *["quiet"] * quiet, *["trained"] * trained]
    chosen = names or [name for name, claim in claims.items() if claim.cost in costs]
    for name in reversed(chosen) if backwards else chosen:
        claim = claims[name]
        if not NEEDS[claim.needs]():
            print(f"{name}: not measured: needs {claim.needs}")
            continue
        if contrary:
            print(f"{name}: {contrary_verdict(claim)} after the exchange")
            continue
        result = None if again else read_results(claims).get(name)
        if result is None or not is_decided(claim, result):
            figures: list[Figures] = []
            while not figures or not is_decided(claim, result_of(claim, figures)):
                figures.append(claim.measure(len(figures)))
            result = result_of(claim, figures)
            keep(claims, name, result)
        print(f"{name}: {verdict_of(claim, result)}", flush=True)
    results = read_results(claims)
    write_atomically(PAGE, page_of(claims, results).encode())
    norms = norms_page(claims, results, NORMS.read_text(encoding="utf-8"))
    write_atomically(NORMS, norms.encode())


if __name__ == "__main__":
    run(main)
