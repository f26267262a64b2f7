"""The answers of another contract: those of a solution that was written for other conventions."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from contract import DEFAULT, Contract, current, under
from oracles.model import embedding_sigma


def others(problem: str) -> Iterator[tuple[str, Contract]]:
    """Each convention of a problem that is not the default one, taken back; and all of them."""
    here = current()
    names = here.changed(problem)
    for chosen in [[name] for name in names] + ([names] if len(names) > 1 else []):
        there = replace(here, **{name: getattr(DEFAULT, name) for name in chosen})
        said = " and ".join(there.says(name) for name in chosen)
        wanted = " and ".join(here.says(name) for name in chosen)
        yield f"the code solves another contract: there {said}, here {wanted}", there


def with_other_contracts(
    problem: str, oracle: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the mistakes of a problem: last year's solution is one of them.

    Args:
        problem: As the rubric names it.
        oracle: Takes what the mistakes take, or less of it.
    """

    def decorate(mistakes: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(mistakes)
        def answers(*args: Any, **kwargs: Any) -> Any:
            found = {}
            for sentence, there in others(problem):
                with under(there):
                    found[sentence] = oracle(*args, **kwargs)
            # These first: what is also some mistake under this contract is no accident.
            return found | mistakes(*args, **kwargs)

        return answers

    return decorate


def embedding_sigmas() -> dict[str, float]:
    """The standard deviations that the embedding starts from in other contracts."""
    found = {}
    for sentence, there in others("embedding"):
        with under(there):
            found[sentence] = embedding_sigma()
    return found
