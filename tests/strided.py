"""Call an adapter with tensors that are not contiguous, and say so if only that breaks it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compare import noting
from probes.model import forward


def forward_strided(
    observe: Callable[..., Any], function: str, case: Mapping[str, Any], names: Sequence[str]
) -> Any:
    """Observe `forward` with these arguments lying in memory the other way round."""
    arguments = {"function": function, "arguments": case}
    with noting(
        "on contiguous tensors; view() needs those, reshape() and rearrange() take any",
        control=lambda: observe(forward, **arguments),
    ):
        return observe(forward, **arguments, strided=names)
