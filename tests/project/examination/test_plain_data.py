"""What the examination hands to a probe and takes back: copies of plain data."""

from collections import namedtuple

import numpy as np
import pytest
import torch
from processes import ROOT

Pair = namedtuple("Pair", "left right")


class OneByOne(list):
    def __init__(self):
        super().__init__()


@pytest.fixture
def copied(request):
    return request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py")).copied


def test_a_copy_is_equal_and_apart(copied):
    given = {"x": np.arange(6.0).reshape(2, 3).T, "ids": [1, [2, 3]], "name": "a", "none": None}
    copy = copied(given)
    np.testing.assert_array_equal(copy["x"], given["x"])
    assert copy["x"].strides == given["x"].strides
    copy["x"][0, 0] = 9
    copy["ids"][1].append(4)
    assert given["x"][0, 0] == 0
    assert given["ids"] == [1, [2, 3]]


def test_subclasses_are_taken_for_what_they_hold(copied):
    """A solution may return named tuples, or a list that cannot be made like others."""
    merges = OneByOne()
    merges.append(Pair(b"a", b"b"))
    assert copied(merges) == [(b"a", b"b")]
    assert type(copied(merges)) is list


def test_anything_else_is_refused_by_its_type(copied):
    with pytest.raises(TypeError, match="plain data only, not Tensor"):
        copied({"x": [torch.zeros(1)]})
