"""The bank: what honest code may return goes all the way, and what does not is named before."""

import patches
import pytest
from editions import ROOT

BANK = ROOT / "tests" / "project" / "bank"
ALL = pytest.param(False, marks=pytest.mark.slow, id="all")
FIRST = pytest.param(True, id="the first of each kind")

pytestmark = pytest.mark.parametrize("filled", ["independent"], indirect=True)


def rehearsed(name, of_first, inside, filled):
    """Rehearse each change of a file, or the first of each kind; yield it and what came of it."""
    changes = patches.read(BANK / f"{name}.txt")
    if of_first:
        changes = list({change.kind: change for change in reversed(changes)}.values())
    jobs = ({"argv": ["rehearse"], "changes": change.places} for change in changes)
    return zip(changes, inside(filled, *jobs), strict=True)


@pytest.mark.parametrize("of_first", [FIRST, ALL])
@pytest.mark.parametrize("name", ["returned", "programs"])
def test_what_is_right_in_another_form_goes_all_the_way(name, of_first, filled, inside):
    seen = rehearsed(name, of_first, inside, filled)
    assert {form.title: did["out"] for form, did in seen if did["code"] != 0} == {}


@pytest.mark.parametrize("of_first", [FIRST, ALL])
def test_what_will_not_work_downstream_is_named(of_first, filled, inside):
    for fault, did in rehearsed("downstream", of_first, inside, filled):
        assert did["code"] == 2, fault.title
        assert did["out"].startswith(f"{fault.kind} will not work: "), (fault.title, did["out"])
