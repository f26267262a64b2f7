"""The class page and a student's page in a real browser, headless."""

import pytest
from sample_results import NASTY, everyone, item, result

from cs_grader.results.class_page import class_page
from cs_grader.results.write import write_class, write_outputs

NUM = 200
SHOWN = "return [...document.querySelectorAll('#class tbody:last-child tr:not([hidden])')]"
NAMES = f"{SHOWN}.map(row => row.cells[0].dataset.text)"
SCORES = f"{SHOWN}.map(row => Number(row.cells[1].dataset.value))"


@pytest.fixture(scope="module")
def results():
    hostile = [item("linear", 0, "failed", message=NASTY, diagnosis=NASTY)]
    nasty = result(hostile, "<img src=x onerror=alert(1)>", note=NASTY, output=NASTY)
    return [*everyone(NUM - 1), nasty]


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    write_class(results, folder)
    for each in (results[3], results[-1]):
        (folder / each.submission).mkdir()
        write_outputs(each, folder / each.submission)
    return folder


@pytest.fixture
def page(chromium, folder):
    chromium.log_entries("performance")
    chromium.resize(1280, 900)
    chromium.open(folder / "index.html")
    yield chromium
    assert chromium.log_entries("browser") == []


def text_of(page, selector):
    return page.run(f"return document.querySelector({selector!r})?.textContent")


def click_head(page, number):
    page.click(f"#class thead th:nth-child({number}) button")


def test_everyone_is_shown_as_people_count_and_the_chart_how_scores_spread(page):
    names = page.run(NAMES)
    assert len(names) == NUM
    assert names[1:4] == ["student-0", "student-1", "student-2"]
    assert text_of(page, "#shown") == "200 of 200 shown"
    click_head(page, 1)
    click_head(page, 1)
    assert page.run(NAMES)[:3] == ["student-198", "student-197", "student-196"]
    heights = page.run(
        "return [...document.querySelectorAll('.chart rect')].map(r => r.getBBox().height)"
    )
    assert max(heights) == 150
    assert len(heights) > 3


def test_searching_leaves_those_whose_name_or_note_fits(page, results):
    page.type("#search", "STUDENT-1 ")
    fitting = [each.submission for each in results if "student-1" in each.submission]
    assert sorted(page.run(NAMES)) == sorted(fitting)
    page.type("#search", "syntaxerror")
    noted = [each.submission for each in results if "SyntaxError" in each.note]
    assert sorted(page.run(NAMES)) == sorted(set(fitting) & set(noted)) != []
    page.click("#clear")
    assert len(page.run(NAMES)) == NUM


def has_softmax_wrong(result):
    return any(p.problem == "softmax" and p.failed + p.not_started for p in result.problems)


def is_to_be_reviewed(result):
    return any(finding.rule == "needs review" for finding in result.policy)


@pytest.mark.parametrize(
    ("menu", "choice", "is_meant"),
    [
        ("#problem", "Softmax", has_softmax_wrong),
        ("#mark", "needs review", is_to_be_reviewed),
    ],
)
def test_a_menu_leaves_whom_it_names_and_a_head_sorts_by_its_numbers(
    page, results, menu, choice, is_meant
):
    page.choose(menu, choice)
    meant = [each for each in results if is_meant(each)]
    assert 1 < len(meant) < NUM
    assert sorted(page.run(NAMES)) == sorted(each.submission for each in meant)
    assert text_of(page, "#shown") == f"{len(meant)} of 200 shown"
    scores = sorted((each.score for each in meant), reverse=True)
    for expected in (scores, scores[::-1]):
        click_head(page, 2)
        assert page.run(SCORES) == pytest.approx(expected, abs=1e-4)
    heads = "return [...document.querySelectorAll('#class th[aria-sort]')].map(h => h.textContent)"
    assert page.run(heads) == ["score"]


def test_a_click_on_a_mistake_shows_who_made_it(page, results):
    selector = "button[data-menu=mistake]"
    mistake = text_of(page, selector)
    page.click(selector)
    made = {
        each.submission
        for each in results
        for one in each.items
        if (one.diagnosis or "").replace("-", " ") == mistake
    }
    assert set(page.run(NAMES)) == made
    assert 1 < len(made) < NUM
    rows = "return [...document.querySelectorAll('tr.mistake:not([hidden])')].map(r => r.innerText)"
    (row,) = page.run(rows)
    assert row.startswith(str(len(made)))
    assert mistake in row


def test_a_link_leads_to_the_page_of_a_student(page):
    page.run("document.querySelector('#class a[href*=\"student-3/index\"]').click()")
    page.wait(lambda: text_of(page, "h1") == "student-3")
    assert text_of(page, ".next strong").startswith(("Repair", "Start"))


def test_a_script_that_got_in_would_not_run(chromium, tmp_path):
    # The last line of defence: the page's policy knows its own script only.
    text = class_page([result([item()])])
    hole = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
    (tmp_path / "hole.html").write_text(text.replace("</h1>", f"</h1>{hole}", 1))
    chromium.open(tmp_path / "hole.html")
    assert chromium.run("return document.title") == "1 submission: gradebook"
    refused = chromium.log_entries("browser")
    assert any("Content Security Policy" in entry["message"] for entry in refused)
    assert text_of(chromium, "#shown") == "1 of 1 shown"


@pytest.mark.parametrize("place", ["index.html", "student-3/index.html"])
def test_a_page_loads_nothing_and_fits_a_phone_the_dark_and_paper(chromium, folder, place):
    assert chromium.complaints(folder / place) == []


def test_paper_shows_everything_folded_and_no_controls(page, folder):
    page.prefer(media="print")
    shown = "return getComputedStyle(document.getElementById('filters')).display"
    assert page.run(shown) == "none"
    page.open(folder / "student-3" / "index.html")
    closed = "const last = [...document.querySelectorAll('details:not([open]) pre')].at(-1);"
    assert page.run(f"{closed} return last.checkVisibility()") is True
    page.prefer(media="screen")
    assert page.run(f"{closed} return last.checkVisibility()") is False
    page.prefer()


@pytest.mark.parametrize(
    ("results", "heading", "names"),
    [
        ([], "0 submissions", []),
        ([result(note="no tests/adapters.py")], "1 submission", ["ada"]),  # It has no problems.
    ],
)
def test_nobody_and_one_alone_have_a_page_too(chromium, tmp_path, results, heading, names):
    (tmp_path / "index.html").write_text(class_page(results))
    chromium.open(tmp_path / "index.html")
    assert text_of(chromium, "h1") == heading
    assert chromium.run(NAMES) == names
    assert chromium.log_entries("browser") == []
