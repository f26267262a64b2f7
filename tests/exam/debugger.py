"""Where --pdb stops: at the call of the function that gave a wrong answer.

A check fails when the function has returned. A debugger after that sees the examination only; so
the question is put once more.
"""

from collections.abc import Callable
from typing import Any

import pytest
from compare import WrongAnswer

AGAIN = pytest.StashKey[Callable[[Callable[[Any], Any]], Any]]()
"""Puts an item's last question to the adapters once more, as a function of them replaces them."""


class AtTheCall:
    """Stands for pytest's own plugin, which all other exceptions are left to.

    Args:
        otherwise: That plugin.
    """

    def __init__(self, otherwise: Any) -> None:
        self.otherwise = otherwise

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        again = node.stash.get(AGAIN, None)
        if again is None or not isinstance(call.excinfo.value, WrongAnswer):
            self.otherwise.pytest_exception_interact(node=node, call=call, report=report)
            return
        print(
            f"\n{report.longreprtext}\n\nThe same call again. s: step into it, c: go on, q: quit."
        )
        again(Stopping)


class Stopping:
    """Adapters that stop in a debugger before each call."""

    def __init__(self, adapters: Any) -> None:
        self.adapters = adapters

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self.adapters, name)

        def ask(*given: Any, **named: Any) -> Any:
            pytest.set_trace()  # That is what --pdb asks for.
            return function(*given, **named)

        return ask
