"""The report repeats the results, and says of each run how it ended."""

import dataclasses
import re

import pytest
from ablation_results import BASE, LOST, RESULT, RUNS, run_of

from cs_basics.study.ablation_report import write_report


@pytest.fixture
def report(tmp_path):
    """Write the report of some runs; return the Markdown and the HTML."""

    def write(runs, base=BASE):
        write_report(tmp_path, "norms", base, runs)
        return (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()

    return write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The report of RUNS."""
    path = tmp_path_factory.mktemp("report")
    write_report(path, "norms", BASE, RUNS)
    return path


@pytest.fixture
def markdown(folder):
    return (folder / "report.md").read_text()


@pytest.fixture
def page(folder):
    return (folder / "report.html").read_text()


def cells(markdown, first):
    """Return the table rows that begin with a name."""
    lines = [line for line in markdown.splitlines() if line.startswith(f"| {first} |")]
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


def test_every_number_of_a_run_stands_in_the_report(markdown, page):
    row = cells(markdown, "rmsnorm, seed 0")[0][1:9]
    assert row == ["0.9876", "2.3456", "7,654", "1,234", "2.01", "876", "43.2", "9.88"]
    for number in row:
        assert f"<td>{number}</td>" in page


def test_variants_are_ranked_by_their_mean_and_compared_with_the_base(markdown):
    names = re.findall(r"^\| ([a-z-]+) \|", markdown, re.MULTILINE)
    assert names == ["variant", "rmsnorm", "layernorm", "no-norm", "wild", "run"]
    assert cells(markdown, "rmsnorm")[0][1:4] == ["0.9877", "0.0002", "-"]
    assert cells(markdown, "layernorm")[0][1:4] == ["0.9879", "0.0002", "+0.0002 (noise)"]
    assert cells(markdown, "no-norm")[0][3] == "+0.5124"
    assert "norm=layernorm" in cells(markdown, "layernorm")[0]


def test_what_all_variants_change_is_no_difference_between_them(report):
    worse = dataclasses.replace(RESULT, bits_per_byte=1.5)
    runs = [run_of("pre", ffn="relu"), run_of("post", result=worse, ffn="relu", placement="post")]
    markdown, _ = report(runs)
    assert cells(markdown, "variant")[0][3] == "to pre"
    assert cells(markdown, "post")[0][3].startswith("+0.51")


def test_neighbours_are_judged_in_sentences(markdown, page):
    near = r"rmsnorm is 0\.0002 bits per byte ahead of layernorm: within noise"
    far = r"layernorm is 0\.5122 bits per byte ahead of no-norm: more than noise"
    for pattern in (near, far, r"standard deviation, pooled", r"below 3\.2 of its standard errors"):
        assert re.search(pattern, markdown)
        assert re.search(pattern, page)


def test_a_diverged_run_is_shown_as_such_and_not_ranked(markdown, page):
    assert cells(markdown, "wild")[0][1] == "-"
    assert cells(markdown, "wild")[0][-1].startswith("diverged at step 77")
    assert "wild is not ranked: diverged at step 77" in markdown
    assert page.count("diverged at step 77") == 4


def test_a_variant_that_lost_one_seed_is_not_ranked_either(report):
    markdown, _ = report([*RUNS[:2], run_of("half"), run_of("half", 1, LOST)])
    assert "half is not ranked: seed 0: sound; seed 1: diverged at step 77" in markdown


def test_missing_and_crashed_runs_are_said(report):
    crash = "crashed (exit code -9): <killed>"
    markdown, page = report([*RUNS[:2], run_of("b", 0, None), run_of("c", 0, None, crash=crash)])
    assert "2 of 4 runs are done" in markdown
    assert "c is not ranked: crashed" in markdown
    assert cells(markdown, "b, seed 0")[0][-1].startswith("not run yet")
    assert "crashed (exit code -9): &lt;killed&gt;" in page


def test_the_page_holds_its_picture_and_every_configuration(markdown, page, folder):
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert "](loss.png)" in markdown
    assert page.count("<svg") == 1
    assert not re.search(r" src=|href=\"(?!#)", page)
    assert page.count("<details>") == 1 + len(RUNS)
    assert page.count("&#34;norm&#34;: &#34;layernorm&#34;") == 2


def test_texts_with_markup_in_their_names_stay_texts(report, tmp_path):
    nasty = tmp_path / "<b>x</b>.txt"
    base = BASE.replace(train_text=nasty, valid_text=nasty)
    _, page = report(RUNS, base)
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


def test_nothing_to_compare_is_still_a_report(report):
    markdown, _ = report([run_of("a", 0, None)])
    assert "a is not ranked: not run yet" in markdown
    assert "nobody can tell which differences are noise" in markdown
    markdown, _ = report([run_of("a")])
    assert "Only one variant has a score" in markdown
    markdown, _ = report([run_of("a"), run_of("b")])
    assert "a is 0.0000 bits per byte ahead of b." in markdown
    # Every run lost, the plot has no scale of its own.
    markdown, _ = report([run_of("wild", 0, LOST), run_of("wild", 1, LOST)])
    assert "wild is not ranked" in markdown
