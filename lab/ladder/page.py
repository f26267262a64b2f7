"""lab/ladder/record.md and its picture: what was measured, and what was not yet."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from matplotlib.figure import Figure

from cs_basics.run.document import Block, Heading, Items, Paragraph, Picture, Table, to_png
from lab.claims.interval import interval_of
from lab.ladder.climb import NOT_YET, Ladder, Recipe, Trial
from lab.ladder.notes import limits, next_steps, rules
from lab.ladder.rungs import BASE, Rung
from lab.ladder.scores import HOUR, Terms
from lab.ladder.statistics import P, difference_of, is_lower, p_value

TITLE = "The ladder: what lowers bits per byte in the same minutes"
PICTURE, PICTURE_SHOWS = "pictures/record.png", "Bits per byte, rung by rung"
MINUTES, CHOICE_UPDATES, CHOICE_STORIES, SEEDS, PRESET = 10.0, 1000, 2, 5, "stories"
"""What a measurement has at least (one story in so many at most); less is a rehearsal."""


def is_rehearsal(terms: Terms, seeds: Sequence[int]) -> bool:
    """Tell whether a ladder is too short to be reported."""
    is_short = terms.minutes < MINUTES or terms.choice_updates < CHOICE_UPDATES
    is_small = terms.choice_stories > CHOICE_STORIES or len(seeds) < SEEDS
    return is_short or is_small or terms.preset != PRESET


def blocks(ladder: Ladder) -> list[Block]:
    """Return the document."""
    state, terms = ladder.state, ladder.record.terms
    num_decided = sum(trial is None or trial.is_done for trial in state.on_top.values())
    chosen = ladder.record.runs("choice")
    return [
        *([Paragraph(_rehearsal(ladder))] if is_rehearsal(terms, ladder.seeds) else []),
        Paragraph(
            f"The base is the preset {terms.preset} with {_settings(BASE)}. Rungs are "
            f"chosen by runs of {_choice(terms)}; a recipe whose update takes longer than that of "
            "the base makes fewer, so that all take the same time. The recipe of all accepted "
            f"rungs is then trained for {terms.minutes:g} minutes on the whole text, compiling "
            "included. Seeds "
            f"{', '.join(map(str, ladder.seeds))}. {num_decided} of {len(ladder.rungs)} rungs are "
            f"decided. {_measured_on(ladder)}"
        ),
        *([Picture(PICTURE, PICTURE_SHOWS, staircase(ladder))] if chosen else []),
        Heading("The rungs"),
        Paragraph(
            "The difference in bits per byte to the same recipe without the rung, with its 95 % "
            "interval (below 0 is better), and p, on the held-out tenth of the training text. On "
            "top: added to all rungs above it that were accepted. Alone: added to the base and "
            f"what the rung needs. Not seen: p is {P} or more. Worse: p is below {P}, and bits per "
            "byte are higher with the rung."
        ),
        Table(
            ["rung", "on top", "p", "accepted", "alone", "p", "changes", "source"],
            [_row(ladder, rung) for rung in ladder.rungs],
        ),
        Paragraph(
            f"A 95 % interval may exclude 0 where p is above {P}: to be accepted takes more. Not "
            "seen does not mean that a rung does nothing: the half width of its interval says how "
            "much could have been missed. The picture has the interval of each recipe, this table "
            "that of the difference between two."
        ),
        Heading("The result"),
        *_result(ladder),
        Heading(f"The same in {HOUR * terms.minutes:g} minutes"),
        *_longer(ladder),
        Heading("The recipes"),
        Table(
            ["recipe", "bits per byte", "time of an update", "updates", "seeds", "failed"],
            [_recipe(ladder, recipe) for recipe in chosen],
        ),
        *_left_over(ladder),
        Heading("How far this goes"),
        Items(limits(ladder)),
        Heading("To go on"),
        Items(next_steps(ladder)),
        Heading("Rules"),
        Items(rules(terms)),
    ]


def _settings(settings: Mapping[str, object]) -> str:
    """Return settings as a list."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _choice(terms: Terms) -> str:
    share = f"one story in {terms.choice_stories}" if terms.choice_stories > 1 else "every story"
    return f"{terms.choice_updates:,} updates on {share} of the training text"


