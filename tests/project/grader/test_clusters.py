"""Who is wrong in the same way: put together by behaviour, named by the instructor."""

import dataclasses
import re
from pathlib import Path

import fingerprint
import numpy as np
import pytest
from bank.classroom import adjusted_rand
from sample_results import NASTY, everyone, item, result

from cs_grader.result import Excerpt, Fingerprint, Result
from cs_grader.results.cluster_names import FILE, ClusterName, read_names
from cs_grader.results.clusters import find_clusters
from cs_grader.results.write import write_class, write_outputs

ROOT = Path(__file__).parents[3]
RIGHT = np.linspace(-1, 1, 40).reshape(5, 8)
LIMIT = 1e-5


def values(got, **changes):
    taken = fingerprint.of_values(np.asarray(got), RIGHT, LIMIT, "float32")
    about = {"sketch": tuple(taken["sketch"]), "asked": "run_rmsnorm(d_model=8)", "size": 40}
    return Fingerprint(**(taken | about | changes))


def failed(number=0, taken=None, problem="rmsnorm", **changes):
    return item(problem, number, "failed", fingerprint=taken or values(2 * RIGHT), **changes)


def members(results):
    return [cluster.members for cluster in find_clusters(results)]


def test_who_answers_alike_up_to_rounding_is_put_together():
    rounding = 1 + 1e-7 * np.random.default_rng(0).standard_normal(RIGHT.shape)
    ada = result([failed(0), failed(1)], "ada")
    bob = result([failed(0, values(2 * RIGHT * rounding)), failed(1)], "bob")
    cyd = result([failed(0, values(3 * RIGHT)), failed(1, values(RIGHT**2))], "cyd")
    assert members([ada, bob, cyd]) == [("ada", "bob"), ("cyd",)]


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_a_difference_of_more_than_is_allowed_tells_two_apart(scale):
    got = RIGHT + scale * LIMIT
    near = got + 0.1 * LIMIT * np.sign(RIGHT)
    far = got + 5 * scale * LIMIT * np.sign(RIGHT)
    results = [
        result([failed(0, values(v))], n) for n, v in {"a": got, "b": near, "c": far}.items()
    ]
    assert members(results) == [("a", "b"), ("c",)]


def test_one_wrong_value_of_many_is_seen():
    one, other = 2 * RIGHT, 2 * RIGHT
    other = other.copy()
    other[3, 4] += 1
    results = [result([failed(0, values(v))], n) for n, v in {"a": one, "b": other}.items()]
    assert members(results) == [("a",), ("b",)]


def test_values_that_are_no_numbers_are_compared_like_others():
    nans = np.full(RIGHT.shape, np.nan)
    half = np.where(RIGHT > 0, np.inf, RIGHT)
    results = [
        result([failed(0, values(v))], n) for n, v in zip("abc", (nans, nans, half), strict=True)
    ]
    assert members(results) == [("a", "b"), ("c",)]


def test_half_of_what_either_fails_has_to_agree():
    same, odd = [failed(n) for n in range(2)], [failed(n, values(RIGHT - 1)) for n in range(2, 6)]
    assert len(members([result(same, "a"), result(same + odd[:2], "b")])) == 1
    assert len(members([result(same, "a"), result(same + odd[:3], "b")])) == 2


def test_each_problem_has_clusters_of_its_own():
    both = [failed(), failed(problem="softmax")]
    found = find_clusters([result(both, "a"), result(both, "b"), result(both[:1], "c")])
    assert [(c.problem, c.members) for c in found] == [
        ("rmsnorm", ("a", "b", "c")),
        ("softmax", ("a", "b")),
    ]


def test_what_a_diagnosis_explains_is_in_no_cluster_nor_is_a_hidden_item_or_a_passed_one():
    explained = [failed(0), failed(1, diagnosis="the-mean-is-subtracted")]
    hidden = [item(outcome="failed", is_hidden=True)]
    results = [result(i, n) for n, i in {"a": explained, "b": explained, "c": hidden}.items()]
    assert find_clusters([*results, result([item()], "d")]) == []


def test_the_example_has_the_smallest_input_that_most_answer_alike():
    items = [failed(0, values(RIGHT, size=90)), failed(1, values(RIGHT, size=7)), failed(2)]
    alone = failed(3, values(RIGHT, size=1))
    (cluster,) = find_clusters([result([*items, alone], "a"), result(items, "b")])
    assert cluster.example.item == items[1].item


def test_messages_are_compared_without_what_is_a_submissions_own():
    def form(error):
        return fingerprint.of(error, {})["form"]

    ours = form(TypeError("norm() got an unexpected keyword argument 'eps' in /tmp/a1/norms.py"))
    assert ours == form(TypeError("rms_norm() got an unexpected keyword argument 'e' in /x/y.py"))
    assert ours != form(ValueError("norm() got an unexpected keyword argument 'eps' in /tmp/a"))
    shapes = [form(RuntimeError(f"shapes cannot be multiplied ({s})")) for s in ("2x3", "3x2")]
    assert shapes[0] != shapes[1]


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


