"""Conventions that a class chooses: who follows them is right, who does not is told so by name."""

import json
import shutil

import pytest
from bank.patches import Patch, read, write_repository
from bank.run import Failure, naming
from editions import ROOT, make_starter

PATCHES = read(ROOT / "tests" / "project" / "bank" / "contract.txt")
REFERENCE = [patch for patch in PATCHES if patch.style == "book"]
ALL = [patch.kind for patch in REFERENCE]
MAIN = {
    "decay_last": "test_adamw.py::test_adamw_follows_the_algorithm",
    "gain_one_plus": "test_rmsnorm.py::test_rmsnorm_divides_by_the_root_mean_square",
    "gate_w3": "test_layers.py::test_swiglu_gates_one_branch_by_silu_of_the_other",
    "rope_halves": "test_rope.py::test_rope_turns_pairs",
    "ties_lesser": "test_train_bpe.py::test_train_breaks_ties_by_comparing_byte_strings",
}
ITEMS = [f"tests/{item}" for item in MAIN.values()]


@pytest.fixture
def of_class(tmp_path):
    """Write the examination of a class and the work of somebody who follows its conventions."""

    def write(conventions, style="book"):
        chosen = [p for p in PATCHES if p.kind in conventions and p.style == style]
        places = [place for patch in chosen for place in patch.places]
        folder = write_repository(Patch("", "", style, places=places), tmp_path)
        ignored = shutil.ignore_patterns("project", "adapters.py", "__pycache__")
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored, dirs_exist_ok=True)
        shutil.copy(ROOT / "pyproject.toml", folder)
        contract = f"conventions = {json.dumps(conventions)}\n"
        (folder / "tests" / "contract.toml").write_text(contract)
        return folder

    return write


@pytest.mark.parametrize("style", ["book", "independent"])
def test_who_follows_all_conventions_is_right(of_class, sit, style):
    rows = sit(of_class(ALL, style), *ITEMS)
    assert {row["outcome"] for row in rows.values()} == {"passed"}


def namings(rows, conventions):
    """What is said to whoever follows other conventions, by problem."""
    words = [words for p in REFERENCE if p.kind in conventions for words in p.more]
    wrong = [row for row in rows.values() if row["outcome"] == "failed"]
    by_problem = {}
    for row in wrong:
        by_problem.setdefault(row["problem"], []).append(Failure(row["item"], row["message"]))
    return {problem: naming(failures, words) for problem, failures in by_problem.items()}


def test_last_years_solution_is_told_what_it_is(of_class, sit):
    rows = sit(of_class(ALL), *ITEMS, f"--submission={ROOT}")
    assert {*namings(rows, ALL).values()} == {"rightly"}
    assert len(namings(rows, ALL)) == len(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("conventions", [ALL, *([name] for name in ALL)], ids=" ".join)
def test_the_whole_examination_follows_the_conventions(of_class, sit, conventions):
    folder = of_class(conventions)
    assert {row["outcome"] for row in sit(folder, "tests").values()} == {"passed"}
    said = namings(sit(folder, "tests", f"--submission={ROOT}"), conventions)
    assert "wrongly" not in said.values()
    assert "rightly" in said.values()


def test_the_edition_has_the_pages_and_docstrings_of_its_conventions(tmp_path, monkeypatch):
    monkeypatch.setattr("oracles.CHOSEN", {"rope_halves"})
    make_starter.build(tmp_path / "edition")
    pages = (tmp_path / "edition" / "docs" / "contract").iterdir()
    assert [page.name for page in pages] == ["rope_halves.md"]
    rope = (tmp_path / "edition" / "cs_basics" / "rope.py").read_text(encoding="utf-8")
    assert "Coordinates i and i + d_head / 2" in rope


def test_every_convention_has_a_page_and_a_patch():
    from oracles import CONVENTIONS

    pages = {path.stem for path in (ROOT / "docs" / "contract").glob("*.md")}
    assert pages == {*ALL} == CONVENTIONS


@pytest.mark.parametrize("name", ["gain_one_plus", "gate_w3", "rope_halves"])
def test_export_and_page_refuse_another_convention_in_one_line(filled, inside, name):
    (patch,) = (p for p in PATCHES if p.kind == name and p.style == "independent")
    (did,) = inside(filled, {"argv": ["rehearse"], "changes": patch.places})
    assert did["code"] == 2
    assert did["out"].startswith("export and the page will not work: this model's code takes the ")
    assert did["out"].count("\n") == 1
