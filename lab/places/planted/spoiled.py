"""Honest work spoiled from outside: which of its lines are accused of what others did?

Each variant of the bank is right. A wrapper around it spoils what goes in or what comes out, so
that the answer is wrong and none of the variant's lines is to blame.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from faults.bank import Case, load

from lab import places
from lab.places import cases

INPUTS = ("in_features", "inputs", "Q", "in_query_or_key")


class Accusation(NamedTuple):
    """What was said of one spoiled variant."""

    title: str
    accused: list[tuple[str, int]]
    """Lines that are not the wrapper's."""
    is_found: bool
    """Whether the wrapper's was named first."""
    said: str


def spoil_output(implementation: Callable[..., Any]) -> Callable[..., Any]:
    def adapter(**given: Any) -> Any:
        answer = implementation(**given)
        return answer * 1.1 + 0.2

    return adapter


def spoil_input(implementation: Callable[..., Any]) -> Callable[..., Any]:
    def adapter(**given: Any) -> Any:
        for name in INPUTS:
            if name in given:
                given[name] = given[name] * 1.3
        return implementation(**given)

    return adapter


def spoil_steps(implementation: Callable[..., Any]) -> Callable[..., Any]:
    def get_adamw_cls() -> Any:
        class Spoiled(implementation()):
            def step(self, closure: Any = None) -> Any:
                super().step(*([] if closure is None else [closure]))
                with torch.no_grad():
                    for group in self.param_groups:
                        for parameter in group["params"]:
                            parameter.add_(0.1)

        return Spoiled

    return get_adamw_cls


def spoil_gradients(implementation: Callable[..., Any]) -> Callable[..., Any]:
    def run_gradient_clipping(parameters: Any, max_l2_norm: float) -> None:
        held = list(parameters)
        implementation(parameters=held, max_l2_norm=max_l2_norm)
        for parameter in held:
            parameter.grad.mul_(1.5)

    return run_gradient_clipping


def spoil_rate(implementation: Callable[..., Any]) -> Callable[..., Any]:
    def run_get_lr_cosine_schedule(**given: Any) -> float:
        rate = implementation(**given)
        return rate * 1.1 + 0.01

    return run_get_lr_cosine_schedule


def ways(case: Case) -> list[Callable[..., Any]]:
    (name,) = case.stand_ins if len(case.stand_ins) == 1 else ("",)
    if name in cases.MAKERS:
        has_input = name not in ("run_embedding", "run_transformer_lm")
        return [spoil_output, *([spoil_input] if has_input else [])]
    return {
        "get_adamw_cls": [spoil_steps],
        "run_gradient_clipping": [spoil_gradients],
        "run_get_lr_cosine_schedule": [spoil_rate],
    }.get(name, [])


ASKED = {
    "get_adamw_cls": {"groups": [], "options": {}, "gradients": []},
    "run_gradient_clipping": {"gradients": [], "max_l2_norm": 1.0},
    "run_get_lr_cosine_schedule": {"iterations": [], "settings": {}},
}


def accusations(every: int = 1) -> Iterator[Accusation]:
    """Spoil each variant, or every so many of them, and see which lines are accused."""
    for case in [case for case in load() if not case.is_fault][::every]:
        for way in ways(case):
            ((name, implementation),) = case.stand_ins.items()
            adapters = SimpleNamespace(**{name: way(implementation)})

            def run(probe: Callable[..., Any], adapters: Any = adapters, **given: Any) -> Any:
                torch.manual_seed(0)
                np.random.seed(0)  # noqa: NPY002
                return probe(adapters, **given)

            finding = places.find(run, ASKED.get(name, {"function": name}))
            yield judged(f"{case.title}, {way.__name__}", finding)


def judged(title: str, finding: Any) -> Accusation:
    if finding is None:
        return Accusation(title, [], is_found=False, said="")
    wrong = [(line.file, line.number) for line in finding.accused()]
    others = [one for one in wrong if one[0] != __file__]
    return Accusation(title, others, wrong[0][0] == __file__, finding.paragraph())
