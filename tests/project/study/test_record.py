"""The ladder: its statistics, its held-out tenth, its decisions, and that each rung trains."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from cs_basics.run.document import to_markdown
from cs_basics.run.presets import PRESETS
from cs_basics.run.trainer import Trainer
from cs_basics.run.training_run import train_run
from cs_basics.study.record.climb import Ladder, climb, runs_left_at_most
from cs_basics.study.record.page import blocks, is_rehearsal
from cs_basics.study.record.rungs import BASE, RUNGS, Rung, choose_rungs, settings_of
from cs_basics.study.record.scores import Record, Score, Terms, check_unchanged, values
from cs_basics.study.record.statistics import difference_of, is_lower, p_of_pairs, p_value
from cs_basics.study.record.texts import split
from cs_basics.study.student_t import quantile_95, two_sided

SEEDS = (0, 1, 2)
A, B, C = (Rung(name, name, {}, "") for name in "abc")
NEEDS_B = Rung("n", "n", {}, "", ("b",))


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 4.0, 63.0])
def test_probabilities_are_those_of_the_closed_forms(t):
    assert two_sided(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-6)
    assert two_sided(t, 2) == pytest.approx(1 - t / math.sqrt(t * t + 2), abs=1e-6)


@pytest.mark.parametrize(("t", "degrees"), [(4.604, 4), (3.355, 8), (3.169, 10), (2.750, 30)])
def test_probabilities_are_those_of_the_tables(t, degrees):
    assert two_sided(t, degrees) == pytest.approx(0.01, rel=2e-3)


def test_quantiles_are_those_of_the_tables_and_fall_to_that_of_the_normal_distribution():
    found = [quantile_95(degrees) for degrees in (1, 2, 4, 10, 1000)]
    assert found == pytest.approx([12.706, 4.303, 2.776, 2.228, 1.962], abs=1e-3)


def test_welch_takes_each_variance_as_it_is():
    # t = 2 / sqrt(1/3 + 4/3), and (5/3)^2 / ((1/3)^2 / 2 + (4/3)^2 / 2) = 50/17 degrees.
    one, other = (1.0, 2.0, 3.0), (2.0, 4.0, 6.0)
    assert p_value(one, other) == pytest.approx(two_sided(2 / math.sqrt(5 / 3), 50 / 17))
    assert p_value(one, other) == p_value(other, one)


def test_pairs_are_judged_by_their_differences():
    # Differences of -1, -2 and -3: t = 2 sqrt(3) with 2 degrees of freedom.
    one, other = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0]
    t = 2 * math.sqrt(3)
    assert p_of_pairs(one, other) == pytest.approx(1 - t / math.sqrt(t * t + 2), abs=1e-6)
    assert p_of_pairs(one, [score + 1 for score in one]) == 0
    assert p_of_pairs(one, one) == p_of_pairs(one, other[:2]) == p_of_pairs([1.0], [2.0]) == 1
    assert p_of_pairs([1.0, math.inf], [1.0, 2.0]) == 1


def test_nothing_is_claimed_of_one_seed_of_equal_scores_or_of_a_run_that_failed():
    assert p_value([1.0], [2.0]) == 1
    assert p_value([1.0, 1.0], [1.0, 1.0]) == 1
    assert p_value([1.0, 1.1], [math.inf, 3.0]) == 1
    assert is_lower([1.0, 1.0], [2.0, 2.0])
    # p = 0.037 and p = 0.004: what counts is 0.01.
    scores = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert not is_lower(scores, [score + 2.5 for score in scores])
    assert is_lower(scores, [score + 4.0 for score in scores])
    assert not is_lower([2.0, 2.0], [1.0, 1.0])


def test_an_interval_is_that_of_the_tables_and_ends_where_p_is_5_percent():
    # Equal variances and sizes: 8 degrees of freedom, t = 2.306, and the error is sqrt(2 s^2 / 5).
    one, other = (1.0, 2.0, 3.0, 4.0, 5.0), (2.0, 3.0, 4.0, 5.0, 6.0)
    mean, half_width = difference_of(one, other)
    assert mean == -1
    assert half_width == pytest.approx(2.306 * math.sqrt(2 * 2.5 / 5), rel=1e-3)
    assert p_value(one, [v + half_width for v in one]) == pytest.approx(0.05, rel=1e-3)
    assert difference_of([1.0], [2.0]) == (-1, math.inf)
    assert difference_of([1.0, 1.0], [2.0, 2.0]) == (-1, 0)


def test_tenth_and_part_are_the_text_story_by_story(tmp_path):
    stories = [f"Story {number}.\n<|endoftext|>" for number in range(23)]
    whole = tmp_path / "whole.txt"
    whole.write_text("".join(stories) + "\n")
    texts = split(whole, tmp_path / "texts")
    assert texts.tenth.read_text() == stories[9] + stories[19]
    rest = [story for number, story in enumerate(stories) if number not in (9, 19)]
    assert texts.part.read_text() == "".join(rest) + "\n"
    texts = split(whole, tmp_path / "texts", every=2)
    assert texts.tenth.read_text() == stories[9] + stories[19]
    assert texts.part.read_text() == "".join(rest[::2])
    # Another text into the same folder.
    whole.write_text("".join(reversed(stories)))
    assert split(whole, tmp_path / "texts").tenth.read_text() == stories[13] + stories[3]


def test_a_text_of_few_stories_is_refused(tmp_path):
    whole = tmp_path / "whole.txt"
    whole.write_text("One.<|endoftext|>Two.")
    with pytest.raises(ValueError, match="has 2 stories, of which no tenth"):
        split(whole, tmp_path / "texts")


def scores_of(**means):
    """Scores with a little spread, by recipe: `a_b=1.0` is of the recipe (a, b), `base` of ()."""
    return {
        () if name == "base" else tuple(name.split("_")): {
            seed: mean + 0.001 * seed for seed in SEEDS
        }
        for name, mean in means.items()
    }


def test_first_the_base_and_the_rungs_alone_then_on_top_of_what_won():
    rungs = (A, B, C)
    state = climb(rungs, {}, SEEDS)
    assert state.missing == [(), ("a",), ("b",), ("c",)]  # The last two are of b and c alone.
    assert not state.is_decided
    assert runs_left_at_most(rungs, {}, SEEDS, state) == 6 * 3
    scores = scores_of(base=1.0, a=0.9, b=0.95, c=1.05)
    # What decides comes before what a rung does alone.
    state = climb(rungs, scores_of(base=1.0, a=0.9), SEEDS)
    assert state.missing == [("a", "b"), ("b",), ("c",)]
    state = climb(rungs, scores, SEEDS)
    assert (state.accepted, state.missing) == (("a",), [("a", "b")])
    # b helps alone, and no longer on top of a.
    state = climb(rungs, scores | scores_of(a_b=0.9001), SEEDS)
    assert (state.accepted, state.missing) == (("a",), [("a", "c")])
    state = climb(rungs, scores | scores_of(a_b=0.9001, a_c=0.8), SEEDS)
    assert (state.accepted, state.missing) == (("a", "c"), [])
    assert state.is_decided
    assert [state.alone[name].verdict for name in "abc"] == ["better", "better", "worse"]
    assert [state.on_top[name].verdict for name in "abc"] == ["better", "not seen", "better"]
    scores |= {("a", "b"): dict.fromkeys(SEEDS, math.inf)}
    assert climb(rungs, scores, SEEDS).on_top["b"].verdict == "failed"


def test_what_a_rung_needs_is_its_base_alone_and_must_be_accepted_for_the_top():
    scores = scores_of(base=1.0, b=1.1, b_n=0.9)
    state = climb((B, NEEDS_B), scores, SEEDS)
    assert (state.accepted, state.missing, state.is_decided) == ((), [], True)
    assert state.alone["n"].without == ("b",)
    assert state.alone["n"].verdict == "better"
    assert state.on_top["n"] is None
    assert climb((B, NEEDS_B), scores | scores_of(b=0.95), SEEDS).accepted == ("b", "n")


def test_a_seed_that_is_missing_leaves_a_rung_undecided():
    scores = scores_of(base=1.0, a=0.9)
    del scores["a",][2]
    state = climb((A,), scores, SEEDS)
    assert (state.missing, state.is_decided, state.accepted) == ([("a",)], False, ())


def test_a_rung_brings_what_it_needs_and_an_unknown_one_is_refused():
    assert [rung.name for rung in choose_rungs(["muon-2-steps"])] == ["muon", "muon-2-steps"]
    assert settings_of(("muon", "muon-2-steps")) == {
        **BASE,
        "optimizer": "muon",
        "muon_lr_ratio": 3.0,
        "muon_steps": 2,
    }
    assert choose_rungs([]) == RUNGS
    with pytest.raises(ValueError, match="there is no rung 'moun': choose from muon"):
        choose_rungs(["moun"])


TERMS = Terms(
    preset="stories", minutes=10.0, choice_updates=1000, choice_stories=2,
    settings={"lr": 0.1, "seed": 0}, texts={"training": "12ab"}, machine="a machine",
)  # fmt: skip


def score_of(**changed):
    given = {"kind": "choice", "recipe": (), "seed": 0, "bits_per_byte": 1.0, "steps": 7,
             "settings": {}, "cost": 1.25}  # fmt: skip
    return Score(**given | {"date": "2026-01-02"} | changed)


def ladder_of(scores, seeds=SEEDS):
    record = Record(Path("record.jsonl"), TERMS)
    for recipe, of_seeds in scores.items():
        for seed, value in of_seeds.items():
            record.scores.append(score_of(recipe=recipe, seed=seed, bits_per_byte=value))
    state = climb((A, B), values(record.runs("choice")), seeds)
    return Ladder((A, B, C), state, record, seeds)


def test_the_page_says_what_is_not_measured_and_that_it_was_a_rehearsal():
    page = to_markdown("", blocks(ladder_of(scores_of(base=1.0, a=0.9))))
    assert "A rehearsal: preset stories, 10 minutes, choices by 1,000 updates on one" in page
    assert "by runs of 1,000 updates on one story in 2 of the training text; a" in page
    assert "1 of 3 rungs are decided" in page
    assert "2026-01-02, begun on a machine" in page
    rows = {line.split(":")[0]: line for line in page.splitlines() if line.startswith("| ")}
    assert rows["| a"].count("| -0.1000 \N{PLUS-MINUS SIGN} 0.0023 |") == 2
    assert "| yes |" in rows["| a"]
    assert rows["| b"].count("not measured yet") == rows["| c"].count("not measured yet") == 3
    assert "Not measured yet: the last rungs" in page


def test_the_page_has_the_result_and_the_hour():
    ladder = ladder_of(scores_of(base=1.0, a=0.9, b=1.0, a_b=0.9))
    finals = [
        score_of(kind="final", recipe=recipe, seed=seed, bits_per_byte=mean + 0.001 * seed)
        for recipe, mean in (((), 0.95), (("a",), 0.85))
        for seed in SEEDS
    ]
    ladder.record.scores += finals[:-1]
    assert "final runs are missing" in to_markdown("", blocks(ladder))
    ladder.record.scores.append(finals[-1])
    page = to_markdown("", blocks(ladder))
    assert (
        "| base + a | 0.8510 | 0.8510 \N{PLUS-MINUS SIGN} 0.0025 | 7 | 0.8500, 0.8510, 0.8520 |"
        in page
    )
    assert "part of no" not in page
    assert "| base + a | 0.9010 \N{PLUS-MINUS SIGN} 0.0025 | 1.25 | 7 | 0, 1, 2 | none |" in page
    assert "rungs together are better than the base on the validation text" in page
    assert "## The same in 60 minutes\n\nNot measured yet." in page
    ladder.record.scores.append(score_of(kind="hour", recipe=("a",), bits_per_byte=0.75))
    page = to_markdown("", blocks(ladder))
    assert "| base + a | 0 | 0.7500 | 7 |" in page
    assert "an exception" not in page
    assert "Worse than after" not in page
    ladder.record.scores.append(score_of(kind="hour", recipe=("b",)))
    page = to_markdown("", blocks(ladder))
    assert "an exception" in page
    ladder.record.scores[-2:] = [score_of(kind="hour", recipe=("a",), bits_per_byte=0.8511)]
    assert "Worse than after 10 minutes: base + a." in to_markdown("", blocks(ladder))


def test_the_page_says_what_is_part_of_no_result_and_what_pairs_would_accept():
    scores = scores_of(base=1.0, a=0.9, a_b=0.9)
    # Each seed is better by 0.01, and the seeds lie far apart.
    scores["a",] = {seed: 0.9 + 0.1 * seed for seed in SEEDS}
    scores[()] = {seed: 0.91 + 0.1001 * seed for seed in SEEDS}
    scores["c",] = scores["b",] = {seed: 2.0 + 0.1 * seed for seed in SEEDS}
    ladder = ladder_of(scores)
    assert ladder.state.accepted == ()
    page = to_markdown("", blocks(ladder))
    assert "part of no comparison: base + a + b, base + c." in page
    assert "would also accept, each on top of what was accepted here, a (p = " in page
    assert "with a probability of at most 1 %" in page
    assert "2 rungs were tried on top of others: if none of them did anything, one or" in page
    assert "--d-model 256" in page.split("To train the recipe")[1]
    for recipe in ((), ("b",)):
        ladder.record.scores += [
            score_of(kind="final", recipe=recipe, seed=seed) for seed in SEEDS[: 3 - len(recipe)]
        ]
    page = to_markdown("", blocks(ladder))
    assert "part of no result: base + b, seed 0, 1.0000; base + b, seed 1, 1.0000." in page


@pytest.mark.parametrize(
    ("final", "verdict"), [(0.95, "worse"), (0.8501, "not seen to be better"), (0.75, "better")]
)
def test_the_result_is_judged_as_it_is(final, verdict):
    ladder = ladder_of(scores_of(base=1.0, a=0.9, b=1.0, a_b=0.9))
    ladder.record.scores += [
        score_of(kind="final", recipe=recipe, seed=seed, bits_per_byte=mean + 0.001 * seed)
        for recipe, mean in (((), 0.85), (("a",), final))
        for seed in SEEDS
    ]
    assert f"together are {verdict} than the base" in to_markdown("", blocks(ladder))


def test_the_record_of_the_docs_goes_on_with_the_rungs_of_today():
    path = Path(__file__).parents[3] / "docs" / "record.jsonl"
    terms = json.loads(path.read_text().splitlines()[0])
    base = PRESETS[terms["preset"]][1].replace(max_minutes=terms["minutes"], **BASE)
    record = Record.open(path, Terms(**terms | {"settings": base.settings()}))
    assert len(record.scores) > 100
    check_unchanged(record)
    record.scores.append(score_of(recipe=("noise",), settings={"token_noise": 0.3}))
    with pytest.raises(ValueError, match="the rungs of noise have changed since 2026-01-02"):
        check_unchanged(record)


@pytest.mark.parametrize(
    ("changes", "seeds"),
    [
        ({"minutes": 9.0}, 5),
        ({"choice_updates": 999}, 5),
        ({"choice_stories": 3}, 5),
        ({"preset": "debug"}, 5),
        ({}, 4),
    ],
)
def test_less_than_a_measurement_is_a_rehearsal(changes, seeds):
    assert is_rehearsal(replace(TERMS, **changes), range(seeds))
    assert not is_rehearsal(TERMS, range(5))


def test_scores_come_back_and_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "record.jsonl"
    record = Record.open(path, TERMS)
    failed = score_of(recipe=("a", "b"), bits_per_byte=None, failure="error: diverged")
    record.add(score_of(kind="final"))
    record.add(failed)
    again = Record.open(path, TERMS)
    assert again.scores == record.scores
    assert again.runs("choice") == {("a", "b"): {0: failed}}
    assert failed.value == math.inf
    lines = path.read_text().splitlines()
    for number in range(3):
        path.write_text("\n".join([*lines[:number], lines[number][:20], *lines[number + 1 :]]))
        with pytest.raises(ValueError, match=f"record.jsonl line {number + 1} cannot be read"):
            Record.open(path, TERMS)


def test_a_record_is_not_continued_under_other_terms(tmp_path):
    path = tmp_path / "record.jsonl"
    Record.open(path, TERMS).add(score_of())
    for changes, message in (
        ({"settings": {"lr": 0.2, "seed": 0}}, "another lr=0.1, now 0.2"),
        ({"settings": {"lr": 0.1}}, "another seed=0, now unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            Record.open(path, replace(TERMS, **changes))
    # Another machine makes the same updates.
    Record.open(path, replace(TERMS, machine="another"))
    # A setting that has come since is at its default, which changes nothing.
    Record.open(path, replace(TERMS, settings={**TERMS.settings, "new": 1}))


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_each_rung_trains(tiny_config, monkeypatch, rung):
    monkeypatch.setattr(Trainer, "compile", lambda _: None)  # The twins, without a minute's wait.
    recipe = settings_of((*rung.needs, rung.name))
    config = tiny_config.replace(
        fast="auto", max_steps=4, eval_every=4, checkpoint_every=4, num_samples=0, sample_tokens=0,
        **recipe,
    )  # fmt: skip
    assert recipe.items() <= config.settings().items()
    assert math.isfinite(train_run(config).loss)
