"""What stands below the tables of record.md: how far they go, how to go on, the rules."""

from statistics import fmean

from lab.ladder.climb import Ladder
from lab.ladder.rungs import BASE, RUNGS, flags
from lab.ladder.scores import Terms
from lab.ladder.statistics import P, p_of_pairs


def limits(ladder: Ladder) -> list[str]:
    """Say what the scores leave open."""
    trials = {name: trial for name, trial in ladder.state.on_top.items() if trial and trial.is_done}
    by_pairs = []
    for name, trial in trials.items():
        without, with_it = (ladder.scores(recipe) for recipe in (trial.without, trial.with_it))
        p = p_of_pairs(with_it, without)
        if p < P and not trial.is_accepted and fmean(with_it) < fmean(without):
            by_pairs.append(f"{name} (p = {p:.2g})")
    chance = min(1.0, len(trials) * P / 2)
    told = [
        "An update that takes longer costs updates: a rung may teach more with each and lose, as "
        "the column of updates shows. The final runs make more updates on their text than a choice "
        "on its part, so a choice sees less overfitting than they do. A rung that costs updates, "
        "or that holds back overfitting, may lose as a choice and win in a long run: nothing here "
        "says what the rungs that were not accepted would do there.",
        "So this recipe need not be the best. The preset own-text has eight rungs that the ladder "
        "of this page did not accept (Muon, dropout late in the run, tied embeddings, twice "
        "the rate falling in a straight line, a bias of the output head, mixed values), for what "
        "they gained together in runs of ten minutes (docs/log.md), and is better on TinyStories "
        "(docs/leaderboard.md). What wins on the ladder is what helps early, by itself and for "
        "free.",
        f"{len(trials)} rungs were tried on top of others: if none of them did anything, one or "
        f"more would be accepted with a probability of at most {100 * chance:.2g} %.",
        "Intervals are of seeds alone, not of other texts. All trials on top of the same recipe "
        "are compared with the same few runs of it. The order decides which rungs meet which.",
    ]
    if by_pairs:
        told.append(
            "All recipes share their seeds. A t-test of the pairs would also accept, each on top "
            f"of what was accepted here, {', '.join(by_pairs)}; after the first of them the climb "
            "would have gone on differently. The rule was fixed before the runs, and stays."
        )
    return told


def next_steps(ladder: Ladder) -> list[str]:
    """Say how to train the recipe and how to try an idea."""
    settings, terms = dict(BASE), ladder.record.terms
    for rung in ladder.rungs:
        settings |= rung.settings if rung.name in ladder.state.accepted else {}
    return [
        f"To train the recipe: python scripts/train.py {terms.preset} --max-minutes "
        f"{terms.minutes:g} {' '.join(flags(settings))} --train-text train.txt --valid-text "
        "valid.txt",
        "To try an idea: make it a setting of cs_basics/run/config.py, add a Rung to the end of "
        "lab/ladder/rungs.py, and call lab.ladder, which tries what is new.",
    ]


def rules(terms: Terms) -> list[str]:
    """Say by which rules rungs are tried and accepted."""
    free = ", ".join(rung.name for rung in RUNGS if rung.is_free)
    return [
        "Every tenth story of the training text is held out, and chooses the rungs; the final runs "
        "train on all of it. Until every rung is decided, the validation text is not used.",
        f"A rung is accepted if it is better on top of those before it with p < {P} by Welch's "
        "two-sided t-test over the seeds. The test takes scores as independent and roughly normal, "
        "and lets each recipe have a variance of its own; that all recipes share their seeds, it "
        f"ignores. A rung that does nothing is accepted with a probability of {P / 2:g}.",
        "Every run is a process of scripts/train.py with at most two threads, and "
        "scripts/evaluate.py scores all of them, in float32.",
        f"Equal time for a choice: {terms.choice_updates:,} updates of the base; of a recipe whose "
        f"update takes 1.25 times as long, {terms.choice_updates / 1.25:,.0f}. How much longer it "
        "takes is measured once, by short trainings of the recipe and of the base in turns "
        "(lab.ladder.update_cost), to about a percent; rungs that leave the work of an "
        f"update as it is ({free}) share the measurement of the recipe without them. So a machine "
        "that is faster on one day than on another changes nothing. What compiling and evaluating "
        "cost is left out.",
        "The long runs follow the clock, compiling included, with an empty cache of compiled code; "
        "base and recipe take turns, seed by seed.",
        "Why a measurement chooses on half of the stories or more: on a fifth of them, the base "
        "only learns by heart (docs/log.md, 2026-11-25).",
        "The peer, transformers' model with PyTorch's optimizers, is not on this ladder: "
        "docs/performance.md compares with it at equal time, with AdamW and with Muon.",
        "Texts (SHA-256): " + ", ".join(f"{n} {value}" for n, value in terms.texts.items()) + ".",
    ]
