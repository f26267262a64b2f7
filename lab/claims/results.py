"""Raw results, by which a verdict is judged again: a line of results.jsonl for claim and seed.

A line has the claim, its seed, the figures, the day, the machine, and the checksum of the code that
measured. A result of other code is stale: the page does not show it, and the runner measures anew.
"""

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cs_basics.fast.compilation import reason_not_to_compile
from cs_basics.run.atomic import write_atomically
from lab.claims.measures.trainings import one_at_a_time
from lab.claims.rules import Figures, outcome
from lab.claims.sentences import HERE, Claim
from lab.timing import machine

PATH = HERE / "results.jsonl"
DECIDED = 3
"""Seeds after which a training is not repeated if its rule says true or false."""
Result = Mapping[str, Any]
Results = Mapping[str, Sequence[Result]]

NEEDS: Mapping[str, Callable[[], bool]] = {
    "": lambda: True,
    "a GPU": torch.cuda.is_available,
    "torch.compile": lambda: reason_not_to_compile(torch.device("cpu")) is None,
    "what no machine here has": lambda: False,
}
"""What a claim may need, and whether this machine has it."""


def read_results(claims: Mapping[str, Claim]) -> dict[str, list[Result]]:
    """Return the results of every claim that are not stale, by seed."""
    found: dict[str, list[Result]] = {name: [] for name in claims}
    codes = {name: claim.code for name, claim in claims.items()}
    for line in PATH.read_text(encoding="utf-8").splitlines() if PATH.exists() else []:
        result = json.loads(line)
        if codes.get(result["claim"]) == result["code"]:
            found[result["claim"]].append(result)
    return found


def keep(claims: Mapping[str, Claim], name: str, found: Sequence[Result]) -> None:
    """Write the results of a claim; none that another process wrote meanwhile is lost."""
    with one_at_a_time("results"):
        results = {**read_results(claims), name: found}
        lines = [json.dumps(result) for each in results.values() for result in each]
        write_atomically(PATH, "".join(f"{line}\n" for line in lines).encode())


def measured(claim: Claim, seed: int) -> Result:
    """Measure a claim with a seed."""
    return {
        "claim": claim.name,
        "seed": seed,
        "figures": {name: float(f"{value:.6g}") for name, value in claim.measure(seed).items()},
        "date": datetime.datetime.now().astimezone().date().isoformat(),
        "machine": machine(),
        "code": claim.code,
    }


def is_decided(claim: Claim, results: Sequence[Result]) -> bool:
    """Tell whether no more seeds are wanted."""
    if claim.cost in ("quick", "slow") or len(results) < DECIDED:
        return len(results) >= claim.seeds
    figures = [result["figures"] for result in results]
    return len(results) >= claim.seeds or outcome(claim.rule, figures) is not None


def verdict(claim: Claim, figures: Sequence[Figures]) -> str:
    """Judge figures, in words; limits are not part of it."""
    found = outcome(claim.rule, figures)
    if found is not True and claim.where and outcome(claim.where, figures) is True:
        return f"true {claim.words}"
    return {True: "true", False: "false", None: "not seen"}[found]


def contrary_verdict(claim: Claim) -> str:
    """Judge the figures that turn the verdict, after measuring them if they are an exchange."""
    figures = [claim.otherwise] if claim.otherwise else []
    if claim.contrary:
        figures = [claim.measure(seed, claim.contrary) for seed in (0, 1)]
    return verdict(claim, 2 * figures)
