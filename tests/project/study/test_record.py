"""The ladder: its statistics, its third text, its decisions, and that each rung trains."""

import math

import pytest

from cs_basics.run.document import to_markdown
from cs_basics.run.trainer import Trainer
from cs_basics.run.training_run import train_run
from cs_basics.study.record.climb import climb, runs_left_at_most
from cs_basics.study.record.page import Ladder, blocks
from cs_basics.study.record.rungs import BASE, RUNGS, Rung, choose_rungs, settings_of
from cs_basics.study.record.score import Score, read_score, values
from cs_basics.study.record.statistics import is_lower, p_value, two_sided
from cs_basics.study.record.texts import split

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


def test_welch_takes_each_variance_as_it_is():
    # t = 2 / sqrt(1/3 + 4/3), and (5/3)^2 / ((1/3)^2 / 2 + (4/3)^2 / 2) = 50/17 degrees.
    one, other = (1.0, 2.0, 3.0), (2.0, 4.0, 6.0)
    assert p_value(one, other) == pytest.approx(two_sided(2 / math.sqrt(5 / 3), 50 / 17))
    assert p_value(one, other) == p_value(other, one)


def test_nothing_is_claimed_of_one_seed_of_equal_scores_or_of_a_run_that_failed():
    assert p_value([1.0], [2.0]) == 1
    assert p_value([1.0, 1.0], [1.0, 1.0]) == 1
    assert p_value([1.0, 1.1], [math.inf, 3.0]) == 1
    assert is_lower([1.0, 1.0], [2.0, 2.0])
    assert not is_lower([2.0, 2.0], [1.0, 1.0])


def test_tenth_and_rest_are_the_text_story_by_story(tmp_path):
    stories = [f"Story {number}.\n<|endoftext|>" for number in range(23)]
    whole = tmp_path / "whole.txt"
    whole.write_text("".join(stories) + "\n")
    texts = split(whole, tmp_path / "texts")
    assert texts.tenth.read_text() == stories[9] + stories[19]
    rest = [story for number, story in enumerate(stories) if number not in (9, 19)]
    assert texts.rest.read_text() == "".join(rest) + "\n"


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
    assert state.missing == [(), ("a",), ("b",), ("c",)]
    assert not state.is_decided
    assert runs_left_at_most(rungs, {}, SEEDS, state) == 6 * 3
    scores = scores_of(base=1.0, a=0.9, b=0.95, c=1.05)
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
    with pytest.raises(ValueError, match="there is no rung 'moun': choose from linear"):
        choose_rungs(["moun"])


def ladder_of(scores, seeds=SEEDS, minutes=10.0):
    runs = {
        recipe: {
            seed: Score(bits_per_byte=value, steps=7, date="2026-01-02", machine="a machine")
            for seed, value in of_seeds.items()
        }
        for recipe, of_seeds in scores.items()
    }
    state = climb((A, B), values(runs), seeds)
    return Ladder((A, B), state, runs, {}, seeds, minutes, "stories", {"training": "12ab"})


def test_the_page_says_what_is_not_measured_and_that_it_was_a_rehearsal():
    page = to_markdown("", blocks(ladder_of(scores_of(base=1.0, a=0.9))))
    assert "A rehearsal: preset stories, minutes: 10, seeds: 3." in page
    assert "2026-01-02, on a machine" in page
    rows = {line.split(":")[0]: line for line in page.splitlines() if line.startswith("| ")}
    assert "| -0.1000 |" in rows["| a"]
    assert "| yes |" in rows["| a"]
    assert rows["| b"].count("not measured yet") == 3
    assert "Not measured yet: the last rungs" in page
    whole = ladder_of(scores_of(base=1.0, a=0.9, b=1.0, a_b=0.9), seeds=tuple(range(5)))
    assert not whole.is_rehearsal
    assert ladder_of({}, minutes=9.0).is_rehearsal


def test_a_score_comes_back_and_a_damaged_one_is_named(tmp_path):
    score = Score(bits_per_byte=None, steps=0, date="", machine="", failure="error: diverged")
    assert read_score(tmp_path) is None
    score.write(tmp_path)
    assert read_score(tmp_path) == score
    assert score.value == math.inf
    (tmp_path / "score.json").write_text("{")
    with pytest.raises(ValueError, match="delete it to repeat the run"):
        read_score(tmp_path)


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