def test_a_result_survives_json():
    before = result([failed()], sources=(Excerpt(problem="rmsnorm", file="a", line=3, text="x"),))
    assert Result.from_json(before.to_json()) == before


# --- names ---

ENTRY = '[[cluster]]\nproblem = "rmsnorm"\nlike = "bob"\nname = "the gain is squared"\n'
NAME = ClusterName(
    problem="rmsnorm", like="bob", name="the pre-gain is squared", hint="Multiply <once>."
)


@pytest.fixture
def small_class(tmp_path):
    source = Excerpt(
        problem="rmsnorm", file="lm/norms.py", line=7, text="def norm(x):\n    return x"
    )
    results = [
        result([failed(message="wrong")], name, sources=(source,)) for name in ("ada", "bob", "cyd")
    ]
    results.append(result([item()], "dan"))
    for each in results:
        (tmp_path / each.submission).mkdir()
        write_outputs(each, tmp_path / each.submission)
    return results, tmp_path


def read(folder, *path):
    return folder.joinpath(*path).read_text(encoding="utf-8")


def test_the_class_page_shows_a_cluster_with_answers_and_sources(small_class):
    results, folder = small_class
    assert write_class(results, folder) == []
    page = read(folder, "index.html")
    rows = re.findall(r"(?s)<tr [^>]*data-mistake=.0\b.*?</tr>", page)
    cluster, *others = ["".join(re.sub("<.*?>", " ", row).split()) for row in rows]
    assert [row[:3] for row in others] == ["ada", "bob", "cyd"]
    assert cluster.startswith("3RMSNorm:wronginthesameway,whichhasnonameyet")
    assert "Smallestinput:run_rmsnorm(d_model=8)" in cluster
    assert re.search(r"expected\[.*\]:-1-0\.94872.*theirs\[.*\]:-2-1\.8974", cluster)
    assert cluster.count("lm/norms.py,line7") == 3
    assert 'like="ada"' in cluster


def test_a_name_is_on_the_pages_of_all_members_and_gone_without_it(small_class):
    results, folder = small_class
    before = {name: read(folder, name, "index.html") for name in ("ada", "dan")}
    assert write_class(results, folder, names=[NAME]) == []
    for member in ("ada", "bob", "cyd"):
        for file in ("index.html", "report.md", "results.json"):
            assert "pre-gain is squared" in read(folder, member, file), file
        assert "Multiply &lt;once&gt;." in read(folder, member, "index.html")
    assert read(folder, "dan", "index.html") == before["dan"]
    assert "the pre-gain is squared" in read(folder, "index.html")
    write_outputs(results[0], folder / "ada")
    assert read(folder, "ada", "index.html") == before["ada"]


def test_a_name_that_fits_nobody_is_told(small_class):
    results, folder = small_class
    other = dataclasses.replace(NAME, like="dan")
    (line,) = write_class(results, folder, names=[other])
    assert "dan has no unexplained failure in rmsnorm" in line
    assert "dan has no unexplained failure" in read(folder, "index.html")


def test_hostile_texts_in_a_cluster_stay_texts(tmp_path):
    words = dict.fromkeys(("form", "asked", "expected", "got"), NASTY)
    taken = dataclasses.replace(values(RIGHT), **words)
    source = Excerpt(problem="rmsnorm", file=NASTY, line=1, text=NASTY)
    results = [result([failed(0, taken)], f"<b>{n}", sources=(source,)) for n in "ab"]
    write_class(results, tmp_path)
    assert "<img" not in read(tmp_path, "index.html")
    assert "<b>a" not in read(tmp_path, "index.html")


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


def test_no_file_is_no_names_and_a_good_one_is_read(tmp_path):
    assert read_names(tmp_path) == []
    (tmp_path / FILE).write_text(ENTRY)
    name = ClusterName(problem="rmsnorm", like="bob", name="the gain is squared")
    assert read_names(tmp_path) == [name]


def test_two_hundred_are_put_together_quickly():
    """The worst case: all fail everything, each in a way of their own."""
    rng = np.random.default_rng(0)
    results = []
    for each in everyone(200):
        taken = [values(rng.standard_normal(RIGHT.shape)) for _ in range(20)]
        items = [failed(number, one) for number, one in enumerate(taken)]
        results.append(result(items, each.submission))
    assert len(find_clusters(results)) == 200


# --- measured ---


def test_adjusted_rand_index_of_known_partitions():
    assert adjusted_rand("aabb", "xxyy") == 1
    assert adjusted_rand("aabb", "xyxy") == pytest.approx(-0.5)
    # Wikipedia's definition by hand: 4 pairs in each, 2 in common, of 15.
    assert adjusted_rand("aaabbc", "xxyyyz") == pytest.approx((2 - 16 / 15) / (4 - 16 / 15))
