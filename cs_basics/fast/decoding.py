"""Generation with a KV cache: several texts at once, with one compiled step per token.

Read generate.py, the reference, and cached.py first. Generation with a small model is not limited
by arithmetic, but by reading the weights, once per token, and by calls from Python, some hundred
per token. So

- texts are generated in batches: the weights are read once for one token of each text;
- the whole step, from the embedding to the sampled token, is one compiled function;
- the step is compiled once, since its shapes are static (KVCache), except for the number of cached
  positions that attention reads, a multiple of PLACES and a dynamic dimension to the compiler;
- a prompt is read in one forward pass without its last token, which is the input of the first step:
  the output head is never applied to a prompt.
"""

import itertools
import weakref
from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics import generate as reference
from cs_basics.fast.cached import DecodingLM, KVCache, can_decode
from cs_basics.fast.compilation import compile_if_possible
from cs_basics.fast.sampling import SamplingTensors, sample_fast
from cs_basics.generate import GREEDY, Sampling, sample
from cs_basics.transformer import TransformerLM

PLACES = 32
"""Attention reads a multiple of this many cached positions."""

ROW_OPTIONS = {"realize_acc_reads_threshold": 2}
"""Inductor option for a batch of one row: store each intermediate made of more than two tensors.

The product of one row (cached.py) is a loop like any other, so Inductor would fuse the norm before
it into that loop, and compute the norm of the same vector again for every row of the weight.
"""


