"""The handout says what the rubric, the examination and the accounting say."""

import importlib
import re
import sys
from collections import Counter

import pytest
import report
from processes import ROOT

from cs_basics.settings.model import ModelConfig
from cs_basics.settings.presets import PRESETS
from cs_basics.study.ablation import SUITES
from cs_basics.study.accounting import forward_flops, parameters, total

sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "instructor")]
make_starter = importlib.import_module("make_starter")
HANDOUT = (ROOT / "docs" / "learn.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (?P<title>.+) \((?P<points>\d+) points?\)$", re.MULTILINE)
SIZES = ("vocab_size", "context_length", "num_layers", "d_model", "num_heads", "d_ff")


def sections():
    """The text of each problem, by its title."""
    found = list(SECTION.finditer(HANDOUT))
    ends = [match.start() for match in found[1:]] + [HANDOUT.index("# Part 4")]
    return {m["title"]: HANDOUT[m.end() : end] for m, end in zip(found, ends, strict=True)}


def table(first_cell):
    """The rows of the table whose header begins with this cell, each a list of cells."""
    lines = HANDOUT.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_cell} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_table_of_problems_and_all_that_are_named_are_those_of_the_rubric():
    titles = {name: problem["title"] for name, problem in report.RUBRIC.items()}
    wanted = [
        [problem["title"], str(problem["points"]), ", ".join(titles[n] for n in problem["needs"])]
        for problem in report.RUBRIC.values()
    ]
    assert table("problem") == wanted
    said = [(match["title"], match["points"]) for match in SECTION.finditer(HANDOUT)]
    assert said == [(title, points) for title, points, _ in wanted]
    assert set(re.findall(r"--problem (\w+)", HANDOUT)) == set(report.RUBRIC)


def places_of(problem):
    """Return the module of the book in which a problem is solved, and the names to write there."""
    modules, names = zip(
        *(place.split(".") for place in report.RUBRIC[problem]["write"]), strict=True
    )
    (module,) = set(modules)
    return module, names


@pytest.mark.parametrize("name", report.RUBRIC)
def test_each_problem_has_its_command_its_interface_what_to_write_and_its_mistakes(name):
    module, names = places_of(name)
    what = " and ".join(f"`{each}`" for each in names)
    text = sections()[report.RUBRIC[name]["title"]]
    assert f'`make test ARGS="--problem {name}"`' in text
    assert all(f"`{adapter}(" in text for adapter in report.RUBRIC[name]["adapters"])
    assert f"- Write: {what} in `cs_basics/{module}.py`; " in text
    assert "Where people go wrong:" in text


@pytest.mark.parametrize("row", table("shape"), ids=lambda row: row[0])
def test_costs_are_those_of_the_accounting(row):
    name, *cells = row
    sizes = dict(zip(SIZES, map(int, cells[:6]), strict=True))
    config = ModelConfig(**sizes)
    assert cells[6] == f"{total(parameters(config)):,}"
    assert cells[7] == f"{total(forward_flops(config)) / 1e9:.2f}"
    if name in PRESETS:
        assert sizes == {size: getattr(PRESETS[name][1].model, size) for size in SIZES}


def test_presets_and_suites_that_are_named_exist():
    assert {row[1].strip("`") for row in table("machine")} <= PRESETS.keys()
    assert {row[0].strip("`") for row in table("suite")} == set(SUITES) - {"all"}


def test_the_order_is_that_in_which_the_report_names_the_problems():
    counts, order = {name: Counter(not_started=1) for name in report.RUBRIC}, []
    while following := report.to_start(counts):
        order.append(report.RUBRIC[following]["title"])
        del counts[following]
    said = HANDOUT.partition("each after those that it builds on: ")[2].partition(". `make")[0]
    assert " ".join(said.split()) == ", ".join(order)
    readme = (make_starter.OWN / "README.md").read_text(encoding="utf-8")
    module, (first,) = places_of("linear")
    assert order[0] == report.RUBRIC["linear"]["title"]
    assert f"open `cs_basics/{module}.py`, write `{first}`" in readme
