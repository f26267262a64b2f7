"""Results, by which a verdict is judged again: a line of results.jsonl for each claim.

A line has the claim, how many seeds measured it, the checksum of the code that measured, and of
each figure and of each expression of the claim's rules the mean, the half width of its 95 % t
interval, the least and the greatest value (one number where all are equal). The line above a
group of claims has the day and the machine. A result of other code, or without an expression that
a rule names, is stale: the page does not show it, and the runner measures anew.
"""

import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from cs_basics.fast.compilation import reason_not_to_compile
from cs_basics.run.atomic import write_atomically
from lab.claims.interval import Spread, spread_of
from lab.claims.measures.trainings import one_at_a_time
from lab.claims.rules import Figures, outcome, parts_of, value_of
from lab.claims.sentences import HERE, Claim
from lab.timing import machine

PATH = HERE / "results.jsonl"
DECIDED = 3
"""Seeds after which a training is not repeated if its rule says true or false."""

NEEDS: Mapping[str, Callable[[], bool]] = {
    "": lambda: True,
    "a GPU": torch.cuda.is_available,
    "torch.compile": lambda: reason_not_to_compile(torch.device("cpu")) is None,
    "what no machine here has": lambda: False,
}
"""What a claim may need, and whether this machine has it."""


@dataclass(frozen=True)
class Result:
    """What the seeds of a claim gave."""

    seeds: int
    date: str
    machine: str
    code: str
    figures: Mapping[str, Spread]
    """Of each figure, and of each expression of the claim's rules."""


Results = Mapping[str, Result]


def read_results(claims: Mapping[str, Claim]) -> dict[str, Result]:
    """Return the result of every claim that has one which is not stale."""
    found: dict[str, Result] = {}
    when: dict[str, Any] = {}
    for line in PATH.read_text(encoding="utf-8").splitlines() if PATH.exists() else []:
        stored = json.loads(line)
        if "claim" not in stored:
            when = stored
            continue
        figures = {
            name: Spread(*value) if isinstance(value, list) else Spread(value, 0.0, value, value)
            for name, value in stored.pop("figures").items()
        }
        claim = claims.get(stored.pop("claim"))
        if claim and claim.code == stored["code"] and {*expressions_of(claim)} <= {*figures}:
            found[claim.name] = Result(**stored, **when, figures=figures)
    return found


def keep(claims: Mapping[str, Claim], name: str, result: Result) -> None:
    """Write the result of a claim; none that another process wrote meanwhile is lost."""
    with one_at_a_time("results"):
        results = {**read_results(claims), name: result}
        lines: list[dict[str, object]] = []

        def when(claim: str) -> tuple[str, str]:
            return results[claim].date, results[claim].machine

        known = sorted(filter(results.__contains__, claims), key=when)
        for (date, place), group in groupby(known, when):
            lines.append({"date": date, "machine": place})
            lines += ({"claim": claim, **as_stored(results[claim])} for claim in group)
        write_atomically(PATH, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def as_stored(result: Result) -> dict[str, object]:
    """Return what the line of a claim holds of its result."""
    figures = {
        of: spread.mean if spread.least == spread.most else dataclasses.astuple(spread)
        for of, spread in result.figures.items()
    }
    return {"seeds": result.seeds, "code": result.code, "figures": figures}


def expressions_of(claim: Claim) -> list[str]:
    """Return the expressions over figures that the rules of a claim judge by."""
    return [expression for _, expression, _, _ in parts_of(f"{claim.rule}; {claim.where}")]


def spreads_of(claim: Claim, found: Sequence[Figures]) -> dict[str, Spread]:
    """Return what is kept of the figures of several seeds."""
    words = f"{claim.rule} {claim.where} {claim.taught}"
    names = [name for name in re.findall(r"[A-Za-z_]\w*", words) if name in found[0]]
    return {
        of: spread_of([value_of(of, figures) for figures in found])
        for of in dict.fromkeys([*names, *expressions_of(claim)])
    }


def result_of(claim: Claim, found: Sequence[Figures]) -> Result:
    """Return the result of figures that were measured today, here."""
    today = datetime.datetime.now().astimezone().date().isoformat()
    return Result(len(found), today, machine(), claim.code, spreads_of(claim, found))


def is_decided(claim: Claim, result: Result) -> bool:
    """Tell whether no more seeds are wanted."""
    if claim.cost in ("quick", "slow") or result.seeds < DECIDED:
        return result.seeds >= claim.seeds
    decides = outcome(claim.rule, result.figures, result.seeds) is not None
    return result.seeds >= claim.seeds or decides


def verdict(claim: Claim, spreads: Mapping[str, Spread], seeds: int) -> str:
    """Judge figures, in words; limits are not part of it."""
    found = outcome(claim.rule, spreads, seeds)
    if found is not True and claim.where and outcome(claim.where, spreads, seeds) is True:
        return f"true {claim.words}"
    return {True: "true", False: "false", None: "not seen"}[found]


def contrary_verdict(claim: Claim) -> str:
    """Judge the figures that turn the verdict, after measuring them if they are an exchange."""
    figures = 2 * [claim.otherwise]
    if claim.contrary:
        figures = [claim.measure(seed, claim.contrary) for seed in (0, 1)]
    return verdict(claim, spreads_of(claim, figures), len(figures))
