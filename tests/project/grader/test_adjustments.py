"""adjust.csv: points that an instructor gives or takes, on every page and in the gradebook."""

import csv
import dataclasses
import json

import pytest
import sample_results
from files import write_files

from cs_grader.trusted import batch
from cs_grader.trusted.submissions import find_submissions, passed_over

HEAD = "name,points,reason\n"


def class_of(folder, adjustments):
    files = {f"{name}/tests/adapters.py": "" for name in ("ann", "Bob K", "cyd")}
    return write_files(folder, files | {"adjust.csv": adjustments})


BAD = {
    "": (OTHER := r"name,? ?points,? ?reason"),
    "student,points\n": OTHER,
    f"{HEAD}Bob,-5,late\n": r"line 2: nobody is called 'Bob': do you mean Bob K\?",
    f"{HEAD}ann,1,\nzoe,1,\n": "line 3: nobody is called 'zoe': use a name of the gradebook",
    f"{HEAD}ann,five,late\n": "line 2: points = 'five': use a number",
    f"{HEAD}ann,nan,late\n": "line 2: points = 'nan': use a number",
    f"{HEAD}ann,5\n": "line 2: 2 columns, expected 3",
    f'{HEAD}ann,5,"late\n': "is no table of name, points, reason",
}


@pytest.mark.parametrize("text", BAD)
def test_a_table_that_says_nothing_certain_is_refused_in_a_line(tmp_path, text):
    with pytest.raises(ValueError, match=BAD[text]) as refused:
        find_submissions(class_of(tmp_path, text))
    assert "\n" not in str(refused.value)


def test_points_are_added_up_for_whoever_is_named_and_every_output_shows_why(tmp_path):
    text = f'\ufeff{HEAD}cyd,-5,two days late\ncyd,+1.5,\nann,-500,"copied, as seen"\n'
    found, is_batch = find_submissions(class_of(tmp_path / "in", text))
    assert is_batch
    assert passed_over(tmp_path / "in") == []
    items = [sample_results.item("linear"), sample_results.item("rope")]
    for one in found:
        folder = tmp_path / "out" / one.name
        folder.mkdir(parents=True)
        plain = sample_results.result(items, one.name, handed_in_as=one.handed_in_as)
        plain = dataclasses.replace(plain, key=batch._key_of(one))
        (folder / batch.RESULT_FILE).write_text(plain.to_json())
    graded = batch.look_up(found, lambda one: tmp_path / "out" / one.name)
    batch.write_gradebook(graded, tmp_path / "out")

    with (tmp_path / "out" / "gradebook.csv").open(encoding="utf-8-sig") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    columns = ("score", "adjustment", "reason")
    assert {name: tuple(row[c] for c in columns) for name, row in rows.items()} == {
        "ann": ("0", "-7", "copied, as seen"),
        "Bob K": ("7", "", ""),
        "cyd": ("3.5", "-3.5", "two days late,"),
    }
    of_cyd = tmp_path / "out" / "cyd"
    assert json.loads((of_cyd / "results.json").read_text())["score"] == 3.5
    for path in (*of_cyd.glob("*.html"), of_cyd / "report.md", tmp_path / "out" / "index.html"):
        assert "-5 points: two days late" in path.read_text(encoding="utf-8")
