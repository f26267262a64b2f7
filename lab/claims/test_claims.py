"""The ledger: every row has its measurement, or a program that prints what the page says."""

import contextlib
import io
import re

import pytest

from lab import ROOT
from lab.claims.__main__ import PAGE
from lab.claims.ledger import find_claims, measured, value_of, verdict_of, with_result

TEXT = PAGE.read_text(encoding="utf-8")
TABLES, ERRORS = TEXT.split("## Errors that circulate")
NAMED = re.compile(r'<a id="([\w-]+)"></a>')
PROGRAMS = re.findall(r"```\n(.*?)```", ERRORS, re.DOTALL)


def test_every_row_has_its_measurement():
    assert {*NAMED.findall(TABLES)} - {"bleu"} == set(find_claims())


def test_a_claim_is_measured_and_comes_out_as_on_the_page():
    claim = find_claims()["parameters"]
    found = measured(claim, (0, 1))
    verdict, value = verdict_of(claim, found), value_of(found)
    assert with_result(TEXT, "parameters", verdict, value, "2026-11-22, A") == TEXT


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMED.findall(ERRORS))
def test_a_program_prints_what_the_page_says(program):
    if "transformers" in program:
        pytest.importorskip("transformers", reason="needs the transformers package")
    said, printed = re.findall(r"^# -> (.*)$", program, re.MULTILINE), io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue().splitlines() == said != []


def test_claims_of_the_explanation_have_the_verdicts_and_figures_of_their_rows():
    text = (ROOT / "docs" / "norms.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.count("claims.md#") == 1]
    rows = [cells for cells in rows if len(cells) == 4]
    assert len(rows) == 25
    for _, link, figure, _ in rows:
        told, name = re.findall(r"\[\**(.*?)\**\]\(.*#([\w-]+)\)", link)[0]
        (row,) = (line.split(" | ") for line in TABLES.splitlines() if f'<a id="{name}">' in line)
        assert row[1].startswith(told), name
        decimals = re.findall(r"\d+\.\d+(?:e[-+]\d+)?", figure)
        assert all(number in row[2] for number in decimals), name