def _rehearsal(ladder: Ladder) -> str:
    terms = ladder.record.terms
    return (
        f"A rehearsal: preset {terms.preset}, {terms.minutes:g} minutes, choices by "
        f"{_choice(terms)}, seeds: {len(ladder.seeds)}. A measurement has preset {PRESET}, at "
        f"least {MINUTES:g} minutes, choices of at least {CHOICE_UPDATES:,} updates on one story "
        f"in {CHOICE_STORIES}, and {SEEDS} seeds. These figures show that everything runs, and "
        "nothing else."
    )


def _measured_on(ladder: Ladder) -> str:
    scores = ladder.record.scores
    if not scores:
        return "Nothing is measured yet."
    dates = sorted({score.date for score in scores})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    runs = f"{len(scores)} run{'s' * (len(scores) > 1)}"
    return f"{runs}, {when}, begun on {ladder.record.terms.machine}."


def _row(ladder: Ladder, rung: Rung) -> list[str]:
    """Return the row of a rung in the table of rungs."""
    state = ladder.state
    alone, on_top = state.alone.get(rung.name), state.on_top.get(rung.name)
    if on_top is None and rung.name in state.on_top:
        missing = ", ".join(name for name in rung.needs if name not in state.accepted)
        told = ["-", "-", f"no, needs {missing}"]
    else:
        verdict = on_top.verdict if on_top else NOT_YET
        told = [*_difference(ladder, on_top), {"better": "yes", NOT_YET: NOT_YET}.get(
            verdict, f"no, {verdict}"
        )]  # fmt: skip
    changes = _settings(rung.settings)
    name = f"{rung.name}: {rung.what}"
    return [name, *told, *_difference(ladder, alone), changes, rung.source]


def _difference(ladder: Ladder, trial: Trial | None) -> list[str]:
    """Return the difference of the means with its interval, and its p."""
    if trial is None or not trial.is_done:
        return [NOT_YET, "-"]
    without, with_it = (ladder.scores(recipe) for recipe in (trial.without, trial.with_it))
    if not all(map(math.isfinite, [*without, *with_it])):
        return ["a run failed", "-"]
    mean, half_width = difference_of(with_it, without)
    return [f"{mean:+.4f} \N{PLUS-MINUS SIGN} {half_width:.4f}", f"{trial.p:.2g}"]


def _interval(scores: Sequence[float]) -> str:
    """Return a mean and its interval with the same number of decimals."""
    found = interval_of(scores)
    if found.half_width == 0:  # Of one seed, or of a run that failed: unknown.
        return f"{found.mean:.4f}"
    return f"{found.mean:.4f} \N{PLUS-MINUS SIGN} {found.half_width:.4f}"


def _name(recipe: Recipe) -> str:
    return " + ".join(("base", *recipe))


def _recipe(ladder: Ladder, recipe: Recipe) -> list[str]:
    of_seeds = ladder.record.runs("choice")[recipe]
    failures = "; ".join(sorted({score.failure for score in of_seeds.values()} - {""}))
    score = _interval(ladder.scores(recipe)) if ladder.scores(recipe) else "-"
    steps = f"{median(score.steps for score in of_seeds.values()):,.0f}"
    cost, seeds = next(iter(of_seeds.values())).cost, ", ".join(map(str, sorted(of_seeds)))
    told = "-" if cost is None else f"{cost:.2f}"
    return [_name(recipe), score, told, steps, seeds, failures or "none"]


def _left_over(ladder: Ladder) -> list[Block]:
    """Name recipes that are in no comparison: of an earlier state of the ladder."""
    state = ladder.state
    trials = [trial for trial in (*state.alone.values(), *state.on_top.values()) if trial]
    used = {recipe for trial in trials for recipe in (trial.without, trial.with_it)}
    others = [recipe for recipe in ladder.record.runs("choice") if recipe not in used]
    if not others or not state.is_decided:
        return []
    names = ", ".join(map(_name, others))
    told = (
        f"Tried before the rungs were decided as they are now, and part of no comparison: {names}."
    )
    return [Paragraph(told)]


