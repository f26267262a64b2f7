"""What came out, in words and tables."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from faults.run import Result


@dataclass(frozen=True)
class Totals:
    """How many of a set of results came out which way."""

    faults: int
    caught: int
    rightly: int
    wrongly: int
    unnamed: int
    nameable: int
    """Caught faults for which the bank expects a diagnosis."""
    variants: int
    accepted: int

    @classmethod
    def of(cls, results: Iterable[Result]) -> "Totals":
        """Count results."""
        results = list(results)
        faults = [result for result in results if result.case.is_fault]
        caught = [result for result in faults if result.is_right]
        namings = [result.naming for result in caught]
        variants = [result for result in results if not result.case.is_fault]
        return cls(
            faults=len(faults),
            caught=len(caught),
            rightly=namings.count("rightly"),
            wrongly=namings.count("wrongly"),
            unnamed=namings.count("not"),
            nameable=sum(bool(result.case.diagnosis) for result in caught),
            variants=len(variants),
            accepted=sum(result.is_right for result in variants),
        )

    def __str__(self) -> str:
        return (
            f"{self.caught} of {self.faults} faults caught; named rightly {self.rightly}"
            f" ({share(self.rightly, self.caught)} of the caught,"
            f" {share(self.rightly, self.nameable)} of the {self.nameable} that have a name),"
            f" wrongly {self.wrongly}, not {self.unnamed};"
            f" {self.accepted} of {self.variants} variants accepted"
        )


def share(part: int, whole: int) -> str:
    """Say which part of a whole."""
    return f"{part / whole:.1%}" if whole else "none"


@dataclass(frozen=True)
class List:
    """Results of one kind that a reader should look at one by one."""

    heading: str
    holds: Callable[[Result], bool]
    says: Callable[[Result], str]


def first_message(result: Result) -> str:
    """Return what the first failure says."""
    if result.error:
        return result.error
    if not result.failures:
        return f"all {result.num_items} items passed"
    failure = result.failures[0]
    return f"`{failure.item.split('::')[-1]}`: {shortened(failure.message)}"


def explanation(result: Result) -> str:
    """What was said; the last line of a message holds the explanation."""
    expected = "".join(f'expected "{words}", ' for words in result.case.diagnosis)
    last = [failure.message.strip().splitlines()[-1] for failure in result.failures]
    return expected + "; ".join(dict.fromkeys(shortened(line) for line in last[:3]))


def shortened(text: str, length: int = 200) -> str:
    """Return the beginning of a text, in one line."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[:length] + " ..."


def is_caught(result: Result) -> bool:
    """Tell whether a result is of a fault that was caught."""
    return result.case.is_fault and result.is_right


LISTS = (
    List("Missed", lambda r: r.case.is_fault and not r.is_right, first_message),
    List("Variants failed", lambda r: not r.case.is_fault and not r.is_right, first_message),
    List("Named wrongly", lambda r: is_caught(r) and r.naming == "wrongly", explanation),
    List(
        "Not named, though there is a name",
        lambda r: is_caught(r) and r.naming == "not" and bool(r.case.diagnosis),
        explanation,
    ),
    List(
        "Caught without a name: none is expected",
        lambda r: is_caught(r) and r.naming == "not" and not r.case.diagnosis,
        first_message,
    ),
)


def to_print(results: Sequence[Result], elapsed_s: float) -> str:
    """What to look at, and the totals in one line."""
    seeds = {result.seed for result in results}
    lines = [
        f"{part.heading}: {line.removeprefix('- ')}"
        for part in LISTS[:-1]
        for line in listed(part, results, len(seeds))
    ]
    return "\n".join([*lines, f"{Totals.of(results)}; {elapsed_s:.0f} s"])


def told(results: Sequence[Result]) -> str:
    """All that each case was told."""
    return "\n\n".join(
        f"== {result.case.title} (seed {result.seed})\n"
        + (result.error or "\n".join(failure.message for failure in result.failures) or "passed")
        for result in results
    )


def markdown(results: Sequence[Result], date: str, elapsed_s: float) -> str:
    """The whole report, for lab/campaigns/faults.md."""
    seeds = sorted({result.seed for result in results})
    lines = [
        "# What the examination catches",
        "",
        f"Written by `python -m lab.campaigns.faults` on {date},"
        f" with seeds {', '.join(map(str, seeds))},"
        f" in {elapsed_s / len(seeds):.0f} s per seed. The bank is `tests/project/faults/`.",
        "",
        "A fault is a wrong implementation behind one adapter. It is caught if an item of its",
        "problem fails, and named rightly if a message names the mistake that the bank expects;",
        "wrongly, if any message names another one. A name is what follows `This is what comes",
        "out when`, and what makes an exception go away (`The same call runs ...`). A variant is",
        "a correct implementation in another style; all items must accept it.",
        "",
        "What right work may cost that stops at one difficulty is asked of the bank of limits,",
        "`tests/project/bank/`.",
        "",
        *table("seed", [(str(seed), [r for r in results if r.seed == seed]) for seed in seeds]),
        "",
        "By problem, over all seeds:",
        "",
    ]
    problems = list(dict.fromkeys(result.case.problem for result in results))
    rows = [(problem, [r for r in results if r.case.problem == problem]) for problem in problems]
    lines += table("problem", [*rows, ("all", list(results))])
    lines += [
        "",
        "By the style of the implementation with the fault: `compact` is plain functions in one",
        "file, `classes` and `book` are modules, the rest are stand-ins for one adapter. Faults",
        "whose names were not foreseen are in `foreign/unknown.py`: no name is expected of them.",
        "",
        *table("style", by_style(results)),
    ]
    for part in LISTS:
        lines += ["", f"## {part.heading}", ""]
        lines += listed(part, results, len(seeds)) or ["None."]
    return "\n".join(lines) + "\n"


def table(first: str, rows: Sequence[tuple[str, Sequence[Result]]]) -> list[str]:
    """Return a table in Markdown."""
    heads = [first, "faults", "caught", "named rightly", "wrongly", "not", "variants", "accepted"]
    lines = [f"| {' | '.join(heads)} |", f"|---{'|--:' * (len(heads) - 1)}|"]
    for name, results in rows:
        t = Totals.of(results)
        right = f"{t.rightly} ({share(t.rightly, t.caught)})"
        cells = [t.faults, t.caught, right, t.wrongly, t.unnamed, t.variants, t.accepted]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return lines


STYLES = ("compact", "classes", "book")


def by_style(results: Sequence[Result]) -> list[tuple[str, Sequence[Result]]]:
    """Sort results by how their faults are written."""

    def style_of(result: Result) -> str:
        return next((s for s in STYLES if result.case.name.endswith(f"({s})")), "stand-in")

    found = {style: [r for r in results if style_of(r) == style] for style in (*STYLES, "stand-in")}
    planted = [r for style in STYLES for r in found[style]]
    foreseen = [r for r in planted if r.case.diagnosis]
    return [
        *found.items(),
        ("planted, foreseen", foreseen),
        ("planted, not foreseen", [r for r in planted if not r.case.diagnosis]),
    ]


def listed(part: List, results: Sequence[Result], num_seeds: int) -> list[str]:
    """One line for each case, with the seeds if it is not all of them."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if part.holds(result):
            found.setdefault(result.case.title, []).append(result)
    lines = []
    for title in sorted(found):
        seeds = ", ".join(str(result.seed) for result in found[title])
        only = "" if len(found[title]) == num_seeds else f" (seed {seeds})"
        lines.append(f"- **{title}**{only}: {part.says(found[title][0])}")
    return lines
