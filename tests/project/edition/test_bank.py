"""The bank: what honest code may return goes all the way, and what does not is named before."""

import re
from itertools import zip_longest

import pytest
from bank import patches
from editions import ROOT
from turns import todays

BANK = ROOT / "tests" / "project" / "bank"


@pytest.fixture
def rehearsed(pytestconfig, inside, filled):
    """Rehearse a third of the changes of a file; without slow tests, the first of each kind.

    One program holds an honest change of each kind.
    """

    def rehearse(name, is_honest):
        kinds = {}
        for change in patches.read(BANK / f"{name}.txt"):
            kinds.setdefault(change.kind, []).append(change)
        is_quick = pytestconfig.option.markexpr == "not slow"
        kinds = {
            kind: of_kind[:1] if is_quick else todays(of_kind, 3) for kind, of_kind in kinds.items()
        }
        changes = [change for of_kind in kinds.values() for change in of_kind]
        if is_honest:
            programs = [[*filter(None, each)] for each in zip_longest(*kinds.values())]
            changes = [
                patches.Patch(
                    "; ".join(change.name for change in program),
                    name,
                    places=[place for change in program for place in change.places],
                )
                for program in programs
            ]
        jobs = ({"argv": ["rehearse"], "changes": change.places} for change in changes)
        return zip(changes, inside(filled, *jobs), strict=True)

    return rehearse


@pytest.mark.parametrize("name", ["returned", "programs"])
def test_what_is_right_in_another_form_goes_all_the_way(name, rehearsed):
    did = rehearsed(name, is_honest=True)
    assert {form.title: done["out"] for form, done in did if done["code"] != 0} == {}


def test_what_will_not_work_downstream_is_named(rehearsed):
    for fault, did in rehearsed("downstream", is_honest=False):
        costs_nothing = fault.kind == "an exact --resume"
        assert did["code"] == (0 if costs_nothing else 2), fault.title
        said = re.match(rf"{fault.kind}( and [\w -]+)? will not work: ", did["out"])
        assert said, (fault.title, did["out"])
        assert ("rehearsal: training, --resume" in did["out"]) == costs_nothing, fault.title


def test_the_handouts_class_makes_a_fused_matrix_fit_for_export(inside, filled):
    handout = (ROOT / "docs" / "learn.md").read_text(encoding="utf-8")
    (fused,) = re.findall(r"```python\n(class Fused.*?)```", handout, re.DOTALL)
    (places,) = (
        change.places
        for change in patches.read(BANK / "downstream.txt")
        if change.name == "one matrix for queries, keys and values"
    )
    own = "class CausalSelfAttention(nn.Module):\n"
    inherits = ["attention.py", own, f"{fused}\n\n{own.replace('nn.Module', 'Fused')}"]
    (did,) = inside(filled, {"argv": ["rehearse"], "changes": [*places, inherits]})
    assert (did["code"], did["out"].count("\n")) == (0, 1), did
