"""A run with random weights, for the formats that it is exported to."""

import page_cases
import pytest
from page_cases import CONTEXT


@pytest.fixture
def make_run(tokenizer, tmp_path):
    """Write the folder of a run with random weights and random gains, and a test's tokenizer."""

    def make(**choices):
        return page_cases.make_run(tmp_path / "run", tokenizer, context_length=CONTEXT, **choices)

    return make
