"""The rooms beyond the book that a run may ask for: which are there, and which settings need them.

A run stands on the book alone. The student edition leaves out cs_basics/variants, cs_basics/fast
and cs_basics/run/parallel: without fast twins the book's own code runs, and a setting that needs
another room is refused. What such a room holds is imported where it is asked for.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

Thing = TypeVar("Thing")

PACKAGE = Path(__file__).parents[1]

NEEDS = {
    **dict.fromkeys(
        [
            *("norm", "norm_eps", "placement", "positions", "num_kv_heads", "head_dim", "ffn"),
            *("qk_norm", "value_residual", "tie_embeddings", "head_bias"),
            *("optimizer", "dropout", "order"),
        ],
        "variants",
    ),
    "parallel": "run/parallel",
}
"""The room that a setting needs with any value but its default."""


def has_room(name: str) -> bool:
    """Tell whether a folder of cs_basics is there."""
    return (PACKAGE / name / "__init__.py").is_file()


def beyond_the_book(section: Any) -> dict[str, object]:  # noqa: ANN401  a dataclass
    """Return the settings of a section of the configuration that need a room."""
    return {
        entry.name: getattr(section, entry.name)
        for entry in fields(section)
        if entry.name in NEEDS and getattr(section, entry.name) != entry.default
    }


def check_rooms(section: Any) -> None:  # noqa: ANN401  a dataclass
    """Refuse settings of a section whose room is left out.

    Raises:
        ValueError: There is such a setting.
    """
    for name, value in beyond_the_book(section).items():
        room = NEEDS[name]
        if not has_room(room):
            raise ValueError(
                f"{name}={value} needs cs_basics/{room}, which this edition leaves out"
            )


def accelerate(thing: Thing) -> Thing:
    """Return the fast twin of a class or a function of the book; itself where there is none."""
    if not has_room("fast"):
        return thing
    from cs_basics.fast import accelerate

    return accelerate(thing)
