"""Causal self-attention over several heads. Tested by `make test ARGS="-k multihead"`."""

from collections.abc import Callable

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.fast.flash_attention import tiled_causal_attention
from cs_basics.functional import scaled_dot_product_attention
from cs_basics.layers import Linear, stack_linears, store_as_parts
from cs_basics.norms import RMSNorm
from cs_basics.rope import RotaryPositionalEmbedding, halves_order
from cs_basics.run.config import resolve_num_kv_heads


class KVCache:
    """The keys and values of the positions that one attention layer has already seen.

    Filled in place, so that generating a token costs one position instead of the whole context.

    Args:
        batch_size: Number of sequences that grow side by side.
        num_heads: Heads of keys and values of the layer.
        max_seq_len: Positions there is room for.
        d_head: Size of a head.
        device: Where the cache lives.
        dtype: Float type of keys and values.
    """

    def __init__(
        self,
        batch_size: int,
        num_heads: int,
        max_seq_len: int,
        d_head: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = (batch_size, num_heads, max_seq_len, d_head)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.length = 0

    def next_positions(self, num_new: int) -> Int[Tensor, "... new"]:
        """Return the positions of the tokens to come; they broadcast against every head."""
        return torch.arange(self.length, self.length + num_new, device=self.keys.device)

    def append(
        self,
        k: Float[Tensor, "batch heads new d_head"],
        v: Float[Tensor, "batch heads new d_head"],
    ) -> tuple[Float[Tensor, "batch heads seen d_head"], Float[Tensor, "batch heads seen d_head"]]:
        """Store new keys and values and return all of them, old ones first.

        Raises:
            ValueError: There is no room for them.
        """
        end = self.length + k.shape[-2]
        if end > self.keys.shape[-2]:
            raise ValueError(f"{end} positions do not fit a cache of {self.keys.shape[-2]}")
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class SlotKVCache(KVCache):
    """A cache whose shapes never change and whose rows may hold sequences of different lengths.

    KVCache returns one position more each time, which a compiler would have to compile anew. Here
    every token is told its place, and always all places are returned: those that are not written
    yet lie behind the token and are masked like the future.

    Args:
        keys: Keys of every place, (batch, heads, max_seq_len, d_head); written in place.
        values: Values of every place, likewise.
        positions: Where the new token of each row goes, and the ones after it, (batch, new).
    """

    def __init__(
        self,
        keys: Float[Tensor, "batch heads max_seq_len d_head"],
        values: Float[Tensor, "batch heads max_seq_len d_head"],
        positions: Int[Tensor, "batch new"],
    ) -> None:
        self.keys, self.values, self.positions = keys, values, positions
        self.length = 0

    def next_positions(self, num_new: int) -> Int[Tensor, "... new"]:
        """Return the positions of the tokens to come, (batch, 1, new)."""
        assert self.positions.shape[-1] == num_new
        return self.positions.unsqueeze(1)

    def append(
        self,
        k: Float[Tensor, "batch heads new d_head"],
        v: Float[Tensor, "batch heads new d_head"],
    ) -> tuple[Float[Tensor, "batch heads seen d_head"], Float[Tensor, "batch heads seen d_head"]]:
        """Store new keys and values at their positions and return those of every place."""
        rows = torch.arange(k.shape[0], device=k.device).unsqueeze(1)
        self.keys[rows, :, self.positions] = k.transpose(1, 2).to(self.keys.dtype)
        self.values[rows, :, self.positions] = v.transpose(1, 2).to(self.values.dtype)
        return self.keys, self.values


class CausalSelfAttention(nn.Module):
    """Let every position look at itself and the ones before it, with several heads side by side.

    Vaswani et al. 2017, sec. 3.2.2 (https://arxiv.org/abs/1706.03762), without biases. The rows of
    the query, key and value weights are grouped by head.

    With fewer heads of keys and values than of queries, each serves several neighbouring ones
    (grouped-query attention, Ainslie et al. 2023, sec. 2.2, https://arxiv.org/abs/2305.13245): the
    cache and the weights shrink, the products stay the same.

    Args:
        d_model: Size of the last axis of input and output.
        num_heads: Number of heads, a divisor of d_model.
        rope: Rotates queries and keys by their positions; None leaves the order of the earlier
            positions invisible.
        device: Where the weights live.
        dtype: Float type of the weights.
        qk_norm: RMSNorm over every head of the queries and keys before the rotation, so that no
            score can outgrow sqrt(d_head) times the gains (Henry et al. 2020, sec. 2.3,
            https://arxiv.org/abs/2010.04245, with RMSNorm for their l2 norm).
        is_tiled: Attend tile by tile, which needs less memory (tiled_attention.py).
        num_kv_heads: Heads of keys and values, a divisor of num_heads; None: num_heads.

    Raises:
        ValueError: d_model is not divisible by num_heads, or num_heads not by num_kv_heads.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        rope: RotaryPositionalEmbedding | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        qk_norm: bool = False,
        is_tiled: bool = False,
        num_kv_heads: int | None = None,
    ) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        self.num_heads, self.is_tiled = num_heads, is_tiled
        self.num_kv_heads = resolve_num_kv_heads(num_heads, num_kv_heads)
        self.d_head = d_model // num_heads
        d_kv = self.num_kv_heads * self.d_head
        self.q_proj = Linear(d_model, d_model, device, dtype)
        self.k_proj = Linear(d_model, d_kv, device, dtype)
        self.v_proj = Linear(d_model, d_kv, device, dtype)
        self.output_proj = Linear(d_model, d_model, device, dtype)
        self.rope = rope
        self.q_norm, self.k_norm = (
            # An empty Sequential returns what it is given.
            RMSNorm(self.d_head, device=device, dtype=dtype) if qk_norm else nn.Sequential()
            for _ in range(2)
        )

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        """Attend.

        Args:
            x: One vector per position, (..., seq, d_model).
            positions: Absolute positions for the rotation, (..., seq); None counts on from what
                the cache holds, or from 0.
            cache: Keys and values of earlier positions, extended in place.

        Returns:
            Same shape as x.
        """
        seq_len = x.shape[-2]
        q, k, v = (
            rearrange(part, "... seq (heads d) -> ... heads seq d", d=self.d_head)
            for part in self.project(x)
        )
        q, k = self.q_norm(q), self.k_norm(k)
        if cache is None:
            rows = torch.arange(seq_len, device=x.device)
        else:
            rows = cache.next_positions(seq_len)
        if self.rope is not None:
            # The same angles for every head, hence the extra axis.
            positions = rows if positions is None else positions.unsqueeze(-2)
            q, k = self.rotate(q, positions), self.rotate(k, positions)
        if cache is not None:
            k, v = cache.append(k, v)
        if self.num_kv_heads < self.num_heads:
            # Heads of queries that share keys and values are neighbours.
            group = self.num_heads // self.num_kv_heads
            k, v = (
                repeat(part, "... heads seq d -> ... (heads group) seq d", group=group)
                for part in (k, v)
            )
        if self.is_tiled and cache is None:
            attended = tiled_causal_attention(q, k, v)
        else:
            columns = torch.arange(k.shape[-2], device=x.device)
            is_visible = columns <= rows.unsqueeze(-1)
            attended = scaled_dot_product_attention(q, k, v, is_visible)
        return self.output_proj(rearrange(attended, "... heads seq d -> ... seq (heads d)"))

    def project(
        self, x: Float[Tensor, "... seq d_model"]
    ) -> tuple[
        Float[Tensor, "... seq d_model"],
        Float[Tensor, "... seq d_kv"],
        Float[Tensor, "... seq d_kv"],
    ]:
        """Return the queries, keys and values of all heads, side by side."""
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def rotate(
        self, x: Float[Tensor, "... seq d_head"], positions: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq d_head"]:
        """Return queries or keys, turned by their positions."""
        assert self.rope is not None
        return self.rope(x, positions)

    def extra_repr(self) -> str:
        """Name the sizes when the module is printed."""
        return f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}"


class MergedCausalSelfAttention(CausalSelfAttention):
    """The same with one stacked matrix for queries, keys and values: x is read once.

    Its rows are in the order that makes the rotation fast (`rotate_halves`). Saves and loads the
    state dict of the separate form, q_proj, k_proj and v_proj. Arguments and errors as there.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        rope: RotaryPositionalEmbedding | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        qk_norm: bool = False,
        is_tiled: bool = False,
        num_kv_heads: int | None = None,
    ) -> None:
        super().__init__(
            d_model,
            num_heads,
            rope,
            device,
            dtype,
            qk_norm=qk_norm,
            is_tiled=is_tiled,
            num_kv_heads=num_kv_heads,
        )
        parts = {"q_proj": self.q_proj, "k_proj": self.k_proj, "v_proj": self.v_proj}
        self.rows = {name: part.d_out for name, part in parts.items()}
        self.qkv_proj = stack_linears(list(parts.values()))
        del self.q_proj, self.k_proj, self.v_proj
        order = torch.arange(sum(self.rows.values()), device="cpu")
        # The gains of a norm of queries and keys are in the order of the definition.
        self.has_qk_norm = qk_norm
        self.has_halves = rope is not None and not qk_norm
        self.kernel: Callable[..., Tensor] | None = None
        """Rotates and attends at once, in place of all that comes after the projection
        (`rotated_causal_attention`, attention_kernel.py). To be set from outside."""
        if self.has_halves:
            rotated = self.rows["q_proj"] + self.rows["k_proj"]
            order[:rotated] = halves_order(rotated, self.d_head)
            self.qkv_proj.weight = nn.Parameter(self.qkv_proj.weight.detach()[order])
        store_as_parts(self, "qkv_proj", self.rows, order)

    def forward(
        self,
        x: Float[Tensor, "... seq d_model"],
        positions: Int[Tensor, "... seq"] | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "... seq d_model"]:
        """Attend; arguments as in the separate form."""
        if self.kernel is None or positions is not None or cache is not None:
            return super().forward(x, positions, cache)
        angles = (None, None) if self.rope is None else (self.rope.cos, self.rope.sin)
        heads = (self.num_heads, self.num_kv_heads)
        return self.output_proj(self.kernel(self.qkv_proj(x), *angles, *heads))

    def project(
        self, x: Float[Tensor, "... seq d_model"]
    ) -> tuple[
        Float[Tensor, "... seq d_model"],
        Float[Tensor, "... seq d_kv"],
        Float[Tensor, "... seq d_kv"],
    ]:
        """Return the queries, keys and values of all heads, side by side."""
        q, k, v = self.qkv_proj(x).split(list(self.rows.values()), dim=-1)
        return q, k, v

    def rotate(
        self, x: Float[Tensor, "... seq d_head"], positions: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq d_head"]:
        """Return queries or keys, turned by their positions."""
        assert self.rope is not None
        return self.rope.rotate_halves(x, positions) if self.has_halves else self.rope(x, positions)
