"""docs/record.md and its picture: what was measured, and what was not yet."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from matplotlib.figure import Figure

from cs_basics.run.document import Block, Heading, Items, Paragraph, Picture, Table
from cs_basics.study.claims.interval import interval_of
from cs_basics.study.record.climb import Climb, Recipe, Trial
from cs_basics.study.record.rungs import Rung
from cs_basics.study.record.score import Runs
from cs_basics.study.record.statistics import P, is_lower, p_value

TITLE = "The record: bits per byte in a few minutes"
PICTURE, PICTURE_SHOWS = "pictures/record.png", "Bits per byte, rung by rung"
MINUTES, SEEDS, PRESET = 10.0, 5, "stories"
"""What a measurement has at least; less is a rehearsal."""


@dataclass(frozen=True)
class Ladder:
    """All that is known of a ladder."""

    rungs: Sequence[Rung]
    state: Climb
    chosen: Runs
    """Scores on the third text, which decide."""
    final: Runs
    """Scores on the validation text, of runs that were trained on the whole training text."""
    seeds: Sequence[int]
    minutes: float
    preset: str
    texts: dict[str, str]
    """Checksums of the texts by name."""

    @property
    def is_rehearsal(self) -> bool:
        """Whether it is too short to be reported."""
        is_short = self.minutes < MINUTES or len(self.seeds) < SEEDS
        return is_short or self.preset != PRESET


def blocks(ladder: Ladder) -> list[Block]:
    """Return the document."""
    state = ladder.state
    num_decided = sum(trial is None or trial.is_done for trial in state.on_top.values())
    return [
        *([Paragraph(_rehearsal(ladder))] if ladder.is_rehearsal else []),
        Paragraph(
            f"Preset {ladder.preset} without what it has from the rungs, {ladder.minutes:g} "
            f"minutes from the start of the script, with tokenizer, encoding and compilation; at "
            f"most two threads; seeds {', '.join(map(str, ladder.seeds))}. {num_decided} of "
            f"{len(ladder.rungs)} rungs are decided. {_measured_on(ladder)}"
        ),
        *([Picture(PICTURE, PICTURE_SHOWS, staircase(ladder))] if ladder.chosen else []),
        Heading("The rungs"),
        Paragraph(
            "Bits per byte on the third text, a tenth of the training text: difference to the "
            "same recipe without the rung (below 0 is better) and its p. Alone: on the base and "
            "what the rung needs. On top: on all rungs above it that were accepted."
        ),
        Table(
            ["rung", "alone", "p", "on top", "p", "accepted", "changes", "source"],
            [_row(ladder, rung) for rung in ladder.rungs],
        ),
        Heading("The result"),
        *_result(ladder),
        Heading("The recipes"),
        Table(
            ["recipe", "bits per byte", "updates", "seeds", "failed"],
            [_recipe(ladder, recipe) for recipe in ladder.chosen],
        ),
        Heading("Rules"),
        Items(_rules(ladder)),
    ]


def _rehearsal(ladder: Ladder) -> str:
    return (
        f"A rehearsal: preset {ladder.preset}, minutes: {ladder.minutes:g}, seeds: "
        f"{len(ladder.seeds)}. A measurement has preset {PRESET}, at least {MINUTES:g} minutes and "
        f"{SEEDS} seeds. These figures show that everything runs, and nothing else."
    )


def _measured_on(ladder: Ladder) -> str:
    scores = [
        s for runs in (ladder.chosen, ladder.final) for of in runs.values() for s in of.values()
    ]
    if not scores:
        return "Nothing is measured yet."
    dates = sorted({score.date for score in scores})
    machines = sorted({score.machine for score in scores})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{len(scores)} runs, {when}, on {'; '.join(machines)}."


def _row(ladder: Ladder, rung: Rung) -> list[str]:
    alone, on_top = ladder.state.alone[rung.name], ladder.state.on_top[rung.name]
    if on_top is None:
        missing = ", ".join(name for name in rung.needs if name not in ladder.state.accepted)
        told = ["-", "-", f"no, needs {missing}"]
    else:
        verdict = on_top.verdict if not on_top.is_accepted else "yes"
        told = [*_difference(ladder, on_top), verdict if verdict in ("yes", "not measured yet")
                else f"no, {verdict}"]  # fmt: skip
    changes = ", ".join(f"{name}={value}" for name, value in rung.settings.items())
    name = f"{rung.name}: {rung.what}"
    return [name, *_difference(ladder, alone), *told, changes, rung.source]


def _difference(ladder: Ladder, trial: Trial) -> list[str]:
    """Return the difference of the means and its p."""
    if not trial.is_done:
        return ["not measured yet", "-"]
    means = [_mean(ladder, recipe) for recipe in (trial.without, trial.with_it)]
    if not all(map(math.isfinite, means)):
        return ["a run failed", "-"]
    return [f"{means[1] - means[0]:+.4f}", f"{trial.p:.2g}"]


def _scores(ladder: Ladder, recipe: Recipe, runs: Runs | None = None) -> list[float]:
    of_seeds = (ladder.chosen if runs is None else runs).get(recipe, {})
    return [of_seeds[seed].value for seed in ladder.seeds if seed in of_seeds]


def _mean(ladder: Ladder, recipe: Recipe) -> float:
    return interval_of(_scores(ladder, recipe)).mean


def _name(recipe: Recipe) -> str:
    return " + ".join(("base", *recipe))


def _recipe(ladder: Ladder, recipe: Recipe) -> list[str]:
    of_seeds = ladder.chosen[recipe]
    failures = "; ".join(sorted({score.failure for score in of_seeds.values()} - {""}))
    score = str(interval_of(_scores(ladder, recipe))) if _scores(ladder, recipe) else "-"
    steps = f"{median(s.steps for s in of_seeds.values()):,.0f}" if of_seeds else "-"
    return [_name(recipe), score, steps, ", ".join(map(str, sorted(of_seeds))), failures or "none"]


def _result(ladder: Ladder) -> list[Block]:
    recipe = ladder.state.accepted
    if not ladder.state.is_decided:
        return [Paragraph("Not measured yet: the last rungs have to be decided first.")]
    recipes: list[Recipe] = list(dict.fromkeys([(), recipe]))
    found = {one: _scores(ladder, one, ladder.final) for one in recipes}
    if any(len(scores) < len(ladder.seeds) for scores in found.values()):
        return [Paragraph("Not measured yet: final runs are missing.")]
    rows = [
        [_name(one), f"{median(scores):.4f}", str(interval_of(scores)),
         ", ".join(f"{score:.4f}" for score in scores)]
        for one, scores in found.items()
    ]  # fmt: skip
    told = "No rung was accepted: the base is the recipe."
    if recipe:
        p = p_value(found[recipe], found[()])
        is_better = is_lower(found[recipe], found[()])
        told = (
            f"The accepted rungs together are {'better' if is_better else 'not seen to be better'} "
            f"than the base on the validation text (p = {p:.2g})."
        )
    return [
        Paragraph(
            "Trained on the whole training text and scored once with each seed on the validation "
            "text, which no choice has seen."
        ),
        Table(["recipe", "median", "mean and 95 % interval", "each seed"], rows),
        Paragraph(told),
    ]


def _rules(ladder: Ladder) -> list[str]:
    return [
        "Every tenth story of the training text is held back, and decides; the final run gets it "
        "back. Until every rung is decided, only the checksum of the validation text is taken.",
        f"A rung is accepted if it is better on top of those before it with p < {P} by Welch's "
        "two-sided t-test over the seeds. The test takes scores as independent and roughly normal, "
        "and lets each recipe have a variance of its own. All recipes share their seeds; the "
        "test ignores this pairing, which makes it conservative. With so many rungs, one that does "
        f"nothing is accepted with a probability of {P / 2:g} each.",
        "Every run is a process of scripts/train.py with an empty cache of compiled code, and "
        "scripts/evaluate.py scores all of them, in float32.",
        "The peer, transformers' model with PyTorch's optimizers, is not on this ladder: "
        "docs/performance.md compares with it at equal time, with AdamW and with Muon.",
        "Texts (SHA-256): " + ", ".join(f"{n} {value}" for n, value in ladder.texts.items()) + ".",
    ]


def staircase(ladder: Ladder) -> bytes:
    """Draw the recipes as steps down, and beside each step what was tried and not accepted."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots()
    points: list[tuple[str, Recipe, bool]] = [("base", (), True)]
    for rung in ladder.rungs:
        trial = ladder.state.on_top[rung.name]
        if trial is not None and trial.is_done:
            points.append((rung.name, trial.with_it, trial.is_accepted))
    height = math.nan
    stairs: list[tuple[int, float]] = []
    for place, (_, recipe, is_step) in enumerate(points):
        scores = [score for score in _scores(ladder, recipe) if math.isfinite(score)]
        if not scores:
            continue
        interval = interval_of(scores)
        color = "C0" if is_step else "0.6"
        spread = [interval.half_width]
        axes.errorbar([place], [interval.mean], spread, fmt="o", capsize=3, color=color)
        axes.annotate(f"{interval.mean:.4f}", (place, interval.mean), (6, 4),
                      textcoords="offset points", fontsize="x-small")  # fmt: skip
        height = interval.mean if is_step else height
        stairs.append((place, height))
    for (start, level), (end, below) in pairwise(stairs):
        axes.plot([start, end, end], [level, level, below], color="C0", linewidth=1)
    axes.set_xticks(range(len(points)), [name for name, _, _ in points], rotation=40, ha="right")
    axes.set_ylabel("bits per byte on the third text")
    axes.set_title(
        f"{ladder.minutes:g} minutes, {len(ladder.seeds)} seeds, 95 % intervals; grey: not accepted"
        + ("; a rehearsal" if ladder.is_rehearsal else ""),
        fontsize="medium",
    )
    axes.grid(axis="y", alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, format="png")
    return buffer.getvalue()
