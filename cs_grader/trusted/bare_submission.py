"""A pytest plugin that refuses `--submission DIR` where pytest takes DIR for a folder of tests.

Without `-c` or a folder before it, pytest looks into DIR for its settings, not into this project's,
and runs the conftest.py that it finds there. So this one is installed with the project
(pyproject.toml): it comes after the settings and before any conftest.py.
"""

import sys

import pytest


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Stop pytest if the examination's options are not there, which its settings bring."""
    if "--submission" in sys.argv and not pluginmanager.has_plugin("options"):
        msg = "pytest takes the folder after --submission for its own: say --submission=DIR"
        raise pytest.UsageError(msg)
