"""The line finder: it names planted faults, says nothing of right work, and shows small cases."""

import subprocess
import sys
from types import SimpleNamespace

import adapters
import pytest
from texts import PLAIN, tokenizer

from lab import ROOT
from lab.places import cases, explain

FOUND = [
    "reference, softmax: the sum is over everything",
    "independent, adamw: the update is added",
    "independent, learning_rate_schedule: the warm-up is not subtracted",
]


def with_adapters(**stand_ins):
    """Return what runs probes against these adapters."""
    chosen = SimpleNamespace(**{**vars(adapters), **stand_ins})
    return lambda probe, **given: probe(chosen, **given)


@pytest.mark.parametrize("function", list(cases.MAKERS))
def test_right_work_is_not_explained(function):
    assert explain(with_adapters(), {"function": function}) == (None, "")


def test_planted_faults_are_found():
    command = [sys.executable, "-m", "lab.places", "--jobs", "1", "--least", "1", "--only", *FOUND]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"the line of {len(FOUND)} of {len(FOUND)} faults" in finished.stdout, finished.stdout
    assert finished.returncode == 0


def test_the_smallest_text_is_shown_for_a_tokenizer():
    def in_capitals(vocab, merges, special_tokens):
        right = adapters.get_tokenizer(vocab, merges, special_tokens)
        return SimpleNamespace(encode=lambda text: right.encode(text.upper()), decode=right.decode)

    asked = {"tokenizer": tokenizer(), "texts": [PLAIN["words"]]}
    _, said = explain(with_adapters(get_tokenizer=in_capitals), asked)
    assert said.startswith("The smallest input found with which it goes wrong:")
    assert "merges=[]" in said
