"""What a fault is, and how the bank is filled."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import adapters

ADAPTERS = {
    "linear": ("run_linear",),
    "embedding": ("run_embedding",),
    "silu": ("run_silu",),
    "positionwise_feedforward": ("run_swiglu",),
    "rmsnorm": ("run_rmsnorm",),
    "softmax": ("run_softmax",),
    "cross_entropy": ("run_cross_entropy",),
    "scaled_dot_product_attention": ("run_scaled_dot_product_attention",),
    "rope": ("run_rope",),
    "multihead_self_attention": ("run_multihead_self_attention",),
    "multihead_self_attention_with_rope": ("run_multihead_self_attention_with_rope",),
    "transformer_block": ("run_transformer_block",),
    "transformer_lm": ("run_transformer_lm",),
    "adamw": ("get_adamw_cls",),
    "gradient_clipping": ("run_gradient_clipping",),
    "learning_rate_schedule": ("run_get_lr_cosine_schedule",),
    "data_loading": ("run_get_batch",),
    "checkpointing": ("run_save_checkpoint", "run_load_checkpoint"),
    "tokenizer": ("get_tokenizer",),
    "train_bpe": ("run_train_bpe",),
}
FILES = (
    "layers",
    "modules",
    "functions",
    "attention",
    "multihead",
    "multihead_rope",
    "transformer",
    "optimizers",
    "schedules",
    "data",
    "tokenizers",
    "merges",
    "foreign.known",
    "foreign.unknown",
)

# The right adapters, for faults that wrap one; bound here, before any fault takes their place.
REFERENCE = SimpleNamespace(
    **{name: getattr(adapters, name) for names in ADAPTERS.values() for name in names}
)


@dataclass(frozen=True)
class Case:
    """One implementation that the examination is tried on."""

    problem: str
    name: str
    """A fault's says what is wrong."""
    stand_ins: dict[str, Callable[..., Any]] = field(repr=False)
    """What takes the place of which adapter."""
    is_fault: bool
    diagnosis: tuple[str, ...] = ()
    """Words of the explanations that are right, one of which should be given; (): none is known."""

    @property
    def title(self) -> str:
        return f"{self.problem}: {self.name}"

    @property
    def problems(self) -> tuple[str]:
        return (self.problem,)


BANK: list[Case] = []


def fault(problem: str, name: str, diagnosis: str | tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Declare that the decorated stand-in is wrong, in the way that `name` says."""
    words = (diagnosis,) if isinstance(diagnosis, str) else diagnosis
    return _declare(problem, name, is_fault=True, diagnosis=words)


def variant(problem: str, name: str) -> Callable[[Any], Any]:
    """Declare that the decorated stand-in is right, in a way of its own."""
    return _declare(problem, name, is_fault=False)


def _declare(problem: str, name: str, **rest: Any) -> Callable[[Any], Any]:
    def declare(implementation: Any) -> Any:
        BANK.append(Case(problem, name, _stand_ins(problem, implementation), **rest))
        return implementation

    return declare


def _stand_ins(problem: str, implementation: Any) -> dict[str, Callable[..., Any]]:
    """A checkpoint fault is a class with a method for each adapter it replaces; else there is one.

    An optimizer class is what its adapter returns; anything else is called in the adapter's place.
    """
    names = ADAPTERS[problem]
    if problem == "checkpointing":
        return {
            name: getattr(implementation, name) for name in names if name in vars(implementation)
        }
    if problem == "adamw":
        return {names[0]: lambda: implementation}
    return {names[0]: implementation}


def chosen(only: Sequence[str] = (), problems: Sequence[str] = ()) -> list[Case]:
    """The cases of these problems with these titles or parts of a title; nothing given: all."""
    cases = load()
    titles = {case.title for case in cases}

    def is_meant(text: str, title: str) -> bool:
        return text == title if text in titles else text in title

    return [
        case
        for case in cases
        if (not problems or case.problem in problems)
        and (not only or any(is_meant(text, case.title) for text in only))
    ]


def load() -> list[Case]:
    """Import every file of the bank and return what they declare."""
    for name in FILES:
        importlib.import_module(f"faults.{name}")
    return BANK
