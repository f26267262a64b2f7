"""The grammar backwards: its own stories are read to the end, and no others."""

from itertools import islice
from random import Random

import pytest

from cs_basics.stories.grammar import iterate_stories, tell_plot
from cs_basics.stories.plots import read_plots
from cs_basics.stories.reading import read_story

PLOTS = {plot.name: plot for plot in read_plots()}
STORY = """Do you know Mia? She was a playful girl who lived in a house with a red roof.
One day, Mia could not find the doll. "Where is my doll?" she asked.
Then Muffin the kitten came in. "Muffin, can you help me?" asked Mia. Muffin meowed.
They found the doll on the stairs. It had been there all the time.
Mia learned that things are easy to find when they have a place."""


def test_every_story_of_the_grammar_is_read_to_its_end():
    stories = list(islice(iterate_stories(seed=7), 40))
    assert [story for story in stories if not read_story(story).is_whole] == []


@pytest.mark.parametrize("plot", PLOTS)
def test_its_plot_and_hero_are_found(plot):
    story = tell_plot(PLOTS[plot], Random(3))
    reading = read_story(story)
    assert (reading.plot, reading.is_whole) == (plot, True)
    assert reading.hero in story


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("Mia learned", "Amy learned"),
        ("found the doll", "found the ball"),
        ("Muffin meowed", "Muffin barked"),
        ('?" she asked', '?" he asked'),
        ("have a place.", "have a place"),
        ("Mia learned", "Mia shared her cake. Mia learned"),
    ],
)
def test_a_departure_ends_the_reading_where_it_is(said, instead):
    assert read_story(STORY).is_whole
    assert STORY.count(said) == 1
    changed = STORY.replace(said, instead)
    reading = read_story(changed)
    assert reading.hero == "Mia"
    assert not reading.is_whole
    assert reading.end <= STORY.index(said) + len(instead)


@pytest.mark.parametrize(
    ("said", "instead", "is_kept"),
    [
        ("on the stairs", "under a pillow", True),
        ("Muffin meowed", "Muffin barked", True),
        ('"Muffin, can', '"Rex, can', True),
        ("found the doll", "found the ball", False),
        ("Mia learned", "Amy learned", False),
        ('?" she asked', '?" he asked', False),
    ],
)
def test_hero_and_object_may_be_all_that_is_kept(said, instead, is_kept):
    changed = STORY.replace(said, instead)
    assert changed != STORY
    assert read_story(changed, keeps_all=False).is_whole == is_kept


def test_nobody_has_the_name_of_the_hero():
    start = "Do you know Emma? She was a playful girl who lived in a house with a red roof."
    told = " {0} was Emma's best friend. Soon it was {0}'s birthday."
    assert read_story(start + told.format("Anna")).is_whole
    assert read_story(start + told.format("Emma")).end == len(start) + 1


@pytest.mark.parametrize("text", ["", "Once upon a time"])
def test_what_is_no_story_departs_at_once(text):
    reading = read_story(text)
    assert (reading.end, reading.is_whole) == (0, False)
