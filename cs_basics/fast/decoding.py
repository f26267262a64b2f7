"""Generation with a KV cache, of several texts at once.

Read generate.py, the reference, and cached.py first. Generation with a small model is not limited
by arithmetic, but by reading the weights, once per token, and by calls from Python, some two
hundred per token: in a batch both serve one token of each text. Next comes the sort of the scores,
which NumPy does for all texts at once. A prompt is read in one forward pass without its last token,
which is the input of the first step: the output head is never applied to a prompt.
"""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from cs_basics import generate as reference
from cs_basics.fast.cached import DecodingLM, KVCache, can_decode
from cs_basics.functional import softmax
from cs_basics.generate import GREEDY, Sampling, sample
from cs_basics.transformer import TransformerLM


class Decoder:
    """Several texts that grow side by side: their KV caches, and the scores of their next tokens.

    Args:
        model: The language model.
        batch_size: Number of texts.
    """

    def __init__(self, model: TransformerLM, batch_size: int) -> None:
        if not can_decode(model):
            raise TypeError(
                f"{type(model).__name__} has other parts than those known to decoding.py"
            )
        self.model = DecodingLM(model)
        self.device = self.model.token_embeddings.weight.device
        self.caches = self.model.empty_caches(batch_size, model.context_length)

    @torch.no_grad()
    def read(self, contexts: Sequence[Sequence[int]], first_row: int = 0) -> None:
        """Fill consecutive rows of the caches with these contexts, replacing what they held."""
        longest = max(map(len, contexts))
        if longest == 0:
            return
        # The padding is cached after the end of a row, where the next tokens overwrite it.
        padded = [[*context, *[0] * (longest - len(context))] for context in contexts]
        positions = torch.arange(longest, device=self.device).expand(len(contexts), -1)
        rows = slice(first_row, first_row + len(contexts))
        self.model.hidden(torch.tensor(padded, device=self.device), self._first(rows, positions))

    @torch.no_grad()
    def logits(
        self, tokens: Sequence[int], positions: Sequence[int]
    ) -> Float[Tensor, "rows vocab_size"]:
        """Read the newest token of each row and score the next.

        Args:
            tokens: The newest token of each row.
            positions: Its position in the row.
        """
        places = torch.tensor(positions, device=self.device).unsqueeze(1)
        newest = torch.tensor(tokens, device=self.device).unsqueeze(1)
        hidden = self.model.hidden(newest, self._first(slice(len(tokens)), places))
        return self.model.lm_head(hidden[:, -1])

    def _first(self, rows: slice, positions: Tensor) -> list[KVCache]:
        """Return the caches of some rows up to the last of these positions, and no further.

        They are views: writes go through, and later positions, which would be masked, are not read.
        """
        needed = int(positions.max()) + 1
        return [
            KVCache(keys[rows, :, :needed], values[rows, :, :needed], positions)
            for keys, values in self.caches
        ]


def generate_batch(
    model: TransformerLM,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[list[int | None]]:
    """Continue several prompts, which may differ in length, in one batch.

    Rows are independent: row r is what `generate` returns with seed + r, until its context is full
    (`_make_room`). The arguments are those of `generate_texts` (run/writing.py), which calls this.

    Yields:
        The next token of each row, None for a row that got none.

    Raises:
        ValueError: There is no prompt, or one is empty or holds ids that the model does not know.
    """
    if not prompts:
        raise ValueError("there is no prompt: give at least one")
    contexts = [_checked(model, prompt) for prompt in prompts]
    rows = range(len(prompts))
    decoder = Decoder(model, len(prompts))
    generators = [torch.Generator() for _ in rows]
    for row, generator in enumerate(generators):
        generator.manual_seed(generator.seed() if seed is None else seed + row)
    growing = set(rows)
    decoder.read([context[:-1] for context in contexts])
    for _ in range(max_tokens):
        _make_room(decoder, contexts, growing)
        # Rows that have ended stay in the batch; their tokens are ignored.
        places = [min(len(context), model.context_length) - 1 for context in contexts]
        logits = decoder.logits([context[-1] for context in contexts], places)
        drawn = draw(logits, sampling, generators)
        growing -= {row for row in growing if drawn[row] in stop_ids}
        if not growing:
            return
        for row in growing:
            contexts[row].append(drawn[row])
        yield [token if row in growing else None for row, token in enumerate(drawn)]


def draw(
    logits: Float[Tensor, "rows vocab_size"],
    sampling: Sampling,
    generators: Sequence[torch.Generator],
) -> list[int]:
    """Draw a token for each row, as `sample` of generate.py does for one.

    All rows at once, and sorted by NumPy: of sixteen rows in a seventh of the time.

    Raises:
        ValueError: As of `sample`.
    """
    highest = logits.amax(-1, keepdim=True)
    if sampling.temperature == 0 or not highest.isfinite().all():
        return [sample(row, sampling, own) for row, own in zip(logits, generators, strict=True)]
    scores = (logits.cpu().double() - highest.cpu().double()) / sampling.temperature
    probabilities = softmax(scores.float(), -1).double().numpy()
    kept = -np.sort(-probabilities)[:, : sampling.top_k]
    lowest = kept[:, -1]
    if sampling.top_p is not None and sampling.top_p < 1:
        before = kept.cumsum(-1) - kept
        is_kept = before < sampling.top_p * kept.sum(-1, keepdims=True)
        lowest = kept.min(-1, where=is_kept, initial=1.0)
    sums = np.where(probabilities < lowest[:, None], 0.0, probabilities).cumsum(-1)
    shares = np.array([torch.rand((), generator=own).item() for own in generators])
    return (sums <= shares[:, None] * sums[:, -1:]).sum(-1).tolist()


def generate(
    model: TransformerLM,
    prompt: Sequence[int],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[int]:
    """Continue one prompt; as in generate.py, while the text fits into the context."""
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
