"""Continue several texts at once, a compiled step for each token. Read generate.py before.

What costs time when a small model writes is not arithmetic: it is the weights, which every token
reads once, and the calls, some hundred of them from Python for a token. So

- several texts grow side by side: the weights are read once for a token of each of them;
- the whole step, from the embedding to the drawn token, is one compiled function;
- its shapes never change (SlotKVCache), so that it is compiled once; only of the places for keys
  and values it is told how many to look at, a multiple of PLACES, and compiled for any number;
- a prompt goes through the model in one piece and leaves only keys and values: its last token is
  the first step's, so that the output head is never applied to a prompt.

Tested by `make test ARGS=tests/project/test_decoding.py`.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cs_basics.fast.cached import DecodingLM, KVCache, copy_sharing_tensors, decoding_model
from cs_basics.fast.compilation import compile_if_possible
from cs_basics.fast.sampling import Knobs, sample_fast
from cs_basics.generate import GREEDY, Sampling, checked_prompt, draw_uniforms, seen_tokens
from cs_basics.layers import Linear
from cs_basics.transformer import TransformerLM

PLACES = 32
"""Attention reads a multiple of so many places."""

ROW_OPTIONS = {"realize_acc_reads_threshold": 2}
"""What is made of more than two tensors is computed once, and kept.

