"""Rotary position embedding. Tested by `make test ARGS="-k rope"`."""

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn


class RotaryPositionalEmbedding(nn.Module):
    """Rotate query or key vectors by an angle that grows with position.

    Coordinates 2i and 2i + 1 form a pair, turned by position / theta^(2i / d_head) radians: the dot
    product of a query and a key then depends on their positions only through the difference of the
    two. Su et al. 2021, secs. 3.2.2 and 3.4.2 (https://arxiv.org/abs/2104.09864). There are no
    weights: one instance serves all blocks of a model.

    >>> rope = RotaryPositionalEmbedding(10_000.0, 2, 2)
    >>> rope(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))  # cos 1 and sin 1
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])

    Args:
        theta: Base of the angles. The first pair makes a full turn in 2 pi positions, the last in
            2 pi theta^(1 - 2 / d_head).
        d_head: Size of the last axis, even.
        max_seq_len: Number of positions; not checked, as no table of angles is kept.
        device: Not used either: it is for implementations that keep such a table.

    Raises:
        ValueError: d_head is odd.
    """

    def __init__(
        self,
        theta: float,
        d_head: int,
        max_seq_len: int,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if d_head % 2:
            raise ValueError(f"d_head={d_head} is odd: rotary embedding turns pairs of coordinates")
        self.theta, self.d_head, self.max_seq_len = theta, d_head, max_seq_len

    def forward(
        self, x: Float[Tensor, "... seq {self.d_head}"], positions: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq {self.d_head}"]:
        """Rotate x.

        Args:
            x: Queries or keys, (..., seq, d_head), any float dtype; computed in at least float32.
            positions: Absolute positions, integers in [0, max_seq_len), (..., seq); their leading
                axes broadcast against those of x.

        Returns:
            Same shape and dtype as x.
        """
        cos, sin = self.cos_and_sin(positions)
        x32 = x.to(torch.promote_types(x.dtype, torch.float32))
        even, odd = x32[..., 0::2], x32[..., 1::2]
        rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return rearrange(rotated, "... pair part -> ... (pair part)").to(x.dtype)

    def cos_and_sin(self, positions: Int[Tensor, "... seq"]) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of the angles at some positions, each (..., seq, d_head / 2)."""
        # In float64: at position 100,000 an angle in float32 may be off by 0.01.
        exponents = torch.arange(0, self.d_head, 2, dtype=torch.float64, device=positions.device)
        angles = positions.unsqueeze(-1) * self.theta ** (-exponents / self.d_head)
        return angles.cos().float(), angles.sin().float()