class Decoder:
    """Batched generation of several texts: their KV caches and the step that adds a token to each.

    Args:
        model: The language model.
        batch_size: Number of texts.
        sampling: How to sample.
        is_compiled: Compile the step, or warn if that is impossible.
    """

    def __init__(
        self, model: TransformerLM, batch_size: int, sampling: Sampling, is_compiled: bool = False
    ) -> None:
        if not can_decode(model):
            raise TypeError(
                f"{type(model).__name__} has other parts than those known to decoding.py"
            )
        self.model = decoder = DecodingLM(model)
        self.device = decoder.token_embeddings.weight.device
        self.sampling, self.sampling_tensors = sampling, SamplingTensors.of(sampling, self.device)
        # One extra place, which is never read: a view of all places would be contiguous, and the
        # compiler would treat that as another case.
        caches = decoder.empty_caches(batch_size, model.context_length + 1)
        self.keys, self.values = map(list, zip(*caches, strict=True))
        self._num_places = 0
        self._views: tuple[list[Tensor], list[Tensor]] = ([], [])
        self._step = decode_step
        if is_compiled:
            self.model = _same_copy_for_same_weights(model, decoder)
            has_one_row = batch_size == 1 and self.device.type == "cpu"
            options = ROW_OPTIONS if has_one_row else None
            self._step = compile_if_possible(decode_step, self.device, options)

    @torch.no_grad()
    def read(self, contexts: Sequence[Sequence[int]], first_row: int = 0) -> None:
        """Fill consecutive rows of the caches with these contexts, replacing what they held."""
        longest = max(map(len, contexts))
        if longest == 0:
            return
        # The padding is cached after the end of a row, where the next tokens overwrite it.
        padded = [[*context, *[0] * (longest - len(context))] for context in contexts]
        positions = torch.arange(longest, device=self.device).expand(len(contexts), -1)
        # Views of the caches: writes go through, and later positions are not read.
        rows = slice(first_row, first_row + len(contexts))
        caches = [
            KVCache(keys[rows, :, :longest], values[rows, :, :longest], positions)
            for keys, values in zip(self.keys, self.values, strict=True)
        ]
        self.model.hidden(torch.tensor(padded, device=self.device), caches)

    @torch.no_grad()
    def step(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        generators: Sequence[torch.Generator],
    ) -> list[int]:
        """Read the newest token of each row and sample the next.

        Args:
            tokens: The newest token of each row.
            positions: Its position in the row.
            generators: Of each row, its random numbers.

        Returns:
            The next token of each row.
        """
        if self._step is decode_step:
            # Uncompiled, sample_fast is slower than the reference with its sort.
            rows = zip(self.logits(tokens, positions), generators, strict=True)
            return [sample(logits, self.sampling, generator) for logits, generator in rows]
        uniform = torch.cat([torch.rand(1, generator=generator) for generator in generators])
        keys, values = self._first(positions)
        drawn = self._step(
            self.model,
            keys,
            values,
            torch.tensor(tokens, device=self.device),
            torch.tensor(positions, device=self.device),
            uniform.to(self.device),
            self.sampling_tensors,
        )
        return drawn.tolist()

    @torch.no_grad()
    def logits(
        self, tokens: Sequence[int], positions: Sequence[int]
    ) -> Float[Tensor, "rows vocab_size"]:
        """Read the newest token of each of the first rows and score the next, uncompiled.

        For texts that are each sampled in their own way: the decoder's `sampling` is not used.

        Args:
            tokens: The newest token of each row; fewer than batch_size leave the other rows alone.
            positions: Its position in the row.
        """
        keys, values = self._first(positions)
        rows = slice(len(tokens))
        return decode_logits(
            self.model,
            [k[rows] for k in keys],
            [v[rows] for v in values],
            torch.tensor(tokens, device=self.device),
            torch.tensor(positions, device=self.device),
        )

    def _first(self, positions: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
        """Return views of keys and values up to these positions, and up to PLACES - 1 more.

        Views are made once for each length, which is marked as a dynamic dimension. Positions after
        the longest text would be masked; it is cheaper not to read them.
        """
        needed = max(positions) + 1
        num_places = min(needed + -needed % PLACES, self.model.context_length)
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


_COMPILED_COPIES: MutableMapping[nn.Module, DecodingLM] = weakref.WeakKeyDictionary()
"""For each model with a compiled step, the copy of the model that this step reads."""


def _same_copy_for_same_weights(model: nn.Module, decoder: DecodingLM) -> DecodingLM:
    """Return the copy that earlier decoding used, or `decoder` if the weights have changed since.

    Frozen weights (scripts/process.py) are constants of the compiled step: for another copy the
    step would be compiled again, and after a few copies the compiler gives up.
    """
    known = _COMPILED_COPIES.get(model)
    if known is None or not _are_equal(known, decoder):
        known = _COMPILED_COPIES[model] = decoder
    return known


def _are_equal(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(a.dtype == b.dtype and a.device == b.device and a.equal(b) for a, b in pairs)


def decode_step(
    model: DecodingLM,
    keys: list[Tensor],
    values: list[Tensor],
    tokens: Int[Tensor, " batch"],
    positions: Int[Tensor, " batch"],
    uniform: Float[Tensor, " batch"],
    tensors: SamplingTensors,
) -> Int[Tensor, " batch"]:
    """Read the newest token of each row and sample the next: everything that one token costs.

    keys and values are changed in place.
    """
    logits = decode_logits(model, keys, values, tokens, positions)
    return sample_fast(logits, tensors, uniform)


def decode_logits(
    model: DecodingLM,
    keys: list[Tensor],
    values: list[Tensor],
    tokens: Int[Tensor, " rows"],
    positions: Int[Tensor, " rows"],
) -> Float[Tensor, "rows vocab_size"]:
    """Read the newest token of each row and score the next; keys and values change in place."""
    places = positions.unsqueeze(1)
    caches = [KVCache(k, v, places) for k, v in zip(keys, values, strict=True)]
    hidden = model.hidden(tokens.unsqueeze(1), caches)
    return model.lm_head(hidden[:, -1])


def generate_batch(
    model: TransformerLM,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
    *,
    is_compiled: bool = False,
    is_end: Callable[[int, int], bool] | None = None,
) -> Iterator[list[int | None]]:
    """Continue several prompts, which may differ in length, in one batch.

    Rows are independent: row r is what `generate` returns with seed + r, until its context is full
    (`_make_room`).

    `is_end`, told a row and its new token, returns whether the text of that row ends with it. All
    other arguments are those of `generate_texts` (run/writing.py), which calls this.

    Yields:
        The next token of each row, None for a row that got none.

    Raises:
        ValueError: There is no prompt, or one is empty or holds ids that the model does not know.
    """
    if not prompts:
        raise ValueError("there is no prompt: give at least one")
    contexts = [_checked(model, prompt) for prompt in prompts]
    rows = range(len(prompts))
    decoder = Decoder(model, len(prompts), sampling, is_compiled)
    generators = [torch.Generator() for _ in rows]
    for row, generator in enumerate(generators):
        generator.manual_seed(generator.seed() if seed is None else seed + row)
    growing = set(rows)
    decoder.read([context[:-1] for context in contexts])
    for _ in range(max_tokens):
        _make_room(decoder, contexts, growing)
        # Rows that have ended stay in the batch; their tokens are ignored.
        places = [min(len(context), model.context_length) - 1 for context in contexts]
        drawn = decoder.step([context[-1] for context in contexts], places, generators)
        growing -= {row for row in growing if drawn[row] in stop_ids}
        if not growing:
            return
        for row in growing:
            contexts[row].append(drawn[row])
        yield [token if row in growing else None for row, token in enumerate(drawn)]
        if is_end is not None:
            growing -= {row for row in growing if is_end(row, drawn[row])}


def generate(
    model: TransformerLM,
    prompt: Sequence[int],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[int]:
    """Continue one prompt, uncompiled; as in generate.py, while the text fits into the context."""
    if not can_decode(model):
        yield from reference.generate(model, prompt, max_tokens, sampling, stop_ids, seed)
        return
    for tokens in generate_batch(model, [prompt], max_tokens, sampling, stop_ids, seed):
        yield from (token for token in tokens if token is not None)


def _checked(model: TransformerLM, prompt: Sequence[int]) -> list[int]:
    """Return what the model reads of a prompt.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know.
    """
    if not prompt:
        raise ValueError("the prompt is empty: give at least one token, such as <|endoftext|>")
    if unknown := [id for id in prompt if not 0 <= id < model.vocab_size]:
        raise ValueError(f"token id {unknown[0]} is not in [0, {model.vocab_size})")
    return list(prompt[-model.context_length :])


def _make_room(decoder: Decoder, contexts: list[list[int]], growing: set[int]) -> None:
    """Drop the first half of each context that is full.

    generate.py drops the first token alone. Then every position moves, each key depends on its
    position, and the whole cache would have to be filled anew for each token, not for every half.
    """
    max_length = decoder.model.context_length
    for row in growing:
        if len(contexts[row]) > max_length:
            contexts[row] = contexts[row][-max(max_length // 2, 1) :]
            decoder.read([contexts[row][:-1]], row)
