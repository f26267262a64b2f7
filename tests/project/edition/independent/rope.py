"""Rotary position embedding.

Yours to write (docs/handout.md); examined by `make test ARGS="--problem NAME"`:

    rope                                Rotary position embedding (5 points)
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class RotaryPositionalEmbedding(nn.Module):
    """Rotate query or key vectors by an angle that grows with position.

    Su et al. 2021, sec. 3.4.2 (https://arxiv.org/abs/2104.09864). Coordinates 2i and 2i + 1 form a
    pair, turned by position / theta^(2i / d_head): the product of a query and a key then depends
    on their distance only.

    The cosines and sines are buffers, so they follow the model to its device, but they are not
    saved: they can be computed again. One instance serves all blocks of a model.

    Args:
        theta: Base of the wavelengths; the longest is about 2 pi theta positions.
        d_head: Size of the last axis, even.
        max_seq_len: Number of positions for which angles are kept.
        device: Where the tables live.

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
        if d_head % 2:
            raise ValueError(f"d_head={d_head} is odd: there is a coordinate without a partner")
        super().__init__()
        places = torch.arange(max_seq_len, dtype=torch.float64)
        speeds = [float(theta) ** (-2 * i / d_head) for i in range(d_head // 2)]
        angles = places[:, None] * torch.tensor(speeds, dtype=torch.float64)
        units = torch.stack([angles.cos(), angles.sin()], -1)
        # As bits: model.to(torch.bfloat16) changes every float and complex buffer, but no integers.
        self.register_buffer("_bits", units.view(torch.int64).to(device), persistent=False)

    def forward(
        self, x: Float[Tensor, "... seq {self.d_head}"], positions: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq {self.d_head}"]:
        """Rotate x.

        Args:
            x: Queries or keys, (..., seq, d_head), any float dtype; computed in at least float32.
            positions: Absolute positions, integers in [0, max_seq_len), (..., seq); its leading
                axes broadcast against those of x.

        Returns:
            Same shape and dtype as x.
        """
        units = torch.view_as_complex(self._bits[positions.long()].view(torch.float64))
        if x.dtype == torch.float64:
            pairs = x
        else:
            pairs, units = x.float(), units.to(torch.complex64)
        pairs = pairs.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
        turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * units)
        return turned.reshape(*turned.shape[:-2], x.shape[-1]).to(x.dtype)
