"""Conventions that a class chooses: who follows them is right, who does not is told so by name."""

import shutil

import conventions
import pytest
from bank.patches import Patch, read, write_repository
from editions import ROOT, make_starter
from oracles import CONVENTIONS

PATCHES = read(ROOT / "tests" / "project" / "bank" / "contract.txt")
REFERENCE = [patch for patch in PATCHES if patch.style == "book"]
ALL = {patch.kind: patch.more for patch in REFERENCE}
"""The conventions, and what last year's solution is told about each."""
ITEMS = [
    "tests/test_adamw.py::test_adamw_follows_the_algorithm",
    "tests/test_positionwise_feedforward.py::test_swiglu_gates_one_branch_by_silu_of_the_other",
    "tests/test_rmsnorm.py::test_rmsnorm_divides_by_the_root_mean_square",
    "tests/test_rope.py::test_rope_turns_pairs",
    "tests/test_train_bpe.py::test_train_breaks_ties_by_comparing_byte_strings",
]


@pytest.fixture(params=["book"])
def of_class(request, tmp_path):
    """The examination of a class with all conventions, and the work of one who follows them."""
    places = [place for p in PATCHES if p.style == request.param for place in p.places]
    folder = write_repository(Patch("", "", request.param, places=places), tmp_path)
    ignored = shutil.ignore_patterns("project", "adapters.py", "__pycache__")
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests" / "contract.toml").write_text(f"conventions = {[*ALL]}")
    return folder


def test_who_follows_the_conventions_is_right(of_class, sit):
    assert {row["outcome"] for row in sit(of_class, *ITEMS).values()} == {"passed"}


@pytest.mark.slow
@pytest.mark.parametrize("of_class", ["independent"], indirect=True)
def test_the_whole_examination_follows_the_conventions(of_class, sit):
    assert {row["outcome"] for row in sit(of_class, "tests").values()} == {"passed"}


def test_last_years_solution_is_told_what_it_is(of_class, sit):
    rows = sit(of_class, *ITEMS, f"--submission={ROOT}").values()
    said = " ".join(" ".join(row["message"] for row in rows).split())
    for (words,) in ALL.values():
        assert words in said


def test_an_item_that_is_right_by_the_handout_says_so(monkeypatch):
    of_class, asked = {"rope_halves", "ties_lesser", "gain_one_plus"}, []
    monkeypatch.setattr(conventions, "CHOSEN", of_class)

    def ask():
        asked.append({*of_class})
        return "passed" if of_class == {"ties_lesser"} else "failed"

    row = {"problem": "transformer_block", "message": "all values are wrong"}
    added = conventions.asked_by_the_handout(row, ask)
    assert added["missed"] == ["gain_one_plus", "rope_halves"]
    assert "docs/contract/rope_halves.md" in added["message"]
    assert added["message"].startswith("all values are wrong\n")
    assert len(asked) == 3  # Without one of those that a block is built from, then without both.
    assert of_class == {"rope_halves", "ties_lesser", "gain_one_plus"}
    assert conventions.asked_by_the_handout(row | {"problem": "linear"}, ask) == {}


def test_the_edition_has_the_pages_and_docstrings_of_its_conventions(tmp_path, monkeypatch):
    monkeypatch.setattr("oracles.CHOSEN", {"rope_halves"})
    make_starter.build(tmp_path / "edition")
    pages = (tmp_path / "edition" / "docs" / "contract").iterdir()
    assert [page.name for page in pages] == ["rope_halves.md"]
    rope = (tmp_path / "edition" / "cs_basics" / "rope.py").read_text(encoding="utf-8")
    assert "Coordinates i and i + d_head / 2" in rope
    handout = (tmp_path / "edition" / "docs" / "learn.md").read_text(encoding="utf-8")
    _, section = handout.split("\n## Rotary position embedding")
    assert "> **In this class: pairs half a vector apart.**\n>\n> In this class" in section[:200]


@pytest.mark.parametrize("name", sorted(CONVENTIONS))
def test_every_convention_has_its_place_in_the_handout(name, monkeypatch):
    monkeypatch.setattr("oracles.CHOSEN", {name})
    handout = (ROOT / "docs" / "learn.md").read_text(encoding="utf-8")
    assert make_starter.with_conventions(handout).count("> **In this class: ") == 1


def test_every_convention_has_a_page_and_a_patch():
    pages = {path.stem for path in (ROOT / "docs" / "contract").glob("*.md")}
    assert pages == {*ALL} == {*CONVENTIONS}


def test_export_and_page_refuse_conventions_and_blame_nobody_for_those_of_the_class(
    pytestconfig, filled, inside, tmp_path
):
    names = ["gain_one_plus", "gate_w3", "rope_halves"]
    names = names[2:] if pytestconfig.option.markexpr == "not slow" else names
    changes = {p.kind: p.places for p in PATCHES if p.kind in names and p.style == "independent"}
    jobs = [{"argv": ["rehearse"], "changes": places} for places in changes.values()]
    for did in inside(filled, *jobs):
        assert did["code"] == 2
        assert did["out"].startswith("export and the page will not work: this model's code takes")
        assert did["out"].count("\n") == 1
    of_class = shutil.copytree(filled, tmp_path / "of_class", symlinks=True)
    (of_class / "tests" / "contract.toml").write_text('conventions = ["rope_halves"]\n')
    (did,) = inside(of_class, jobs[-1])
    assert did["code"] == 0, did
    assert did["out"].endswith("has other conventions than they know: rope_halves\n")
