"""This edition of the examination holds the answers to its public inputs only."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Refuse another seed."""
    if config.getoption("--exam-seed", 0) != 0:
        msg = "--exam-seed: this edition has stored answers, and those for the public seed only"
        raise pytest.UsageError(msg)
