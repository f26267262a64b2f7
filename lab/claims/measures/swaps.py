"""Parts that no configuration names, put in the place of a model's own while it is built."""

import contextlib
from collections.abc import Generator
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

import cs_basics.run.model
import cs_basics.variants.model
from cs_basics.layers import Linear
from cs_basics.norms import RMSNorm
from lab.claims.measures.forms import KINDS, form


class Formed(RMSNorm):
    """Compute a form in the place of RMSNorm."""

    def __init__(self, *arguments: Any, computes: str) -> None:  # noqa: ANN401
        super().__init__(*arguments)
        self.function = form(computes)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the form gives."""
        return self.function(x, self.weight, self.eps)


class Recurrent(nn.Module):
    """In the place of attention, a recurrent layer: h_t = tanh(norm(W x_t + U h_(t - 1))).

    The norm stands where Zhang and Sennrich 2019, sec. 6, and Ba, Kiros and Hinton 2016, sec. 3.1,
    have it. Called with the arguments of attention.
    """

    def __init__(
        self, d_model: int, _heads: int, _rope: object, *_where: object, kind: str, **_: object
    ) -> None:
        super().__init__()
        self.read, self.keep = (Linear(d_model, d_model) for _ in range(2))
        self.norm = KINDS[kind](d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Return the states, (batch, positions, d_model)."""
        state, states = torch.zeros_like(x[..., 0, :]), list[Tensor]()
        for read in self.read(x).unbind(-2):
            state = torch.tanh(self.norm(read + self.keep(state)))
            states.append(state)
        return torch.stack(states, -2)


SWAPS: dict[str, tuple[str, Any]] = {
    "no gain": ("NORMS", {"rmsnorm": partial(Formed, computes="rms_norm(x, gain.detach(), eps)")}),
    "centring alone": ("NORMS", {"rmsnorm": partial(Formed, computes="centred(x) * gain")}),
    "gain alone": ("NORMS", {"rmsnorm": partial(Formed, computes="x * gain")}),
    "recurrent": ("CausalSelfAttention", partial(Recurrent, kind="RMSNorm")),
    "recurrent, LayerNorm": ("CausalSelfAttention", partial(Recurrent, kind="LayerNorm")),
    "recurrent, no norm": ("CausalSelfAttention", partial(Recurrent, kind="none")),
}
"""A name of cs_basics.variants.model, and what stands there instead (of a table: entries)."""


@contextlib.contextmanager
def swapped(name: str) -> Generator[None]:
    """Build models with a part of SWAPS; "" changes nothing."""
    if not name:
        yield
        return
    place, part = SWAPS[name]
    model = cs_basics.variants.model
    if isinstance(part, dict):
        part = {**getattr(model, place), **part}
    # The book's own constructor, which a plain configuration gets, knows nothing of these parts.
    everything = patch.object(cs_basics.run.model, "beyond_the_book", return_value={"norm": name})
    with everything, patch.object(model, place, part):
        yield
