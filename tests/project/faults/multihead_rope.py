"""Multi-head self-attention with RoPE."""

import torch
from torch import nn

from faults.bank import REFERENCE, fault, variant
from faults.multihead import only_weights, split_by_reshape
from faults.parts import (
    angles,
    attention,
    causal,
    multihead,
    projections,
    rotate,
    rotate_halves,
    unchanged,
)

WITH_ROPE = "multihead_self_attention_with_rope"


class Rotation:
    """Rotates by the token positions, which a fault may get wrong in one respect."""

    def __init__(self, positions, theta, d_head):
        self.positions, self.theta, self.d_head = positions, theta, d_head

    def __call__(self, z):
        """Rotate (..., heads, seq, d_head)."""
        return rotate(z, angles(self.positions[..., None, :], self.d_head, self.theta))


def with_rope(changes=lambda _: {}):
    """Make an adapter of parts.multihead; `changes(rotation)` exchanges some of its parts."""

    def run(d_model, num_heads, theta, in_features, token_positions=None, **given):
        positions = token_positions
        if positions is None:
            positions = torch.arange(in_features.shape[-2])
        turn = Rotation(positions, theta, d_model // num_heads)
        parts = {"turn_q": turn, "turn_k": turn} | changes(turn)
        return multihead(in_features, projections(**only_weights(given)), num_heads, **parts)

    return run


def both_turned_by(rotation):
    """Rotate queries and keys by `rotation(z, turn)`, `turn` being the right rotation."""

    def changes(turn):
        return dict.fromkeys(("turn_q", "turn_k"), lambda z: rotation(z, turn))

    return with_rope(changes)


fault(WITH_ROPE, "the values are rotated too", "values are rotated")(
    with_rope(lambda turn: {"turn_v": turn})
)
fault(WITH_ROPE, "RoPE is not applied", "RoPE is not applied")(both_turned_by(lambda z, _: z))
fault(WITH_ROPE, "only the queries are rotated", "only the queries")(
    with_rope(lambda _: {"turn_k": unchanged})
)
fault(WITH_ROPE, "only the keys are rotated", "only the keys")(
    with_rope(lambda _: {"turn_q": unchanged})
)
fault(WITH_ROPE, "the positions are ignored", "token_positions are ignored")(
    both_turned_by(
        lambda z, turn: rotate(z, angles(torch.arange(z.shape[-2]), turn.d_head, turn.theta))
    )
)
fault(WITH_ROPE, "the pairs are half a head apart", "(i, i + d_k/2)")(
    both_turned_by(
        lambda z, turn: rotate_halves(
            z, angles(turn.positions[..., None, :], turn.d_head, turn.theta)
        )
    )
)
fault(
    WITH_ROPE,
    "positions of a batch have no axis for the heads",
    ("no axis for the heads", "with one row of positions for all"),
)(both_turned_by(lambda z, turn: rotate(z, angles(turn.positions, turn.d_head, turn.theta))))
fault(
    WITH_ROPE, "the axis for the heads is always the second", "with one row of positions for all"
)(
    both_turned_by(
        lambda z, turn: rotate(
            z,
            angles(
                turn.positions.unsqueeze(1) if turn.positions.ndim > 1 else turn.positions,
                turn.d_head,
                turn.theta,
            ),
        )
    )
)
fault(WITH_ROPE, "the head's number stands in for the position", "number of the head")(
    both_turned_by(
        lambda z, turn: rotate(
            z, angles(torch.arange(z.shape[-3])[:, None], turn.d_head, turn.theta)
        )
    )
)
fault(WITH_ROPE, "the angles are those of d_model", "those of d_model")(
    both_turned_by(
        lambda z, turn: rotate(
            z,
            angles(turn.positions[..., None, :], z.shape[-1] * z.shape[-3], turn.theta)[
                ..., : z.shape[-1] // 2
            ],
        )
    )
)
fault(WITH_ROPE, "keys turn against the queries", "opposite directions")(
    with_rope(
        lambda turn: {
            "turn_k": lambda z: rotate(
                z, -angles(turn.positions[..., None, :], turn.d_head, turn.theta)
            )
        }
    )
)
fault(WITH_ROPE, "there is no causal mask", "no causal mask")(
    with_rope(lambda _: {"mask": lambda _: None})
)
fault(WITH_ROPE, "theta is always 10000", "theta is ignored")(
    both_turned_by(
        lambda z, turn: rotate(z, angles(turn.positions[..., None, :], turn.d_head, 1e4))
    )
)
fault(WITH_ROPE, "the scores are not scaled", "not scaled")(with_rope(lambda _: {"scale": 1.0}))
fault(WITH_ROPE, "the heads are split by a reshape", "split by a reshape")(
    with_rope(lambda _: {"split": split_by_reshape})
)


@fault(WITH_ROPE, "RoPE is applied before the heads are split", "before the heads")
@with_rope
def before_split(turn):
    def whole(z):
        return rotate(z, angles(turn.positions, z.shape[-1], turn.theta))

    return {"turn_q": unchanged, "turn_k": unchanged, "before_split": whole}


@fault(
    WITH_ROPE,
    "positions may see those with a smaller position, not those before them",
    "mask compares token_positions",
)
@with_rope
def masked_by_position(turn):
    positions = turn.positions
    mask = positions[..., None] >= positions[..., None, :]
    return {"mask": lambda _: mask[..., None, :, :] if positions.ndim > 1 else mask}


@fault(WITH_ROPE, "token_positions cannot be left out", "they may be left out, too")
def positions_required(token_positions, **given):
    return REFERENCE.run_multihead_self_attention_with_rope(
        token_positions=token_positions, **given
    )


@fault(WITH_ROPE, "token_positions cannot be None", "with token_positions 0, 1, 2")
def positions_not_none(**given):
    if "token_positions" in given:
        given["token_positions"] = torch.as_tensor(given["token_positions"])
    return with_rope()(**given)


variant(WITH_ROPE, "written out")(with_rope())


class Turning(nn.Module):
    """RoPE by a table in a buffer."""

    def __init__(self, angle):
        super().__init__()
        self.register_buffer("angle", angle, persistent=False)

    def forward(self, x, positions):
        return rotate(x, self.angle[positions[..., None, :]])


class GivenRope(nn.Module):
    """Attention that is given its RoPE when it is called."""

    def __init__(self, weights, num_heads):
        super().__init__()
        self.weights, self.num_heads = nn.ParameterList(weights), num_heads

    def forward(self, x, positions, ropes):
        length = x.shape[-2]
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()

        def turn(z):
            return ropes[0](z, positions)

        weights = list(self.weights)
        return multihead(x, weights, self.num_heads, mask=lambda _: mask, turn_q=turn, turn_k=turn)


@variant(WITH_ROPE, "the module of RoPE is an argument, in a list")
def rope_as_an_argument(
    d_model, num_heads, max_seq_len, theta, in_features, token_positions=None, **given
):
    positions = token_positions
    if positions is None:
        positions = torch.arange(in_features.shape[-2])
    rope = Turning(angles(torch.arange(max_seq_len), d_model // num_heads, theta))
    module = GivenRope(projections(**only_weights(given)), num_heads)
    return module(in_features, positions, [rope])


def turned_by_complex_numbers(z, turn):
    angle = angles(turn.positions[..., None, :], turn.d_head, turn.theta)
    pairs = torch.view_as_complex(z.float().reshape(*z.shape[:-1], -1, 2).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle))
    return turned.flatten(-2).to(z.dtype)


variant(WITH_ROPE, "RoPE by complex numbers")(both_turned_by(turned_by_complex_numbers))
# Only differences of positions count in attention.
variant(WITH_ROPE, "positions count from 1")(
    both_turned_by(
        lambda z, turn: rotate(z, angles(turn.positions[..., None, :] + 1, turn.d_head, turn.theta))
    )
)


@variant(WITH_ROPE, "RoPE on all heads at once, before the axes are moved")
def rotated_before_the_axes_move(
    d_model, num_heads, theta, in_features, token_positions=None, **given
):
    x, positions = in_features, token_positions
    if positions is None:
        positions = torch.arange(x.shape[-2])
    *inward, output = projections(**only_weights(given))
    heads = (*x.shape[:-1], num_heads, d_model // num_heads)
    q, k, v = ((x @ weight.T).reshape(heads) for weight in inward)
    angle = angles(positions, d_model // num_heads, theta)[..., None, :]
    q, k = rotate(q, angle), rotate(k, angle)
    q, k, v = (z.transpose(-2, -3) for z in (q, k, v))
    mixed = attention(q, k, v, causal(x.shape[-2])).transpose(-2, -3)
    return mixed.reshape(x.shape) @ output.T
