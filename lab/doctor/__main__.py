"""Run the doctor on the bank, and write doctor.md."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

from cli import progress_printer, run

from cs_basics.run.atomic import write_atomically
from lab.doctor.cases import FORK, Case, load, run_case

COLUMNS = "faults | noticed | named first | healthy | called ill"
ABOUT = """# What the doctor notices

Written by `python -m lab.doctor --half {half}`. Noticed, named first: of the faults, how many have
findings, and how many have the right cause as their first. Called ill: healthy runs with findings.
The doctor's thresholds were set with all of these programs in sight, so the figures are not those
of unseen faults. A run without a report (in brackets: why) counts as healthy.

{table}

{lists}

No longer looked for, since they cost more code than they found faults, or do not keep a model from
learning: the scale of attention, missing residual connections, an activation after the head, order
that no position tells, units that never change, tokens that decode to another text, a tie that is
two parameters, a checkpoint that is not what was saved, entries of a gradient that are clipped one
by one, weights that are changed between two steps. Their cases have left the bank. Not found
either: a rotary embedding along a wrong axis. A decoder without positions still tells order by its
mask, so no change of the ids shows it.
"""


def main(half: Literal["dev", "blind", "all"] = "all", program: str = "", jobs: int = 2) -> None:
    """Run each case in a process of its own, and print and write what came of them.

    A run of everything, or of a half, writes doctor.md.

    Args:
        half: dev, blind or all.
        program: The only program, such as notebook (none: all).
        jobs: Processes at a time.
    """
    halves = ("", half) if half != "all" else ("", "dev", "blind")
    cases = [c for c in load() if c.half in halves and program in ("", c.program)]
    if not cases:
        raise ValueError(f"no case of --half {half} --program {program}")
    done, show = list[Case](), progress_printer()
    with ProcessPoolExecutor(jobs, FORK) as pool:
        for case in pool.map(run_case, cases):
            done.append(case)
            show("doctor", "cases", len(done), len(cases))
    text = table(done), "\n".join(remarkable(done))
    print(*text, sep="\n\n")
    if not program:
        page = ABOUT.format(half=half, table=text[0], lists=text[1])
        write_atomically(Path(__file__).with_name("doctor.md"), page.encode())


def table(cases: list[Case]) -> str:
    """Return a table in Markdown: a row for each program, each half, and all."""
    lines = [f"| of | {COLUMNS} |", f"|---{'|--:' * 5}|"]
    for name in [*dict.fromkeys(c.program for c in cases), "dev", "blind", "all"]:
        some = [c for c in cases if name in (c.program, c.half, "all")]
        ill, well = ([c for c in some if c.is_ill is wanted] for wanted in (True, False))
        noticed, called_ill = (sum(c.findings != [] for c in group) for group in (ill, well))
        cells = name, len(ill), noticed, sum(map(is_named, ill)), len(well), called_ill
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def is_named(case: Case) -> bool:
    """Say whether the first finding is the right cause."""
    return case.findings != [] and case.findings[0]["cause"] in case.patch.kind.split(" or ")


def remarkable(cases: list[Case]) -> list[str]:
    """Return a line for each case of which the doctor says something else than the bank."""
    return [
        f"- {c.program}, **{c.patch.title}**: "
        + ("; ".join(f"{f['cause']}: {f['seen']}" for f in c.findings[:2]) or "healthy")
        + f" ({c.ending})" * (c.ending != "")
        for c in cases
        if c.ending or (not is_named(c) and (c.is_ill or c.findings))
    ]


if __name__ == "__main__":
    run(main)
