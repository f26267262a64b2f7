"""Right work that stops at one difficulty is charged for that alone, and told what it is."""

from bank.limits import load


def test_titles_of_limits_are_unique():
    titles = [limit.title for limit in load()]
    assert sorted(set(titles)) == sorted(titles)
