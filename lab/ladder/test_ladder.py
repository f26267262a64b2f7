"""The ladder: which idea is tried next and accepted, and that the kept record gives the page."""

import json
from pathlib import Path

from cs_basics.run.presets import PRESETS
from lab.ladder.climb import climb
from lab.ladder.rungs import BASE, RUNGS, Rung
from lab.ladder.scores import Record, Terms, check_unchanged

SEEDS = (0, 1, 2)
RECORD = Path(__file__).with_name("record.jsonl")


def scores_of(**means):
    """Scores of recipes by the names of their rungs, joined by _; base is that of none."""
    return {
        () if name == "base" else tuple(name.split("_")): {
            seed: mean + 0.001 * seed for seed in SEEDS
        }
        for name, mean in means.items()
    }


def test_an_idea_is_tried_alone_and_on_top_of_what_won():
    rungs = [Rung(name, name, {}, "") for name in "abc"]
    assert climb(rungs, {}, SEEDS).missing == [(), ("a",), ("b",), ("c",)]
    scores = scores_of(base=1.0, a=0.9, b=0.95, c=1.05, a_b=0.9001, a_c=0.8)
    state = climb(rungs, scores, SEEDS)
    assert state.is_decided
    assert state.accepted == ("a", "c")
    assert [state.alone[name].verdict for name in "abc"] == ["better", "better", "worse"]
    assert [state.on_top[name].verdict for name in "abc"] == ["better", "not seen", "better"]


def test_the_record_is_of_the_rungs_of_today():
    terms = json.loads(RECORD.read_text(encoding="utf-8").splitlines()[0])
    base = PRESETS[terms["preset"]][1].replace(max_minutes=terms["minutes"], **BASE)
    record = Record.open(RECORD, Terms(**terms | {"settings": base.settings()}))
    assert len(record.scores) > 100
    check_unchanged(record)
    assert {name for score in record.scores for name in score.recipe} <= {r.name for r in RUNGS}
