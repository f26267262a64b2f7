"""The bank: what honest code may return goes all the way, and what does not is named before."""

import pytest
from bank import patches
from editions import ROOT

BANK = ROOT / "tests" / "project" / "bank"


@pytest.fixture
def rehearsed(pytestconfig, inside, filled):
    """Rehearse each change of a file; where slow tests are left out, the first of each kind."""

    def rehearse(name, is_honest):
        changes = patches.read(BANK / f"{name}.txt")
        if pytestconfig.option.markexpr == "not slow":
            changes = list({change.kind: change for change in reversed(changes)}.values())
            if is_honest:  # One program may hold all of them.
                places = [place for change in changes for place in change.places]
                changes = [patches.Patch("one of each kind", name, places=places)]
        jobs = ({"argv": ["rehearse"], "changes": change.places} for change in changes)
        return zip(changes, inside(filled, *jobs), strict=True)

    return rehearse


@pytest.mark.parametrize("name", ["returned", "programs"])
def test_what_is_right_in_another_form_goes_all_the_way(name, rehearsed):
    did = rehearsed(name, is_honest=True)
    assert {form.title: done["out"] for form, done in did if done["code"] != 0} == {}


def test_what_will_not_work_downstream_is_named(rehearsed):
    for fault, did in rehearsed("downstream", is_honest=False):
        assert did["code"] == 2, fault.title
        assert did["out"].startswith(f"{fault.kind} will not work: "), (fault.title, did["out"])
