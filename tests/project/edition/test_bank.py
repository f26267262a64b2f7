"""The bank: what honest code may return goes all the way, and what does not is named before."""

import patches
import pytest
from editions import ROOT

BANK = ROOT / "tests" / "project" / "bank"


@pytest.mark.parametrize("filled", ["independent"], indirect=True)
def test_what_is_returned_in_another_form_goes_all_the_way(filled, inside):
    forms = patches.read(BANK / "returned.txt")
    jobs = ({"argv": ["rehearse"], "changes": form.places} for form in forms)
    results = zip(forms, inside(filled, *jobs), strict=True)
    assert {form.title: did["out"] for form, did in results if did["code"] != 0} == {}
