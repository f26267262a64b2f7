"""Shapes of what the norms here take and return."""

from jaxtyping import Float
from torch import Tensor

Vectors = Float[Tensor, "... d"]
Gain = Float[Tensor, " d"]
Reciprocals = Float[Tensor, "... 1"]
"""Of the root mean square of each vector."""