For one row, where a product is a loop as any other, a compiler would compute its input inside that
loop, to save the memory: the norm of the same vector once for each of the weight's rows, with its
divisions, which take longer than the product.
"""

IsEnd = Callable[[int, int], bool]
"""Told a row and its new token: is the text of that row complete with it?"""


class RowLinear(Linear):
    """Linear for one row and a compiler: sums of products instead of a call of a library.

    With one row nothing is used twice, and the product takes as long as reading the weight. The
    libraries' matrix products, made for many rows, read it at a third of the speed of this loop
    (docs/performance.md), which the compiler also fuses with what comes before and after it.
    """

    def forward(self, x: Float[Tensor, "... {self.d_in}"]) -> Float[Tensor, "... {self.d_out}"]:
        """Return x W^T; products and sums in at least float32."""
        wide = torch.promote_types(x.dtype, torch.float32)
        return (self.weight.to(wide) * x.to(wide).unsqueeze(-2)).sum(dim=-1).to(x.dtype)


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


class Decoder:
    """The state of several texts that grow side by side, and the step that makes them grow.

    Args:
        model: The language model.
        batch_size: Number of texts.
        sampling: How to draw.
        is_compiled: Compile the step; where that is impossible a warning says why.
    """

    def __init__(
        self, model: TransformerLM, batch_size: int, sampling: Sampling, is_compiled: bool = False
    ) -> None:
        decoder = decoding_model(model)
        if decoder is None:
            raise TypeError(
                f"{type(model).__name__} has other parts than those known to decoding.py"
            )
        self.model = decoder
        self.device = decoder.token_embeddings.weight.device
        self.knobs = Knobs.of(sampling, self.device)
        caches = decoder.empty_caches(batch_size)
        self.keys = [_one_place_longer(cache.keys) for cache in caches]
        self.values = [_one_place_longer(cache.values) for cache in caches]
        self._num_places = 0
        self._views: tuple[list[Tensor], list[Tensor]] = ([], [])
        self._step, self._stepping_model = decode_step, decoder
        if is_compiled:
            has_one_row = batch_size == 1 and self.device.type == "cpu"
            options = ROW_OPTIONS if has_one_row else None
            self._step = compile_if_possible(decode_step, self.device, options)
            if has_one_row and self._step is not decode_step:
                # A copy: a prompt, which has many rows, still goes through the libraries.
                self._stepping_model = copy_sharing_tensors(decoder)
                for module in self._stepping_model.modules():
                    if type(module) is Linear:
                        module.__class__ = RowLinear

    @torch.no_grad()
    def read(self, contexts: Sequence[Sequence[int]], first_row: int = 0) -> None:
        """Let rows, one after the other, begin with these tokens, whatever they held before."""
        longest = max(map(len, contexts))
        if longest == 0:
            return
        # What is written for the padding lies behind the row's end: its next tokens replace it.
        padded = [[*context, *[0] * (longest - len(context))] for context in contexts]
        positions = torch.arange(longest, device=self.device).expand(len(contexts), -1)
        # Views: what is written to them is written to the rows, and no place behind is looked at.
        rows = slice(first_row, first_row + len(contexts))
        caches = [
            SlotKVCache(keys[rows, :, :longest], values[rows, :, :longest], positions)
            for keys, values in zip(self.keys, self.values, strict=True)
        ]
        self.model.hidden(torch.tensor(padded, device=self.device), caches)

    @torch.no_grad()
    def step(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        uniform: Float[Tensor, " batch"],
        seen: Bool[Tensor, "batch vocab_size"] | None = None,
    ) -> list[int]:
        """Read one token of each row and draw the next.

        Args:
            tokens: The newest token of each row.
            positions: Where it stands in its row.
            uniform: A random number of each row, from [0, 1).
            seen: Tokens that the rows hold; the newest are added.

        Returns:
            A token of each row.
        """
        needed = max(positions) + 1
        # What lies behind the longest text is masked; not even to read it is cheaper.
        keys, values = self._first(min(needed + -needed % PLACES, self.model.context_length))
        drawn = self._step(
            self._stepping_model,
            keys,
            values,
            torch.tensor(tokens, device=self.device),
            torch.tensor(positions, device=self.device),
            uniform,
            seen,
            self.knobs,
        )
        return drawn.tolist()

    def _first(self, num_places: int) -> tuple[list[Tensor], list[Tensor]]:
        """Return views of the first places of keys and values, made anew when their number grows.

        They tell a compiler that the number varies.
        """
        if num_places != self._num_places:
            self._num_places = num_places
            self._views = (
                [keys[:, :, :num_places] for keys in self.keys],
                [values[:, :, :num_places] for values in self.values],
            )
            if self._step is not decode_step:
                for view in itertools.chain(*self._views):
                    torch._dynamo.mark_dynamic(view, 2, min=2, max=self.model.context_length)  # pyright: ignore[reportPrivateUsage]
        return self._views


def _one_place_longer(
    cache: Float[Tensor, "batch heads max_seq_len d_head"],
) -> Float[Tensor, "batch heads longer d_head"]:
    """Return an empty cache whose last place is never looked at.

    A view of all places would be contiguous, which a compiler takes for a case of its own.
    """
    return torch.zeros_like(cache[:, :, :1]).repeat(1, 1, cache.shape[2] + 1, 1)


def decode_step(
    model: DecodingLM,
    keys: list[Tensor],
    values: list[Tensor],
    tokens: Int[Tensor, " batch"],
    positions: Int[Tensor, " batch"],
    uniform: Float[Tensor, " batch"],
    seen: Bool[Tensor, "batch vocab_size"] | None,
    knobs: Knobs,
) -> Int[Tensor, " batch"]:
    """Read one token of each row and draw the next: everything that happens for a token.

    keys, values and seen are written in place.
    """
    if seen is not None:
        seen.scatter_(1, tokens.unsqueeze(1), value=True)
    places = positions.unsqueeze(1)
    caches = [SlotKVCache(k, v, places) for k, v in zip(keys, values, strict=True)]
    hidden = model.hidden(tokens.unsqueeze(1), caches)
    return sample_fast(model.lm_head(hidden[:, -1]), knobs, uniform, seen)


def generate_batch(
    model: TransformerLM,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
    *,
    is_compiled: bool = False,
    is_end: IsEnd | None = None,
) -> Iterator[list[int | None]]:
    """Continue several prompts at once, which may be of different lengths.

    A row's text does not depend on its neighbours: row r is what `generate` writes with seed + r.

    Args:
        model: The language model.
        prompts: Token ids of each text, at least one; the last context_length - 1 are read.
        max_tokens: Tokens to write at the most, each text.
        sampling: How to draw, and what to do when a context is full.
        stop_ids: A token of these ends its text and is not yielded.
        seed: The same seed gives the same texts; None draws afresh.
        is_compiled: Compile the step first: it pays from some thousand tokens on.
        is_end: Ends the text of a row after the token that it is told of.

    Yields:
        The next token of each row, None where the text has ended.

    Raises:
        ValueError: There is no prompt, or one is empty or holds ids that the model does not know.
    """
    if not prompts:
        raise ValueError("there is no prompt: give at least one")
    contexts = [checked_prompt(model, prompt) for prompt in prompts]
    rows = range(len(prompts))
    decoder = Decoder(model, len(prompts), sampling, is_compiled)
    seeds = [None if seed is None else seed + row for row in rows]
    uniforms = torch.stack([draw_uniforms(max_tokens, seed, decoder.device) for seed in seeds], 1)
    each_seen = [seen_tokens(model, context, sampling) for context in contexts]
    seen = (
        torch.stack([s for s in each_seen if s is not None])
        if sampling.repetition_penalty != 1
        else None
    )
    growing = set(rows)
    decoder.read([context[:-1] for context in contexts])
    for uniform in uniforms:
        _make_room(decoder, contexts, growing, sampling)
        if not growing:
            return
        # A row that has ended goes on in its last place, and nobody looks.
        places = [min(len(context), model.context_length) - 1 for context in contexts]
        drawn = decoder.step([context[-1] for context in contexts], places, uniform, seen)
        growing -= {row for row in growing if drawn[row] in stop_ids}
        if not growing:
            return
        for row in growing:
            contexts[row].append(drawn[row])
        yield [token if row in growing else None for row, token in enumerate(drawn)]
        if is_end is not None:
            growing -= {row for row in growing if is_end(row, drawn[row])}


def _make_room(
    decoder: Decoder, contexts: list[list[int]], growing: set[int], sampling: Sampling
) -> None:
    """End the texts whose context is full, or let them go on from its second half."""
    max_length = decoder.model.context_length
    full = [row for row in growing if len(contexts[row]) > max_length]
    if sampling.when_full == "stop":
        growing -= set(full)
        return
    for row in full:
        contexts[row] = contexts[row][-max(max_length // 2, 1) :]
        decoder.read([contexts[row][:-1]], row)
