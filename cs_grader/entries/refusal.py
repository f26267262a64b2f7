"""Why an entry is refused, and values that are computed once.

A check raises `RefusedError`. A value that cannot be had raises the same error at every look, so
that the first check that needs it is the one that names the reason.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from cs_grader.trusted.clean_copy import RefusedError

__all__ = ["NotJudgedError", "RefusedError", "once"]
T = TypeVar("T")


class NotJudgedError(Exception):
    """A check has nothing to go by; the message says what is missing."""


class once(Generic[T]):  # noqa: N801  used as a decorator, like cached_property
    """A property that is computed at the first look; its error, too, is kept and raised again."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = f"_{compute.__name__}"

    def __get__(self, owner: Any, kind: type | None = None) -> T:  # noqa: ANN401  of any class
        if self.name not in vars(owner):
            try:
                vars(owner)[self.name] = (self.compute(owner), None)
            except (RefusedError, NotJudgedError) as error:
                vars(owner)[self.name] = (None, error)
        value, error = vars(owner)[self.name]
        if error is not None:
            raise error
        return value
