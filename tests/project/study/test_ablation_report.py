"""The report repeats the results, and says of each run how it ended."""

import re
from dataclasses import replace

import pytest
from ablation_results import BASE, LOST, RESULT, RUNS, run_of

from cs_basics.study.ablation_report import write_report


@pytest.fixture
def report(tmp_path):
    """Write the report of some runs; return the page."""

    def write(runs, base=BASE):
        write_report(tmp_path, "norms", base, runs)
        return (tmp_path / "report.html").read_text()

    return write


def cells(page, first):
    """Return the table row that begins with a name."""
    (row,) = re.findall(rf"<tr>(<t[dh]>{first}</t[dh]>.*)</tr>", page)
    return re.findall(r"<t[dh]>(.*?)</t[dh]>", row)


def test_the_numbers_of_all_runs_stand_in_the_report(report):
    page = report(RUNS)
    names = [cells(page, name)[0] for name in re.findall(r"<tr><td>([a-z-]+)</td>", page)]
    assert names == ["rmsnorm", "layernorm", "no-norm", "wild"]
    assert cells(page, "variant")[3] == "behind rmsnorm"
    assert cells(page, "rmsnorm")[1:4] == ["0.9877", "0.0002", "-"]
    measured = ["2.3456", "7,654", "1,234", "2.01", "876", "43.2", "9.88", "123,456"]
    assert cells(page, "rmsnorm")[4:12] == measured
    assert cells(page, "layernorm")[1:4] == ["0.9879", "0.0002", "0.0002 (noise)"]
    assert cells(page, "no-norm")[3] == "0.5124"
    assert "norm=layernorm" in cells(page, "layernorm")
    assert cells(page, "wild")[1] == "-"
    assert cells(page, "wild")[-1] == "diverged at step 77"
    assert re.search(r"pooled over the\s+variants, 3 degrees.*below 3\.2 of", page, re.DOTALL)
    assert page.count("<svg") == 1
    assert not re.search(r" src=|href=\"(?!#)", page)
    assert "&#34;norm&#34;: &#34;rmsnorm&#34;" in page


def test_a_variant_that_lost_one_seed_is_not_compared(report):
    page = report([*RUNS[:2], run_of("half"), run_of("half", 1, LOST)])
    assert cells(page, "half")[-1] == "seed 0: sound; seed 1: diverged at step 77"
    assert cells(page, "half")[3] == "-"


def test_what_is_missing_is_said_and_texts_with_markup_stay_texts(report, tmp_path):
    nasty = tmp_path / "<b>x</b>.txt"
    crash = "crashed (exit code -9): <killed>"
    dull = [run_of(f"dull {loss}", 0, replace(RESULT, loss=loss)) for loss in (6.1, None)]
    page = report(
        [*RUNS[:2], run_of("b", 0, None), run_of("c", 0, None, crash=crash), *dull],
        BASE.replace(train_text=nasty, valid_text=nasty),
    )
    assert "(4 of 6 runs are done)" in page
    assert cells(page, "b")[-1] == "not run yet"
    assert cells(page, "c")[-1] == "crashed (exit code -9): &lt;killed&gt;"
    for run in dull:
        assert cells(page, run.variant)[-1] == "no better than token frequencies"
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


def test_nothing_to_compare_is_still_a_report(report):
    assert "nobody can tell which differences are noise" in report([run_of("a", 0, None)])
    # Every run lost, the plot has no scale of its own.
    assert cells(report([run_of("w", 0, LOST), run_of("w", 1, LOST)]), "w")[3] == "-"
