"""What is written from a result: the same points everywhere, in each reader's form."""

import csv
import io
import json
import os
import time
from pathlib import Path

import pytest
from sample_results import SECRET, finding, github, item, result

from cs_grader.results import reading
from cs_grader.results.class_page import class_page
from cs_grader.results.github import github_result
from cs_grader.results.gradebook import gradebook_csv
from cs_grader.results.gradescope import results_json
from cs_grader.results.page import report as markdown
from cs_grader.results.page import student_page
from cs_grader.results.reading import Reader
from cs_grader.results.write import write_class, write_outputs
from cs_grader.trusted.answer import Frame
from cs_grader.trusted.examiner import code_of
from cs_grader.trusted.verdict import TEMPORARY

VISIBILITY = {"hidden", "after_due_date", "after_published", "visible"}
FORMATS = {"text", "html", "simple_format", "md", "ansi"}

FAILED = [
    item("linear", 0),
    item("linear", 1, "failed", diagnosis="the-weight-is-transposed", message="got 1, not 2"),
    item("linear", 1, "failed", diagnosis="the-weight-is-transposed", is_hidden=True),
    item("linear", 2, "error", is_hidden=True, message=f"ValueError: {SECRET} (x.py, line 1)"),
    item("rmsnorm", 0),
    item("softmax", 0, "not_started", message="not started: run_softmax"),
]


@pytest.fixture
def failed():
    return result(FAILED)


