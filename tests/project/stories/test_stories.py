"""The embedded corpus: its variety, its notation, and the files it makes."""

import hashlib
import re
from itertools import islice

import pytest

from cs_basics.stories import grammar
from cs_basics.stories.grammar import iterate_stories, write_stories
from cs_basics.stories.plots import read_plots
from cs_basics.stories.words import read_words

PLOTS = {plot.name: plot for plot in read_plots()}


@pytest.fixture(scope="module")
def many():
    """Some three megabytes of stories."""
    return list(islice(iterate_stories(0), 5000))


def test_no_story_is_told_twice_in_the_training_and_validation_text(many):
    everything = [*many, *islice(iterate_stories(1_000_003), 3000)]
    assert len(set(everything)) == len(everything)


def test_stories_are_plain_text_without_grammar_marks(many):
    for text in many:
        assert text.isascii()
        assert not re.search(r"[\[\]{}|#@&_<>]|\n\n|  | \n|\n |^\s|\s$", text), text


@pytest.mark.parametrize("plot", PLOTS)
def test_every_line_of_a_plot_can_be_told(plot):
    sentences = [text for beat in PLOTS[plot].beats for line in beat.lines for text in line]
    for seed in range(5):
        cast = grammar.Cast(grammar.Random(seed), PLOTS[plot].hero_kind)
        for text in sentences:
            while "{" in text:
                text = text.format_map(cast)


# The notation


@pytest.mark.parametrize(
    ("read", "text", "line", "complaint"),
    [
        (read_plots, "Once upon a time.", 1, "before the first title"),
        (read_plots, "== child / opening\n\nOne.\nA caf\u00e9.", 4, "only ASCII"),
        (read_plots, "== child / opening\n\n{hero} lost {toyy}.", 3, "{toyy} names no kind"),
        (read_plots, "== animal / opening\n\n{hero.wings}.", 3, 'no form "wings"'),
        (read_plots, "== child / opening\n\n{hero} [ran|fell.", 3, "bracket"),
        (read_words, "== color\nred\n\n== color\nblue", 4, "already"),
        (read_words, "== skill / past\nswim / swam\nski", 3, "0 forms, but the title names 1"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path, read, text, line, complaint):
    path = tmp_path / "mistaken.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"mistaken\.txt, line {line}: .*{re.escape(complaint)}"):
        read(path)


# Seeds and files


def test_a_seed_tells_the_stories_that_it_always_told(tmp_path):
    """Whatever is read or told otherwise changes them: beats and marks, forms, articles, slots."""
    write_stories(tmp_path / "stories.txt", 500_000, 7)
    checksum = hashlib.sha256((tmp_path / "stories.txt").read_bytes()).hexdigest()
    assert checksum == ("8506290c94c37f93369b7485de1a50898b8f8f6448af8c3f767ecbccdee0e771"), (
        "if you meant to change plots.txt or words.txt, put the new checksum into this test"
    )


def test_the_script_writes_each_story_and_a_line_of_its_end(succeeds, tmp_path):
    path = tmp_path / "new" / "stories.txt"
    told = succeeds("write_stories", "--megabytes", 0.2, "--out", path, "--seed", 4).out
    assert f"wrote {path.stat().st_size / 1e6:.1f} MB" in told
    *texts, rest = path.read_text().split("\n<|endoftext|>\n")
    assert rest == ""
    assert texts == list(islice(iterate_stories(4), len(texts)))
    assert 200_000 <= path.stat().st_size < 202_000


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "stories.txt"
    path.write_text("old")

    def stop(*_values):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_stories(path, 2_000_000, 6, on_progress=stop)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
