"""Every page that a run, a suite or the examination leaves, in a browser: dark, paper, a phone."""

from pathlib import Path

import page as examination
import pytest
import report
from run_files import folder_of, rows_of

from cs_basics.interop.page_file import write_page
from cs_basics.study.ablation_report import write_report
from cs_basics.study.ablation_summary import Run

PAGES = ["a run/report.html", "a suite/report.html", "story.html", "examination.html"]
LONG = "a_name_without_a_blank_" * 9


@pytest.fixture(scope="module")
def pages(finished, tmp_path_factory):
    """A folder with these pages."""
    folder, run = tmp_path_factory.mktemp("pages"), folder_of(finished)
    for name in ("a run", "a suite"):
        (folder / name).mkdir()
    (folder / "a run/report.html").write_bytes(run.report.read_bytes())
    runs = [Run(variant="rope", config=finished, result=None, rows=rows_of(finished), crash=None)]
    write_report(folder / "a suite", "norms", finished.replace(train_text=Path(LONG)), runs)
    write_page(run, folder / "story.html", with_code=True)
    row = {"outcome": "failed", "diagnosis": "", "message": LONG}
    rows = [{**row, "problem": problem, "item": f"x::{LONG}"} for problem in report.RUBRIC]
    examination.write_page(rows, folder / "examination.html")
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_nothing_and_fits_a_phone_the_dark_and_paper(chromium, pages, name):
    assert chromium.complaints(pages / name) == []