def _result(ladder: Ladder) -> list[Block]:
    recipe = ladder.state.accepted
    if not ladder.state.is_decided:
        return [Paragraph("Not measured yet: the last rungs have to be decided first.")]
    recipes: list[Recipe] = list(dict.fromkeys([(), recipe]))
    found = {one: ladder.scores(one, "final") for one in recipes}
    if any(len(scores) < len(ladder.seeds) for scores in found.values()):
        return [Paragraph("Not measured yet: final runs are missing.")]
    rows = [
        [_name(one), f"{median(scores):.4f}", _interval(scores), _updates(ladder, one),
         ", ".join(f"{score:.4f}" for score in scores)]
        for one, scores in found.items()
    ]  # fmt: skip
    told = "No rung was accepted: the base is the recipe."
    if recipe:
        p = p_value(found[recipe], found[()])
        verdict = "worse" if p < P else "not seen to be better"
        if is_lower(found[recipe], found[()]):
            verdict = "better"
        told = (
            f"The accepted rungs together are {verdict} than the base on the validation text "
            f"(p = {p:.2g})."
        )
    early = [
        f"{_name(one)}, seed {seed}, {score.value:.4f}"
        for one, of_seeds in ladder.record.runs("final").items()
        for seed, score in of_seeds.items()
        if one not in recipes
    ]
    if early:
        told += (
            " Made before the last rung was decided, an exception to the rule that the validation "
            f"text waits for that, and part of no result: {'; '.join(early)}."
        )
    return [
        Paragraph(
            "Trained on the whole training text and scored with each seed on the validation text, "
            "which decided nothing."
        ),
        Table(["recipe", "median", "mean and 95 % interval", "updates", "each seed"], rows),
        Paragraph(told),
    ]


def _updates(ladder: Ladder, recipe: Recipe) -> str:
    """Return the median of the updates of a recipe's final runs."""
    of_seeds = ladder.record.runs("final")[recipe]
    return f"{median(score.steps for score in of_seeds.values()):,.0f}"


def _longer(ladder: Ladder) -> list[Block]:
    """Return what recipes reach in six times the minutes."""
    of_hour = ladder.record.runs("hour")
    rows = [
        [_name(recipe), str(seed), f"{score.value:.4f}", f"{score.steps:,}"]
        for recipe, of_seeds in of_hour.items()
        for seed, score in of_seeds.items()
    ]
    if not rows:
        return [Paragraph("Not measured yet.")]
    told: list[Block] = [Table(["recipe", "seed", "bits per byte", "updates"], rows)]
    sooner = {one: median(ladder.scores(one, "final") or [math.inf]) for one in of_hour}
    worse = [
        _name(one)
        for one, of_seeds in of_hour.items()
        if min(score.value for score in of_seeds.values()) > sooner[one]
    ]
    if worse:
        told.append(
            Paragraph(
                f"Worse than after {ladder.record.terms.minutes:g} minutes: {', '.join(worse)}. "
                "In so many passes the text is learnt by heart, and nothing that short runs choose "
                "holds this back. The preset own-text has dropout for it; docs/running.md has its "
                "hour."
            )
        )
    accepted = ladder.state.accepted if ladder.state.is_decided else None
    if early := [_name(recipe) for recipe in of_hour if recipe != accepted]:
        told.append(
            Paragraph(
                f"Chosen before every rung was decided, an exception to the rule that the "
                f"validation text waits for that: {', '.join(early)}."
            )
        )
    return told


def staircase(ladder: Ladder) -> bytes:
    """Draw the recipes as steps down, and beside each step what was tried and not accepted."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots()
    points: list[tuple[str, Recipe, bool]] = [("base", (), True)]
    for rung in ladder.rungs:
        trial = ladder.state.on_top.get(rung.name)
        if trial is not None and trial.is_done:
            points.append((rung.name, trial.with_it, trial.is_accepted))
    height = math.nan
    stairs: list[tuple[int, float]] = []
    for place, (_, recipe, is_step) in enumerate(points):
        scores = ladder.scores(recipe)
        if not scores or not all(map(math.isfinite, scores)):
            continue  # A mean of the seeds that did not diverge would flatter it.
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
    axes.set_ylabel("bits per byte on the held-out tenth")
    terms = ladder.record.terms
    axes.set_title(
        f"{_choice(terms)}, "
        f"{len(ladder.seeds)} seeds, 95 % intervals; grey: not accepted"
        + ("; a rehearsal" if is_rehearsal(terms, ladder.seeds) else ""),
        fontsize="medium",
    )
    axes.grid(axis="y", alpha=0.3)
    return to_png(figure)
