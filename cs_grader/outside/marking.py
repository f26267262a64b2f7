"""What is known of one submission so far, and the points that it makes."""

import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cs_grader.inside.ledger import Entry
from cs_grader.outside.clean_copy import Copied
from cs_grader.outside.hidden import name_of_secret
from cs_grader.outside.terms import (
    NOT_ASKED,
    TIME_IS_UP,
    Terms,
    points_of,
    rubric_of,
    trivial_items,
)
from cs_grader.policy.check import Policy
from cs_grader.policy.settle import settle
from cs_grader.result import Excerpt, Finding, Fingerprint, Item, Problem, Result, printable

MAX_MESSAGE = 4000
MAX_NOTE = 300
MAX_OUTPUT = 20_000
MAX_WORDS = 600
MAX_SKETCH = 16
MAX_EXCERPT = 4000
NOT_RUN = "not examined"
# What differs from run to run and says nothing: addresses, names of temporary files.
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
# Bounded, since a message may be made of slashes: an unbounded path is quadratic in its length.
TEMPORARY = re.compile(r"/(?:[\w.-]{1,100}/){0,12}(?:tmp|submission-|pymp-)[a-z0-9_]{8}\b")
FORBIDDEN = "forbidden-operator"


@dataclasses.dataclass(slots=True)
class Marking:
    """What is known of one submission so far; `result` can be asked for at any time."""

    name: str
    terms: Terms
    started: float = dataclasses.field(default_factory=time.monotonic)
    copied: Copied = dataclasses.field(default_factory=Copied)
    hopeless: str = ""
    """Why nothing of it can be examined."""
    plan: list[tuple[bool, str, str]] = dataclasses.field(
        default_factory=list[tuple[bool, str, str]]
    )
    """For each item, whether its inputs are hidden, its problem and its node id."""
    rows: dict[tuple[bool, str], dict[str, Any]] = dataclasses.field(
        default_factory=dict[tuple[bool, str], dict[str, Any]]
    )
    notes: list[tuple[bool, str, Entry]] = dataclasses.field(
        default_factory=list[tuple[bool, str, Entry]]
    )
    """What was noted while it ran: whether the item is hidden, its problem, and the note."""
    absent: list[list[Any]] = dataclasses.field(default_factory=list[list[Any]])
    import_note: str = ""
    output: str = ""
    fault: str = ""
    stage: str = ""
    """Where the sandbox's folders are, for as long as the examination lasts."""
    source: Policy | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every item has been examined."""
        return bool(self.plan) and len(self.rows) == len(self.plan) and not self.fault

    def take(self, message: dict[str, Any]) -> bool:
        """Take in what the examiner tells; return whether it is about an item."""
        if "plan" in message:
            self.plan = [(hidden, problem, item) for hidden, problem, item in message["plan"]]
        elif "row" in message:
            row = message["row"]
            self.rows[message["hidden"], row["item"]] = row | {"seconds": message["seconds"]}
        elif "skipped" in message:
            self.plan = [entry for entry in self.plan if entry[2] != message["skipped"]]
        elif "notes" in message:
            about = message["hidden"], message["problem"]
            self.notes += [(*about, Entry(*entry)) for entry in message["notes"]]
        elif "absent" in message:
            self.absent = message["absent"]
        elif "import" in message:
            self.import_note = message["import"]
        elif "output" in message:
            self.output = message["output"]
        elif "fault" in message:
            self.fault = message["fault"]
        return "row" in message

    def result(self) -> Result:
        """Make a result of what is known; what has not been examined has not been passed."""
        items = tuple(self._item(*planned) for planned in self.plan)
        trivial, points = trivial_items(self.terms.tests), points_of(self.terms.tests)

        def earned(entry: dict[str, Any], items: Sequence[Item]) -> float:
            # On hidden inputs an item is asked once more, and is right if it is right both times.
            outcomes = {item.item: "passed" for item in items}
            outcomes |= {item.item: item.outcome for item in items if item.outcome != "passed"}
            # Zeros pass some items, and known answers pass all items whose inputs are not drawn.
            # Whoever passes no others has not solved anything.
            drawn = {item.item for item in items if item.is_hidden} or set(outcomes)
            return points(entry, list(outcomes.items()), {*trivial} | (outcomes.keys() - drawn))

        problems = tuple(
            _problem(name, entry, [item for item in items if item.problem == name], earned)
            for name, entry in rubric_of(self.terms.tests).items()
            if name in self.terms.problems
        )
        return Result(
            submission=self.name,
            key=self.copied.key,
            isolation=self.terms.tier,
            secret=name_of_secret(self.terms.secret),
            note=self._note(),
            score=round(sum(problem.points for problem in problems), 6),
            max_score=float(sum(problem.max_points for problem in problems)),
            seconds=round(time.monotonic() - self.started, 3),
            problems=problems,
            items=items,
            policy=tuple(map(_printable_finding, self._findings(problems))),
            output=printable(self._steady(_without_repeats(self.output)), MAX_OUTPUT),
            sources=tuple(self._sources(problems)),
        )

    def _sources(self, problems: Sequence[Problem]) -> Iterator[Excerpt]:
        failed = {problem.problem for problem in problems if problem.failed}
        for source in self.source.solutions if self.source else ():
            if source.problem in failed:
                yield dataclasses.replace(
                    source,
                    file=printable(source.file, 300),
                    text=printable(source.text, MAX_EXCERPT),
                )

    def _findings(self, problems: Sequence[Problem]) -> list[Finding]:
        if self.source is None:
            return []
        failed = [problem.problem for problem in problems if problem.failed]
        public: dict[str, list[Entry]] = {}
        everything: dict[str, list[Entry]] = {}
        for is_hidden, problem, entry in self.notes:
            everything.setdefault(problem, []).append(entry)
            if not is_hidden:
                public.setdefault(problem, []).append(entry)
        shown = set(settle(self.source, public, self.terms.problems, failed))
        found = settle(self.source, everything, self.terms.problems, failed)
        return [dataclasses.replace(one, is_hidden=one not in shown) for one in found]

    def _item(self, is_hidden: bool, problem: str, node: str) -> Item:
        row = self.rows.get((is_hidden, node))
        condemned = self.source.condemned.get(problem) if self.source else None
        if row is None:
            outcome, diagnosis, message = "error", None, NOT_RUN
        elif condemned is not None and row["outcome"] != "not_started":
            outcome, diagnosis = "failed", FORBIDDEN
            message = f"{condemned.message} ({condemned.file}, line {condemned.line})"
        else:
            outcome, diagnosis, message = row["outcome"], row["diagnosis"], row["message"]
        return Item(
            problem=problem,
            item=node,
            outcome=outcome,
            diagnosis=diagnosis and printable(diagnosis, 200),
            message=printable(self._steady(message), MAX_MESSAGE),
            is_hidden=is_hidden,
            seconds=row["seconds"] if row else 0.0,
            fingerprint=None if is_hidden or row is None else self._fingerprint(row),
        )

    def _fingerprint(self, row: dict[str, Any]) -> Fingerprint | None:
        """The fingerprint of the answer, unless nothing was asked."""
        is_asked = not (self.hopeless or self.import_note or row["message"].startswith(NOT_ASKED))
        taken = row.get("fingerprint")
        if taken is None or not is_asked:
            return None
        return Fingerprint(
            form=printable(self._steady(taken["form"]), MAX_WORDS),
            sketch=tuple(map(float, taken["sketch"][:MAX_SKETCH])),
            asked=printable(taken["asked"], MAX_WORDS),
            size=int(taken["size"]),
            expected=printable(taken["expected"], MAX_WORDS),
            got=printable(self._steady(taken["got"]), MAX_WORDS),
        )

    def _steady(self, text: str) -> str:
        """Replace what would make the words of two runs differ."""
        if self.stage:
            for folder in ("/tmp", f"{self.stage}/scratch", self.stage):
                text = text.replace(f"{folder}/submission/", "")
            text = text.replace(self.stage, "/grading")
        return ADDRESS.sub("0x...", TEMPORARY.sub("/tmp/...", text))

    def _note(self) -> str:
        parts = [self.hopeless or self._steady(self.import_note)]
        # Said here, since nobody but the instructor reads the messages of hidden items.
        if num_left := sum(row["message"].startswith(TIME_IS_UP) for row in self.rows.values()):
            minutes = self.terms.budget_s / 60
            of_all = f"{num_left} of {len(self.plan)} checks"
            parts.append(f"the {minutes:g} minutes were used up before {of_all}")
        parts += [
            f"not installed: {package} ({file}, line {line})" for package, file, line in self.absent
        ]
        parts += [f"left out {reason}" for reason in self.copied.left_out[:3]]
        if len(self.copied.left_out) > 3:
            parts.append(f"{len(self.copied.left_out) - 3} more left out")
        line = " ".join("; ".join(part for part in parts if part).split())
        return printable(line, MAX_NOTE)


def _problem(
    name: str,
    entry: dict[str, Any],
    items: Sequence[Item],
    earned: Callable[[dict[str, Any], Sequence[Item]], float],
) -> Problem:
    passed = sum(item.outcome == "passed" for item in items)
    not_started = sum(item.outcome == "not_started" for item in items)
    return Problem(
        problem=name,
        title=entry["title"],
        points=round(earned(entry, items), 6),
        max_points=float(entry["points"]),
        passed=passed,
        failed=len(items) - passed - not_started,
        not_started=not_started,
        hidden=sum(item.is_hidden for item in items),
        hidden_wrong=sum(item.is_hidden and item.outcome != "passed" for item in items),
    )


def _without_repeats(text: str) -> str:
    """Write a repeated line once, with a mark: how often it repeats is chance and tells nothing."""
    lines: list[str] = []
    for line, group in itertools.groupby(text.splitlines()):
        lines += [line, "(the same again)"] if sum(1 for _ in group) > 1 else [line]
    return "\n".join(lines)


def _printable_finding(finding: Finding) -> Finding:
    return dataclasses.replace(
        finding,
        operator=printable(finding.operator, 200),
        file=printable(finding.file, 300),
        message=printable(finding.message, 1000),
    )
