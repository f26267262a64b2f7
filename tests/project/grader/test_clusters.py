"""Who is wrong in the same way: put together by behaviour, named by the instructor."""

import dataclasses
import re

import fingerprint
import numpy as np
import pytest
from sample_results import NASTY, everyone, item, result

from cs_grader.result import Excerpt, Fingerprint, Result
from cs_grader.results.cluster_names import FILE, ClusterName, read_names
from cs_grader.results.clusters import find_clusters
from cs_grader.results.write import write_class, write_outputs

RIGHT = np.linspace(-1, 1, 40).reshape(5, 8)
LIMIT = 1e-5


def values(got, **changes):
    taken = fingerprint.of_values(np.asarray(got), RIGHT, LIMIT, "float32")
    about = {"sketch": tuple(taken["sketch"]), "asked": "run_rmsnorm(d_model=8)", "size": 40}
    return Fingerprint(**(taken | about | changes))


def failed(number=0, taken=None, problem="rmsnorm", **changes):
    return item(problem, number, "failed", fingerprint=taken or values(2 * RIGHT), **changes)


def members(**answers):
    """Who is put together: each answers so once, or fails these items."""
    results = [
        result(got if isinstance(got, list) else [failed(0, values(got))], name)
        for name, got in answers.items()
    ]
    return [cluster.members for cluster in find_clusters(results)]


def test_who_answers_alike_up_to_rounding_is_put_together():
    rounding = 1 + 1e-7 * np.random.default_rng(0).standard_normal(RIGHT.shape)
    ada = [failed(0), failed(1)]
    bob = [failed(0, values(2 * RIGHT * rounding)), failed(1)]
    cyd = [failed(0, values(3 * RIGHT)), failed(1, values(RIGHT**2))]
    assert members(ada=ada, bob=bob, cyd=cyd) == [("ada", "bob"), ("cyd",)]


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_a_difference_of_more_than_is_allowed_tells_two_apart(scale):
    got = RIGHT + scale * LIMIT
    near = got + 0.1 * LIMIT * np.sign(RIGHT)
    far = got + 5 * scale * LIMIT * np.sign(RIGHT)
    assert members(a=got, b=near, c=far) == [("a", "b"), ("c",)]


def test_one_wrong_value_of_many_is_seen():
    other = 2 * RIGHT
    other[3, 4] += 1
    assert members(a=2 * RIGHT, b=other) == [("a",), ("b",)]


def test_values_that_are_no_numbers_are_compared_like_others():
    nans, half = np.full(RIGHT.shape, np.nan), np.where(RIGHT > 0, np.inf, RIGHT)
    assert members(a=nans, b=nans, c=half) == [("a", "b"), ("c",)]


@pytest.mark.parametrize(("num_odd", "num_clusters"), [(2, 1), (3, 2)])
def test_half_of_what_either_fails_has_to_agree(num_odd, num_clusters):
    same, odd = [failed(0), failed(1)], [failed(2 + n, values(RIGHT - 1)) for n in range(num_odd)]
    assert len(members(a=same, b=same + odd)) == num_clusters


def test_each_problem_has_clusters_of_its_own():
    both = [failed(), failed(problem="softmax")]
    assert members(a=both, b=both, c=both[:1]) == [("a", "b", "c"), ("a", "b")]


def test_what_a_diagnosis_explains_is_in_no_cluster_nor_is_a_hidden_item_or_a_passed_one():
    explained = [failed(0), failed(1, diagnosis="the-mean-is-subtracted")]
    hidden = [item(outcome="failed", is_hidden=True)]
    assert members(a=explained, b=explained, c=hidden, d=[item()]) == []


def test_the_example_has_the_smallest_input_that_most_answer_alike():
    items = [failed(0, values(RIGHT, size=90)), failed(1, values(RIGHT, size=7)), failed(2)]
    alone = failed(3, values(RIGHT, size=1))
    (cluster,) = find_clusters([result([*items, alone], "a"), result(items, "b")])
    assert cluster.example.item == items[1].item


def test_messages_are_compared_without_what_is_a_submissions_own():
    ours, same, *others = [
        fingerprint.of(error, {})["form"]
        for error in (
            TypeError("norm() got an unexpected keyword argument 'eps' in /tmp/a1/norms.py"),
            TypeError("rms_norm() got an unexpected keyword argument 'e' in /x/y.py"),
            ValueError("norm() got an unexpected keyword argument 'eps' in /tmp/a1/norms.py"),
            RuntimeError("shapes cannot be multiplied (2x3)"),
            RuntimeError("shapes cannot be multiplied (3x2)"),
        )
    ]
    assert ours == same
    assert len({ours, *others}) == 4


def test_a_fingerprint_is_small_whatever_came():
    huge = np.random.default_rng(0).standard_normal((300, 300))
    taken = [
        fingerprint.of_values(huge, 0 * huge, LIMIT, "float32"),
        fingerprint.of_sequence(["x" * 10**6], "x" * 10**6, "y" * 10**6),
        fingerprint.of(ValueError("x" * 10**6), {"text": "x" * 10**6}),
    ]
    assert all(len(repr(one)) < 2000 for one in taken)


