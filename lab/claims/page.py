"""Writes claims.md, and the table of docs/norms.md, from the sentences and their results."""

import re
import tomllib
from collections.abc import Mapping
from string import ascii_uppercase

from lab import ROOT
from lab.claims.results import Result, Results, is_decided, verdict
from lab.claims.sentences import HERE, Claim

PAGE, NORMS = HERE / "claims.md", ROOT / "docs" / "norms.md"
# ruff: noqa: E501  Paragraphs of a page.
HEAD = """# Every claim about the norm and its neighbours, executed

`python -m lab.claims` writes this page, and nothing else does: from `sentences/`, `texts.toml` and `results.jsonl`; git does not keep it. A row is one sentence. `python -m lab.claims NAME --again` measures it anew; `python -m lab.claims NAME --contrary` judges it after an exchange of what is measured, which must turn the verdict to its opposite, or to "not seen". `lab/README.md` explains.

A figure is a mean over seeds with its 95 % t interval; without an interval, it does not depend on the seed. A rule decides by the figures of each seed: "every seed" asks the worst of them to lie within the limits, "interval" the whole 95 % interval. All of it within: true. All of it outside, on one side: false. Otherwise: not seen. "True of ..." is a weaker sentence with a rule of its own. A training is repeated with six seeds, or with three if these decide. Times are ratios of medians of runs in turn, in one process. A program below a table is run with `seed` = 0, 1, ... Source "circulates": texts repeat it without a measurement. A, B: the machines at the end.
"""
COLUMNS = "claim | verdict | figures | rule | what is measured | source | code | measured"
UNMEASURED = "not measured"


def page_of(claims: Mapping[str, Claim], results: Results) -> str:
    """Return claims.md."""
    machines = dict.fromkeys(result.machine for result in results.values())
    letters = dict(zip(machines, ascii_uppercase, strict=False))
    told = [verdict_of(claim, results.get(name)) for name, claim in claims.items()]
    words = ("true", "false", "not seen", UNMEASURED)
    counts = (f"{sum(verdict.startswith(word) for verdict in told)} {word}" for word in words)
    lines = [HEAD, ", ".join(counts) + "."]
    for chapter in dict.fromkeys(claim.chapter for claim in claims.values()):
        entries = [claim for claim in claims.values() if claim.chapter == chapter]
        lines += ["", f"## {chapter}", "", *table(COLUMNS)]
        lines += [row_of(claim, results.get(claim.name), letters) for claim in entries]
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


def row_of(claim: Claim, result: Result | None, letters: Mapping[str, str]) -> str:
    """Return a claim's row of the page."""
    rule = claim.rule + (f"; true {claim.words}: {claim.where}" if claim.where else "")
    when = "-"
    if result:
        plural = "s" * (result.seeds > 1)
        when = f"{result.date}, {letters[result.machine]}, {result.seeds} seed{plural}"
    figures = result.figures.items() if result else []
    shown = "; ".join(f"{name}: {spread}" for name, spread in figures if name.isidentifier())
    cells = (
        verdict_of(claim, result), shown, rule, claim.measured, claim.source, claim.by or "the program below", when,
    )  # fmt: skip
    sentence = f'<a id="{claim.name}"></a>{escaped(claim.sentence)}'
    return f"| {sentence} | " + " | ".join(escaped(cell) for cell in cells) + " |"


def verdict_of(claim: Claim, result: Result | None) -> str:
    """Return the verdict with its limits."""
    if result is None or not is_decided(claim, result):
        return UNMEASURED + (f": needs {claim.needs}" if claim.needs else "")
    word = verdict(claim, result.figures, result.seeds)
    return word + (f" ({claim.limits})" if claim.limits else "")


def escaped(text: str) -> str:
    """Return text as a cell of a table shows it."""
    return re.sub(r"([\\|_*\[\]])", r"\\\1", text)


def norms_page(claims: Mapping[str, Claim], results: Results, page: str) -> str:
    """Return docs/norms.md with verdict and figure in each row that links to a claim."""

    def row(match: re.Match[str]) -> str:
        claim = claims[match[3]]
        result = results.get(claim.name)
        told = re.sub(r"^(not \w+|\w+).*", r"\1", verdict_of(claim, result))
        figure = "-"
        if result and is_decided(claim, result):
            means = {name: spread.mean for name, spread in result.figures.items()}
            figure = claim.taught.format(**means)
        bold = f"**{told}**" if told == "false" else told
        return f"{match[1]} | [{bold}]({match[2]}#{claim.name}) | {figure} | "

    link = r"^(\| .*?) \| \[[^]]*\]\((\.\./lab/claims/sentences/\w+\.toml)#([\w-]+)\) \| .*? \| "
    return re.sub(link, row, page, flags=re.MULTILINE)
