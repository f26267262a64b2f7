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


def test_links_of_the_explanation_lead_to_rows():
    text = (ROOT / "docs" / "norms.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"lab/claims/claims\.md#([\w-]+)\)", text))
    assert linked  # The one heading that is linked is no claim.
    assert linked - {"errors-that-circulate"} <= {*NAMED.findall(TEXT)}
