"""The answers of another contract: those of a solution that was written for other conventions."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from contract import DEFAULT, Contract, current, under
from oracles.model import embedding_sigma


def other_contracts(problem: str) -> tuple[str, list[Contract]]:
    """What a solution of another contract is called, and the contracts that it may be written for.

    Each convention that is not the default one may be taken back by itself, or all of them
    together. If all are the default ones, there is no other contract.
    """
    here = current()
    # Whoever has other names for arguments gives no answer at all.
    names = [name for name in here.changed(problem) if name != "argument_names"]
    taken_back = [[name] for name in names] + ([names] if len(names) > 1 else [])
    theirs = [replace(here, **{n: getattr(DEFAULT, n) for n in chosen}) for chosen in taken_back]
    said = ", ".join(f"{theirs[-1].says(name)} (here {here.says(name)})" for name in names)
    return f"the code solves another contract: there {said}", theirs


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
            ours = mistakes(*args, **kwargs)
            sentence, contracts = other_contracts(problem)
            if not contracts:
                return ours
            theirs: list[Any] = []
            for there in contracts:
                with under(there):
                    theirs.append(oracle(*args, **kwargs))
            # A mistake that answers as another contract does is left out: it is that contract.
            left = {
                mistake: answer
                for mistake, answer in ours.items()
                if not any(is_alike(answer, other) for other in theirs)
            }
            return {sentence: theirs if len(theirs) > 1 else theirs[0], **left}

        return answers

    return decorate


def is_alike(answer: Any, other: Any) -> bool:
    """Whether a mistake, or one of the forms that it has, answers as another contract does."""
    if isinstance(other, dict):
        return all(is_alike(answer.get(name), value) for name, value in other.items())
    if isinstance(other, list | tuple):
        is_list = isinstance(answer, list | tuple)
        return is_list and len(answer) == len(other) and all(map(is_alike, answer, other))
    if not isinstance(other, np.ndarray):
        return bool(answer == other)
    options = answer if isinstance(answer, list) else [answer]
    return any(
        np.shape(one) == other.shape and np.allclose(one, other, rtol=1e-9, equal_nan=True)
        for one in options
    )


def embedding_sigmas() -> dict[str, float]:
    """The standard deviation that the embedding starts from in another contract."""
    sentence, contracts = other_contracts("embedding")
    if not contracts:
        return {}
    with under(contracts[-1]):
        return {sentence: embedding_sigma()}
