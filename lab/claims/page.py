"""Writes claims.md, and the table of docs/norms.md, from the sentences and their results."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from statistics import fmean
from string import ascii_uppercase

from lab import ROOT
from lab.claims.interval import interval_of
from lab.claims.results import Result, Results, is_decided, verdict
from lab.claims.rules import Figures
from lab.claims.sentences import HERE, Claim

PAGE, NORMS = HERE / "claims.md", ROOT / "docs" / "norms.md"
# ruff: noqa: E501  Paragraphs of a page.
HEAD = """# Every claim about the norm and its neighbours, executed

`python -m lab.claims` writes this page, and nothing else does: from `sentences/`, `texts.toml` and `results.jsonl`. A row is one sentence. `python -m lab.claims NAME --again` measures it anew; `python -m lab.claims NAME --contrary` judges it after an exchange of what is measured, which must turn the verdict to its opposite, or to "not seen". `lab/README.md` explains.

A figure is a mean over seeds with its 95 % t interval; without an interval, it does not depend on the seed. A rule decides by the figures of each seed: "every seed" asks the worst of them to lie within the limits, "interval" the whole 95 % interval. All of it within: true. All of it outside, on one side: false. Otherwise: not seen. "True of ..." is a weaker sentence with a rule of its own. A training is repeated with six seeds, or with three if these decide. Times are ratios of medians of runs in turn, in one process. A program below a table is run with `seed` = 0, 1, ... Source "circulates": texts repeat it without a measurement. A, B: the machines at the end.
"""
COLUMNS = "claim | verdict | figures | rule | what is measured | source | code | measured"
UNMEASURED = "not measured"


def page_of(claims: Mapping[str, Claim], results: Results) -> str:
    """Return claims.md."""
    machines = dict.fromkeys(r["machine"] for each in results.values() for r in each)
    letters = dict(zip(machines, ascii_uppercase, strict=False))
    told = [verdict_of(claim, results[name]) for name, claim in claims.items()]
    words = ("true", "false", "not seen", UNMEASURED)
    counts = (f"{sum(verdict.startswith(word) for verdict in told)} {word}" for word in words)
    lines = [HEAD, ", ".join(counts) + "."]
    for chapter in dict.fromkeys(claim.chapter for claim in claims.values()):
        entries = [claim for claim in claims.values() if claim.chapter == chapter]
        lines += ["", f"## {chapter}", "", *table(COLUMNS)]
        lines += [row_of(claim, results[claim.name], letters) for claim in entries]
        for claim in entries:
            if claim.program:
                lines += ["", f'"{escaped(claim.sentence)}" {escaped(claim.why)}'.rstrip(), ""]
                lines += ["```", claim.program.strip(), "```"]
    lines += [
        "",
        "## The sentences of five texts",
        "",
        *table("sentence | in our words | judged by"),
    ]
    for number, (words, judges) in read_texts().items():
        links = [f"[{name}](#{name})" if name in claims else name for name in judges.split()]
        lines.append(f"| {number} | {escaped(words)} | {' '.join(links)} |")
    lines += ["", "## Machines", ""]
    lines += [f"- {letter}: {escaped(machine)}" for machine, letter in letters.items()]
    return "\n".join(lines) + "\n"


def read_texts() -> dict[str, list[str]]:
    """Return words and judges (claims, or why there is none) of each sentence by its number."""
    texts = tomllib.loads((HERE / "texts.toml").read_text(encoding="utf-8"))
    return {number: line.split(" | ") for number, line in texts.items()}


def table(columns: str) -> list[str]:
    """Return the first two lines of a table."""
    return [f"| {columns} |", "|" + " :-- |" * len(columns.split("|"))]


def row_of(claim: Claim, results: Sequence[Result], letters: Mapping[str, str]) -> str:
    """Return a claim's row of the page."""
    rule = claim.rule + (f"; true {claim.words}: {claim.where}" if claim.where else "")
    when = "-"
    if results:
        seeds = len(results)
        where = " ".join(sorted({letters[result["machine"]] for result in results}))
        day = max(result["date"] for result in results)
        when = f"{day}, {where}, {seeds} seed{'s' * (seeds > 1)}"
    found = [result["figures"] for result in results]
    cells = (
        verdict_of(claim, results), "; ".join(f"{n}: {w}" for n, w in shown(claim, found).items()),
        rule, claim.measured, claim.source, claim.by or "the program below", when,
    )  # fmt: skip
    sentence = f'<a id="{claim.name}"></a>{escaped(claim.sentence)}'
    return f"| {sentence} | " + " | ".join(escaped(cell) for cell in cells) + " |"


def verdict_of(claim: Claim, results: Sequence[Result]) -> str:
    """Return the verdict with its limits."""
    if not is_decided(claim, results):  # An ended run may have left a seed or two.
        return UNMEASURED + (f": needs {claim.needs}" if claim.needs else "")
    word = verdict(claim, [result["figures"] for result in results])
    return word + (f" ({claim.limits})" if claim.limits else "")


def shown(claim: Claim, found: Sequence[Figures]) -> dict[str, str]:
    """Return the figures that the rules name, in words; underscores are spaces on the page."""
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", f"{claim.rule} {claim.where} {claim.taught}"))
    return {
        name: str(interval_of([figures[name] for figures in found]))
        for name in names
        if found and name in found[0]
    }


def escaped(text: str) -> str:
    """Return text as a cell of a table shows it."""
    return re.sub(r"([\\|_*\[\]])", r"\\\1", text)


def norms_page(claims: Mapping[str, Claim], results: Results, page: str) -> str:
    """Return docs/norms.md with verdict and figure in each row that links to a claim."""

    def row(match: re.Match[str]) -> str:
        claim = claims[match[2]]
        found = [result["figures"] for result in results[claim.name]]
        told = re.sub(r"^(not \w+|\w+).*", r"\1", verdict_of(claim, results[claim.name]))
        figure = "-"
        if is_decided(claim, results[claim.name]):
            means = {name: fmean(figures[name] for figures in found) for name in found[0]}
            figure = claim.taught.format(**means)
        bold = f"**{told}**" if told == "false" else told
        return f"{match[1]} | [{bold}](../lab/claims/claims.md#{claim.name}) | {figure} | "

    link = r"^(\| .*?) \| \[[^]]*\]\(\.\./lab/claims/claims\.md#([\w-]+)\) \| .*? \| "
    return re.sub(link, row, page, flags=re.MULTILINE)
