"""The ledger: every rule can say otherwise, and the page says what the results say."""

from pathlib import Path

import pytest

from cs_basics.run.model import build_model
from cs_basics.settings.model import ModelConfig
from lab.claims.interval import spread_of
from lab.claims.measures.swaps import SWAPS, swapped
from lab.claims.page import NORMS, norms_page, page_of, read_texts
from lab.claims.results import contrary_verdict, read_results, spreads_of, verdict
from lab.claims.rules import outcome, parts_of, value_of
from lab.claims.sentences import read_sentences

CLAIMS = read_sentences()
RESULTS = read_results(CLAIMS)


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        ("every seed: a < 2", (0, 1), True),
        ("every seed: a < 2", (1, 3), None),
        ("every seed: a < 2", (2, 3), False),
        ("every seed: 0 < a < 2", (1, 1.5), True),
        ("every seed: 0 < a < 2", (-2, -1), False),
        ("every seed: a = 0.1", (0.1, 0.1 + 1e-12), True),
        ("every seed: a = 0.1", (0.1001, 0.1002), False),
        ("interval: a > 0", (1, 1.1), True),
        ("interval: a > 0", (1, 3), None),
        ("interval: a > 0", (-1, -1.1), False),
        ("interval: a > 0", (1,), None),
        ("every seed: a - 1 > 0; every seed: a < 4", (2, 3), True),
        ("every seed: a > 9; every seed: a < 3", (2, 4), False),
    ],
)
def test_a_rule_has_three_outcomes(rule, values, expected):
    spreads = {
        expression: spread_of([value_of(expression, {"a": value}) for value in values])
        for _, expression, _, _ in parts_of(rule)
    }
    assert outcome(rule, spreads, len(values)) is expected


@pytest.mark.parametrize("name", [n for n, claim in CLAIMS.items() if claim.cost == "quick"])
def test_what_is_measured_decides_and_its_contrary_decides_otherwise(name):
    claim = CLAIMS[name]
    found = spreads_of(claim, [claim.measure(seed) for seed in (0, 1)])
    assert contrary_verdict(claim) != verdict(claim, found, 2)


@pytest.mark.parametrize("name", [n for n, claim in CLAIMS.items() if claim.otherwise])
def test_figures_that_say_otherwise_turn_the_verdict(name):
    claim = CLAIMS[name]
    result = RESULTS.get(name)
    told = verdict(claim, result.figures, result.seeds) if result else ""
    assert contrary_verdict(claim) not in (told, "not seen")


@pytest.mark.parametrize("name", SWAPS)
def test_a_swapped_part_is_in_the_model_that_a_run_trains(name):
    sizes = {"vocab_size": 8, "d_model": 8, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    with swapped(name):
        model = build_model(ModelConfig(**sizes))
    assert any(type(part).__module__ == swapped.__module__ for part in model.modules())


def test_every_claim_has_a_contrary():
    assert [name for name, claim in CLAIMS.items() if not (claim.contrary or claim.otherwise)] == []
    for claim in CLAIMS.values():
        if "file" in (place := claim.contrary):
            assert Path(place["file"]).read_text().count(place["old"]) == 1, place


def test_every_sentence_has_claims_that_judge_it_or_a_reason_why_nothing_can():
    texts = read_texts()
    assert len(texts) == 190
    judges = [judge for _, judge in texts.values() if not judge.startswith("not testable: ")]
    assert {name for judge in judges for name in judge.split()} <= {*CLAIMS}


def test_the_page_has_a_row_for_each_claim_and_each_sentence():
    page = page_of(CLAIMS, RESULTS)
    assert all(f'<a id="{name}"></a>' in page for name in CLAIMS)
    assert page.count("\n| ") >= len(CLAIMS) + len(read_texts())


def test_claims_that_teach_have_the_verdicts_and_figures_of_their_results():
    page = NORMS.read_text(encoding="utf-8")
    assert norms_page(CLAIMS, RESULTS, page) == page
    linked = [line for line in page.splitlines() if line.count(".toml#") == 1]
    assert sum(line.startswith("| ") for line in linked) == 25
