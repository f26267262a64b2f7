"""An adapter that answers with one tensor: what it is asked, what is right, what is known of it."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from compare import (
    Array,
    expect_close,
    expect_gradients,
    expect_learned,
    noting,
)
from difficulties import CONTIGUOUS
from oracles import model as oracles
from probes.model import backward, forward, forward_in_turns
from trials import Answers, Trial, ask, once

Case = dict[str, Any]
"""The arguments of one call."""


class Adapter:
    """One function of adapters.py.

    Args:
        name: The function.
        draw: Draws a case that has nothing particular.
        right: What an oracle answers to a case.
        mistakes: What would be answered under each known mistake.
        cases: Draws the cases of the trials (trials.py), by their labels.
        tolerance: As for compare.expect_close.
        of_trials: The same for the trials, by label, where it is another one.
    """

    def __init__(
        self,
        name: str,
        draw: Callable[..., Case],
        right: Callable[[Case], Array],
        mistakes: Callable[[Case], Answers] = lambda _: {},
        cases: Callable[[np.random.Generator], Mapping[str, Case]] = lambda _: {},
        tolerance: float = 1e-5,
        of_trials: Callable[[str], float] | None = None,
    ) -> None:
        self.name, self.draw, self.right, self.mistakes = name, draw, right, mistakes
        self.cases, self.tolerance = cases, tolerance
        self.of_trials = of_trials or (lambda _: tolerance)
        self.trials = once(self.ask_all)

    def answers(self, case: Case, got: Array | None) -> Answers:
        """What would be answered under each known mistake, of which one is told by what came."""
        del got
        return self.mistakes(case)

    def ask_all(self, observe: Callable[..., Any]) -> Iterator[Trial]:
        for label, case in self.cases(np.random.default_rng(0)).items():
            yield ask(
                observe,
                label,
                self.right(case),
                functools.partial(self.answers, case),
                tolerance=self.of_trials(label),
                probe=forward,
                function=self.name,
                arguments=case,
            )

    def examine(
        self, observe: Callable[..., Any], case: Case, strided: Sequence[str] = (), **options: Any
    ) -> None:
        """Ask one question; options are those of compare.expect_close."""
        seen = observe(forward, function=self.name, arguments=case, strided=strided)

        explained = {
            "tolerance": self.tolerance,
            "mistakes": lambda: self.answers(case, seen["output"]["values"]),
            "trials": lambda: self.trials(observe),
        }
        expect_close(seen["output"], self.right(case), self.name, **explained | options)

    def examine_beyond(
        self, observe: Callable[..., Any], plain: Case, difference: str, case: Case, **options: Any
    ) -> None:
        """Ask in the plain way first, and then with a difficulty (difficulties.py)."""
        self.examine(observe, plain)
        with noting(difference):
            self.examine(observe, case, **options)

    def examine_strided(self, observe: Callable[..., Any], case: Case, *strided: str) -> None:
        self.examine_beyond(observe, case, CONTIGUOUS, case, strided=strided)

    def examine_in_turns(
        self, observe: Callable[..., Any], cases: Sequence[Case], hint: str
    ) -> None:
        seen = observe(forward_in_turns, function=self.name, cases=cases)
        name = f"{self.name}, called several times,"
        for case, one in zip(cases, seen, strict=True):
            expect_close(one["output"], self.right(case), name, hint=hint)

    def examine_gradients(
        self,
        observe: Callable[..., Any],
        case: Case,
        cotangent: Array,
        inputs: Sequence[str] = (),
        weights: Sequence[str] = (),
        **options: Any,
    ) -> Any:
        """Ask for gradients; options are those of compare.expect_gradients.

        Returns:
            What was seen.
        """
        seen = observe(
            backward,
            function=self.name,
            arguments=case,
            cotangent=cotangent,
            inputs=inputs,
            weights=weights,
        )
        expected, right = {}, self.right
        for name in (*inputs, *weights):

            def vary(z: Array, name: str = name) -> Array:
                return right({**case, name: z})

            expected[name] = oracles.gradient(vary, case[name], cotangent)
        expect_gradients(seen["gradients"], expected, self.name, **options)
        if weights:
            expect_learned(seen, [case[name] for name in weights], self.name)
        return seen

    def examine_slopes(
        self, observe: Callable[..., Any], rng: np.random.Generator, case: Case, cotangent: Array
    ) -> None:
        """Ask for the gradient of every weight, along one random direction each.

        Both are divided by the gradient's length and 1 is added, because along a random direction
        a gradient may be near zero.
        """
        weights, right = case["weights"], self.right
        seen = observe(
            backward,
            function=self.name,
            arguments=case,
            cotangent=cotangent,
            weights=list(weights),
        )
        expect_learned(seen, weights.values(), self.name)
        observed, expected = seen["gradients"], {}
        for key, weight in weights.items():
            direction = rng.standard_normal(weight.shape)

            def vary(z: Array, key: str = key) -> Array:
                return right({**case, "weights": {**weights, key: z}})

            along = oracles.slope(vary, weight, direction, cotangent)
            expected[key] = np.asarray(along)
            gradient = observed[key]["values"]
            if gradient is not None:
                scale = np.linalg.norm(gradient) * np.linalg.norm(direction) + 1e-30
                got = np.asarray(1 + np.sum(gradient * direction) / scale)
                observed[key] = {"dtype": observed[key]["dtype"], "values": got}
                expected[key] = np.asarray(1 + along / scale)
        expect_gradients(observed, expected, self.name, tolerance=1e-4)
