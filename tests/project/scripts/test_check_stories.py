"""check_stories.py: how many of a model's stories keep their hero, and where others depart."""

import json

import pytest

from cs_basics.run import samples
from cs_basics.run.training_run import train_run
from cs_basics.stories.grammar import iterate_stories


@pytest.fixture(scope="module")
def run_dir(make_tiny_config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train_run(make_tiny_config(folder).replace(num_samples=0))
    return folder


def test_stories_of_the_grammar_are_counted_and_others_are_not(script, run_dir, monkeypatch):
    stories = iterate_stories(seed=3)
    told = [next(stories), next(stories).replace(".", "!", 1), next(stories)]

    def write(_model, _tokenizer, _max_tokens, seed, *, is_fast):
        assert is_fast
        return told[seed - 4]

    monkeypatch.setattr(samples, "write_story", write)
    result = script("maintain/check_stories", str(run_dir), "--num-stories", "3", "--seed", "4")
    assert result.code == 0
    assert result.out.count(": kept") == 2
    assert "departs after 0 characters" in result.out.splitlines()[1]
    assert result.out.endswith("2 of 3 stories keep their hero and object, 2 all else\n")


def test_a_model_that_has_learned_nothing_keeps_nothing(script, run_dir):
    arguments = ("--num-stories", "2", "--max-tokens", "20", "--json")
    result = script("maintain/check_stories", str(run_dir), *arguments)
    found = json.loads(result.out)
    assert found["num_kept"] == 0
    assert len(found["stories"]) == 2


def test_bad_input_is_named(script, run_dir):
    result = script("maintain/check_stories", str(run_dir), "--num-stories", "0")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "num_stories=0 must be at least 1" in result.err