@pytest.mark.parametrize("right", [np.float64(1), np.ones(3), np.ones((40, 40))])
def test_what_is_shown_side_by_side_differs_however_little_is_wrong(right):
    wrong = right * (1 + 1e-7)
    taken = fingerprint.of_values(wrong, right, 1e-9, "float64")
    assert taken["expected"] != taken["got"]
    assert len(taken["got"]) < 200


# --- names ---

ENTRY = '[[cluster]]\nproblem = "rmsnorm"\nlike = "bob"\nname = "the gain is squared"\n'
NAME = ClusterName(
    problem="rmsnorm", like="bob", name="the pre-gain is squared", hint="Multiply <once>."
)


SOURCE = Excerpt(problem="rmsnorm", file="lm/norms.py", line=7, text="def norm(x):\n    return x")


def test_a_result_survives_json():
    before = result([failed()], sources=(SOURCE,))
    assert Result.from_json(before.to_json()) == before


@pytest.fixture
def small_class(tmp_path):
    wrong = [failed(message="wrong")]
    results = [result(wrong, name, sources=(SOURCE,)) for name in ("ada", "bob", "cyd")]
    results.append(result([item()], "dan"))
    for each in results:
        (tmp_path / each.submission).mkdir()
        write_outputs(each, tmp_path / each.submission)
    return results, tmp_path


def read(folder, path="index.html"):
    return (folder / path).read_text(encoding="utf-8")


def test_the_class_page_shows_a_cluster_with_answers_and_sources(small_class):
    results, folder = small_class
    assert write_class(results, folder) == []
    rows = re.findall(r"(?s)<tr [^>]*data-mistake=.0\b.*?</tr>", read(folder))
    cluster, *others = ["".join(re.sub("<.*?>", " ", row).split()) for row in rows]
    assert [row[:3] for row in others] == ["ada", "bob", "cyd"]
    assert cluster.startswith("3RMSNorm:wronginthesameway,whichhasnonameyet")
    assert "Smallestinput:run_rmsnorm(d_model=8)" in cluster
    assert re.search(r"expected\[.*\]:-1-0\.94872.*theirs\[.*\]:-2-1\.8974", cluster)
    assert cluster.count("lm/norms.py,line7") == 3
    assert 'like="ada"' in cluster


def test_a_name_is_on_the_pages_of_all_members_and_gone_without_it(small_class):
    results, folder = small_class
    before = {name: read(folder / name) for name in ("ada", "dan")}
    assert write_class(results, folder, names=[NAME]) == []
    for member in ("ada", "bob", "cyd"):
        for file in ("index.html", "report.md", "results.json"):
            assert "pre-gain is squared" in read(folder / member, file), file
        assert "Multiply &lt;once&gt;." in read(folder / member)
    assert read(folder / "dan") == before["dan"]
    assert "the pre-gain is squared" in read(folder)
    write_outputs(results[0], folder / "ada")
    assert read(folder / "ada") == before["ada"]


def test_a_name_that_fits_nobody_is_told(small_class):
    results, folder = small_class
    other = dataclasses.replace(NAME, like="dan")
    (line,) = write_class(results, folder, names=[other])
    assert "dan has no unexplained failure in rmsnorm" in line
    assert "dan has no unexplained failure" in read(folder)


def test_hostile_texts_in_a_cluster_stay_texts(tmp_path):
    words = dict.fromkeys(("form", "asked", "expected", "got"), NASTY)
    taken = dataclasses.replace(values(RIGHT), **words)
    source = dataclasses.replace(SOURCE, file=NASTY, text=NASTY)
    results = [result([failed(0, taken)], f"<b>{n}", sources=(source,)) for n in "ab"]
    write_class(results, tmp_path)
    assert "<img" not in read(tmp_path)
    assert "<b>a" not in read(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[cluster]", "line 1"),
        ("[[clusters]]", "'clusters' is unknown: begin each with [[cluster]]"),
        ("cluster = 3", "cluster is not a list"),
        ("cluster = [3]", "entry 1: begin each with [[cluster]]"),
        ('[[cluster]]\nproblem = "rmsnorm"', "entry 1: like is missing"),
        (ENTRY + "hnt = 3", "entry 1: 'hnt' is unknown: use problem, like, name, hint"),
        (ENTRY + "hint = 3", "entry 1: hint = 3 has to be a text"),
        (ENTRY.replace("the gain is squared", " "), "entry 1: name = ' ' has to be a text"),
        (ENTRY.replace("the gain", "the gain " * 20), "name is longer than 100 characters"),
        (ENTRY + ENTRY, "entry 2: bob has a name in rmsnorm already"),
        ("\udcff", "utf-8"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, text, words):
    (tmp_path / FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        read_names(tmp_path)
    assert str(caught.value).startswith(str(tmp_path / FILE))
    assert len(str(caught.value).splitlines()) == 1


def test_two_hundred_are_put_together_quickly():
    """The worst case: all fail everything, each in a way of their own."""
    rng = np.random.default_rng(0)
    answers = {
        each.submission: [
            failed(number, values(rng.standard_normal(RIGHT.shape))) for number in range(20)
        ]
        for each in everyone(200)
    }
    assert len(members(**answers)) == 200
