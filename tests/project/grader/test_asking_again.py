"""No second guess: what counts is what each item is worth alone, or all of them together."""

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs_grader.trusted.examiner import SLOW_IMPORT_S, Examiner

ITEMS = list("abcdefgh")


class Examined:
    """An examiner without pytest, of a submission that remembers what it was asked in a process."""

    def __init__(self, is_right, import_s=0.1, key="00"):
        self.is_right = is_right
        self.is_wrong = False
        self.rows = {}
        self.asked = []
        self.adapters = SimpleNamespace(process=0, import_s=import_s, load=lambda _: None)
        self.examination = SimpleNamespace(hidden_key=key)
        if not Examiner.run_together(self, ITEMS):
            Examiner.run_apart(self, ITEMS)
        self.right = {item for item, is_right in self.rows.items() if is_right}

    def run(self, item, _following, draw=""):
        process = self.adapters.process
        before = [other for number, other, _ in self.asked if number == process]
        self.is_wrong = not self.is_right(item, before)
        self.asked.append((process, item, draw))
        self.rows[item] = not self.is_wrong


@given(st.sets(st.sampled_from(ITEMS)), st.sets(st.sampled_from(ITEMS)))
def test_two_candidates_that_take_turns_are_worth_one_of_them(first, second):
    def takes_turns(item, before):
        return item in (first, second)[len(before) % 2]

    right = Examined(takes_turns).right
    # Where all are right together, they are so as those of one program.
    assert right in (first, set(ITEMS))


def test_what_earlier_items_have_left_costs_nothing():
    examined = Examined(lambda item, before: item not in "cf" or not before)
    assert examined.right == set(ITEMS)
    apart = examined.asked[-len(ITEMS) :]
    assert len({process for process, _, _ in apart}) == len(ITEMS)
    assert {draw for _, _, draw in apart} == {" once more"}


@pytest.mark.parametrize("wrong", ["", "a", "h", "cf", "abcdefgh"])
def test_nothing_is_asked_more_than_twice(wrong):
    examined = Examined(lambda item, _: item not in wrong)
    assert examined.right == set(ITEMS) - set(wrong)
    assert max(Counter(item for _, item, _ in examined.asked).values()) == (2 if wrong else 1)


def test_an_import_that_takes_long_happens_once_and_the_order_is_a_secret():
    slow = [Examined(lambda item, _: item not in "cf", SLOW_IMPORT_S, key) for key in ("00", "01")]
    orders = [[item for _, item, _ in one.asked] for one in slow]
    assert orders[0] != orders[1]
    for one, order in zip(slow, orders, strict=True):
        assert one.right == set(ITEMS) - set("cf")
        assert sorted(order) == ITEMS
        assert {process for process, _, _ in one.asked} == {1}
