"""scripts/maintain/seeds.py: the examination with inputs of many seeds."""

import re

# Right unless a drawn value is above 1.5: a public seed may well say nothing of that.
ADAPTERS = """
def run_silu(in_features):
    return in_features * in_features.sigmoid() * (1 + (in_features > 1.5))
"""


def test_the_reference_passes_whatever_is_drawn(script):
    finished = script("maintain/seeds", "--count", 2, "--problem", "silu")
    assert finished.code == 0, finished.out
    assert "2 seeds from 1 on: 0 of " in finished.out
    assert re.search(r"2 of 2 seeds \(100%\), \d+ seeds/(s|min), 0 s left", finished.err)


def test_an_item_that_fails_is_shown_with_its_seed(script, tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "adapters.py").write_text(ADAPTERS)
    options = ["--count", 1, "--first", 7, "--problem", "silu", "--drawn-only"]
    finished = script("maintain/seeds", *options, "--submission", tmp_path)
    assert finished.code == 1
    assert "--exam-seed 7: tests/test_layers.py::test_silu" in finished.out


def test_bad_options_are_one_line(script, tmp_path):
    for options, message in (
        (["--count", 0], "error: --count 0 --first 1: use at least 1 seed, from 0 on"),
        (["--submission", tmp_path], f"error: --submission {tmp_path}: there is no tests/adapters"),
        (["--count", 1, "--problem", "nothing"], "error: seed 1: the examination did not run: "),
    ):
        finished = script("maintain/seeds", *options)
        assert finished.code == 2
        assert finished.err.splitlines()[-1].startswith(message), finished.err