def test_every_output_is_written_and_nothing_else_is_left(tmp_path, failed):
    write_outputs(failed, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    files = "results.json github-classroom.txt report.md index.html instructor.html"
    assert names == set(files.split())
    write_class([failed], tmp_path)
    assert (tmp_path / "gradebook.csv").read_bytes().startswith(b"\xef\xbb\xbfsubmission,")


# --- Gradescope ---


def gradescope(submission, **options):
    return json.loads(results_json(submission, **options))


OF_RESULTS = """score execution_time output output_format test_output_format test_name_format
    visibility stdout_visibility extra_data tests leaderboard"""
OF_TEST = """score max_score status name name_format number output output_format tags visibility
    extra_data"""


@pytest.mark.parametrize("hidden", ["visible", "after_published"])
def test_gradescope_gets_what_it_knows_and_partial_credit_that_adds_up_to_the_score(failed, hidden):
    results = gradescope(failed, hidden_items=hidden)
    assert set(results) <= set(OF_RESULTS.split())
    assert {results["visibility"], results["stdout_visibility"]} <= VISIBILITY
    for test in results["tests"]:
        assert set(test) <= set(OF_TEST.split())
        assert test["status"] in {"passed", "failed"}
        assert test.get("output_format", "text") in FORMATS
    scored = [test for test in results["tests"] if "score" in test]
    assert [(test["name"], test["score"], test["max_score"]) for test in scored] == [
        ("Linear layer", 0.5, 2.0),
        ("RMSNorm", 4.0, 4.0),
        ("Softmax", 0.0, 3.0),
    ]
    assert results["score"] == sum(test["score"] for test in scored) == 4.5
    assert results["extra_data"]["isolation"] == "bubblewrap"
    items = [test for test in results["tests"] if "score" not in test]
    shown = {test["number"]: test["visibility"] for test in items}
    assert shown == {"1.1": "visible", "1.26": hidden}


@pytest.mark.parametrize("score", [-3.0, 100.5, 1e300])
def test_gradescope_points_stay_within_their_range(score):
    assert 0 <= gradescope(result([item()], score=score))["score"] <= 100


# --- the other formats ---


def test_gradebook_has_a_column_for_each_problem_in_the_rubrics_order_and_sorted_rows():
    left = result([item("linear", 0)], "zoe")
    right = result([item("linear", 0, "failed"), item("embedding", 0)], "ada", note="a, b")
    text = gradebook_csv([left, right])
    rows = [*csv.reader(io.StringIO(text.removeprefix("\ufeff")))]
    assert rows == [
        ["submission", "score", "max_score", "isolation", "note", "linear", "embedding"],
        ["ada", "2", "100", "bubblewrap", "a, b", "0", "2"],
        ["zoe", "2", "100", "bubblewrap", "", "2", ""],
    ]
    assert gradebook_csv([left, right]) == gradebook_csv([right, left])


def test_github_gets_a_test_for_each_problem_within_its_limits(failed):
    decoded = json.loads(github(failed))
    assert (decoded["version"], decoded["status"], decoded["max_score"]) == (3, "fail", 100.0)
    assert [test["score"] for test in decoded["tests"]] == [0.5, 4.0, 0.0]
    assert [test["status"] for test in decoded["tests"]] == ["fail", "pass", "fail"]
    long = json.loads(github(result([item(outcome="error", message="x " * 999)])))
    for test in [*decoded["tests"], *long["tests"]]:
        assert len(test["output"]) <= 500
    assert "\n" not in github_result(failed)
    assert json.loads(github(result([item()])))["status"] == "pass"


def test_markdown_has_a_row_for_each_problem(failed):
    lines = markdown(failed).splitlines()
    assert lines[0] == "# `ada`: 4.5 of 100 points"
    assert "| Linear layer | 0.5 | 2 | 1 | 3 | 0 |" in lines
    assert any(line.startswith("**Repair Linear layer first.**") for line in lines)


# --- what a student may see ---

STUDENT_OUTPUTS = [results_json, github, markdown, student_page]


@pytest.mark.parametrize("write", STUDENT_OUTPUTS)
def test_of_hidden_items_only_their_number_is_shown(write):
    public = [item("linear", 1, "failed"), item("rmsnorm", 1), item("rmsnorm", 2)]
    texts = []
    for words in (SECRET, "something else"):
        hidden = [
            item("rmsnorm", 7, "failed", is_hidden=True, message=words, diagnosis=words),
            item("rmsnorm", 8, "error", is_hidden=True, message=f"{words}: x", item=words),
            item("rmsnorm", 9, is_hidden=True, seconds=float(len(words))),
        ]
        calls = (finding("forbidden", operator=words, file=words, is_hidden=True),)
        known = result([*public, *hidden], output=words, policy=calls, seconds=float(len(words)))
        texts.append(write(known))
    assert texts[0] == texts[1]
    # Gradescope hands extra_data back to the container of the next submission.
    assert "987654321" not in texts[0]
    assert "2 of 3 checks on hidden inputs" in texts[0]
    assert "rmsnorm_holds[7]" not in texts[0]


def test_an_instructor_sees_what_is_hidden_and_anybody_what_is_printed_where_nothing_is():
    hidden = item(outcome="failed", is_hidden=True, message=f"asked for {SECRET}")
    submission = result([hidden], output="printed 5", policy=(finding(),))
    page = student_page(submission, Reader.INSTRUCTOR)
    for text in (SECRET, "printed 5", "987654321", "torch.nn.functional.linear"):
        assert text in page
    assert "printed 5" in student_page(result([item()], output="printed 5"))


@pytest.mark.parametrize("write", STUDENT_OUTPUTS)
def test_a_forbidden_operator_is_cited_and_what_needs_review_is_not_for_the_student(write):
    forbidden = finding("forbidden", operator="torch.rms_norm", file="mine.py", problem="rmsnorm")
    text = write(result([item(outcome="failed")], policy=(finding(operator="gc"), forbidden)))
    assert "model/layers.py" not in text
    if write is not github:
        assert "torch.rms_norm" in text
        assert "mine.py, line 12" in text


@pytest.mark.parametrize(
    "message",
    [
        "crashed with SIGSEGV",
        "over 10 s of CPU",
        "over 2 GB",
        "left during import| (exited with status 3)",
        "tests/adapters.py cannot be imported|: x",
        "ValueError|: 1.25 is odd",
    ],
)
def test_the_kind_of_an_error_is_the_beginning_of_its_message(message):
    error = item(outcome="error", message=message.replace("|", ""))
    assert reading.kind(error) == f"error: {message.partition('|')[0]}"


# --- one cause, one line ---

UNUSABLE = "tests/adapters.py cannot be imported: cs_basics/x.py, line 3: SyntaxError: invalid"


@pytest.mark.parametrize("write", STUDENT_OUTPUTS)
def test_what_is_said_of_several_problems_is_said_once(write):
    broken = [
        item(problem, number, "error", message=UNUSABLE)
        for problem in ("linear", "silu", "rmsnorm")
        for number in range(40)
    ]
    text = write(result([*broken, item("softmax", 0, "failed", message="got 1, not 2")]))
    assert text.count("SyntaxError: invalid") <= 6
    if write is not github:
        assert text.count("got 1, not 2") >= 1
    if write in (markdown, student_page, results_json):
        assert "120 checks" in text


@pytest.mark.parametrize("write", STUDENT_OUTPUTS)
def test_what_is_not_started_is_a_number(write):
    text = write(result([item("linear"), *(item("linear", n, "not_started") for n in range(1, 9))]))
    assert "linear_holds[7]" not in text


def test_a_broken_file_is_named_first_and_in_the_class(failed):
    said = "SyntaxError: '(' was never closed (functional.py, line 24)"
    asked = [f"{said}\nasked for run_{name}(x)" for name in ("silu", "softmax")]
    broken = result(
        [
            item("silu", 0, "error", message=asked[0]),
            item("softmax", 0, "error", message=asked[1]),
            item("rope", 0),
        ]
    )
    step = reading.next_step(broken)
    assert (step.task, step.waiting) == (f"Repair this first: {said}", "SiLU, Softmax")
    assert class_page([broken, failed]).count("functional.py, line 24") >= 1
    assert said in gradebook_csv([broken])


@pytest.mark.parametrize("write", [results_json, markdown])
def test_a_note_that_says_what_to_do_next_is_not_repeated(write):
    assert write(result(note="the folder is empty")).count("the folder is empty") == 1


def test_an_endless_loop_is_one_line_and_called_one():
    late = ("over 20 s of CPU", "over 20 s of CPU", *["over 2 s of CPU"] * 5)
    items = [item("adamw", number, "error", message=said) for number, said in enumerate(late)]
    looping = result([item("linear"), *items])
    text = student_page(looping)
    assert text.count("<details") == 1
    assert "and 6 more alike" in text
    assert "An endless loop looks like this." in text
    for page in (class_page([looping]), gradebook_csv([looping])):
        assert "looks like an endless loop: AdamW" in page
    assert not reading.loops(result([item("linear"), items[0]]))  # It may just have been slow.


# --- what to do next ---


@pytest.mark.parametrize(
    ("outcomes", "task"),
    [
        # The first failed problem whose needs are right.
        ("failed failed failed", "Repair Linear layer first."),
        ("passed failed failed", "Repair Feed-forward network (SwiGLU) first."),
        # What waits for something that is not started is passed over.
        ("not_started failed failed", "Repair Softmax first."),
        # As in the handout, the smallest comes first.
        ("passed passed not_started", "Start Softmax first."),
    ],
)
def test_advice_is_what_to_do_next(outcomes, task):
    problems = ("linear", "positionwise_feedforward", "softmax")
    items = [item(*row) for row in zip(problems, (0, 0, 0), outcomes.split(), strict=True)]
    step = reading.next_step(result([*items, item("train_bpe", 0, "not_started")]))
    assert step.task == task
    if outcomes == "failed failed failed":
        assert step.command == 'make test ARGS="--problem linear"'
        assert step.waiting == "Feed-forward network (SwiGLU)"


def test_where_all_is_right_nothing_is_left_to_do():
    assert reading.advice(result([item()])) == ["Nothing is left to do."]


def test_only_a_problem_without_failure_shows_all_of_its_points():
    assert reading.shown_points(14.9868) == "14.9"
    assert reading.shown_points(0.1 + 0.2) == "0.3"
    assert reading.shown_points(15.0) == "15.0"


def test_a_text_of_slashes_is_made_steady_in_no_time():
    started = time.process_time()
    assert TEMPORARY.sub("...", "/a" * 100_000) == "/a" * 100_000
    assert time.process_time() - started < 5
    path = "/var/folders/x/T/tmpab12cd34/text"
    assert TEMPORARY.sub("...", path) == ".../text"


def test_a_traceback_opens_no_file_that_a_submission_names():
    for name in ("/dev/ptmx", "../../dev/zero", "lm/silu.py"):
        file = code_of(Frame(name, 3, "silu"), is_innermost=True).co_filename
        assert file.endswith(f"/{name.rpartition('/')[2]}")
        assert not Path(file).exists()
        assert not Path(os.path.abspath(file)).exists()  # noqa: PTH100  as pytest does


def test_many_findings_hide_neither_their_number_nor_those_of_others():
    many = tuple(finding(line=line, operator="torch.many") for line in range(1, 301))
    loud = result([item()], "loud", policy=many)
    quiet = result([item()], "quiet", policy=(finding("forbidden"),))
    assert "... and 240 more." in student_page(loud, Reader.INSTRUCTOR)
    page = class_page([loud, quiet])
    assert page.count("torch.many") == 20
    assert "... and 280 more." in page
    assert page.count("torch.nn.functional.linear") == 1
