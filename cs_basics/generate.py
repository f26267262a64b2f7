"""Write text with a trained model, one token at a time."""

import codecs
from collections.abc import Collection, Iterable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cs_basics.functional import softmax
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM


def sample(
    logits: Float[Tensor, "... vocab_size"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "..."]:
    """Draw one token per row.

    Args:
        logits: Scores of the next token, (..., vocab_size).
        temperature: The scores are divided by it: below 1 the likely tokens become likelier; 0
            always takes the likeliest.
        top_k: Only the k likeliest tokens can be drawn.
        top_p: Only the likeliest tokens can be drawn that together reach this probability, the one
            that crosses it included (nucleus sampling, Holtzman et al. 2020, sec. 3.1,
            https://arxiv.org/abs/1904.09751). Applied after top_k.
        generator: Source of randomness.

    Returns:
        Token ids, (...).

    Raises:
        ValueError: A setting is out of its range.
    """
    if not temperature >= 0:
        raise ValueError(f"temperature={temperature} must be 0 or greater")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k} must be at least 1")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be greater than 0 and at most 1")
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities, ids = softmax(logits.float() / temperature, dim=-1).sort(dim=-1, descending=True)
    if top_k is not None:
        probabilities[..., top_k:] = 0
    if top_p is not None:
        probabilities /= probabilities.sum(dim=-1, keepdim=True)
        probability_before = probabilities.cumsum(dim=-1) - probabilities
        probabilities[probability_before >= top_p] = 0
    rows = probabilities.reshape(-1, probabilities.shape[-1])
    drawn = torch.multinomial(rows, 1, generator=generator).reshape(*ids.shape[:-1], 1)
    return ids.gather(-1, drawn).squeeze(-1)


@torch.no_grad()
def generate(
    model: TransformerLM,
    prompt: Collection[int],
    max_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[int]:
    """Continue a prompt, yielding each token as soon as it is drawn.

    The keys and values of earlier positions are kept, so a token costs one position. When the
    context is full its first half is forgotten.

    Args:
        model: The language model.
        prompt: Token ids, at least one; only the last context_length - 1 are read.
        max_tokens: Tokens to write at the most.
        temperature: See `sample`.
        top_k: See `sample`.
        top_p: See `sample`.
        stop_ids: A token of these ends the text and is not yielded.
        seed: The same seed gives the same text; None draws afresh.

    Yields:
        Token ids.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know.
    """
    if not prompt:
        raise ValueError("the prompt is empty: give at least one token, such as <|endoftext|>")
    if unknown := [id for id in prompt if not 0 <= id < model.vocab_size]:
        raise ValueError(f"token id {unknown[0]} is not below vocab_size={model.vocab_size}")
    device = model.token_embeddings.weight.device
    generator = torch.Generator(device)
    generator.seed() if seed is None else generator.manual_seed(seed)
    context = list(prompt)[-(model.context_length - 1) :]
    caches = model.empty_caches(batch_size=1)
    unread = context
    for _ in range(max_tokens):
        if caches[0].length + len(unread) > model.context_length:
            context = unread = context[-(model.context_length // 2) :]
            caches = model.empty_caches(batch_size=1)
        logits = model(torch.tensor([unread], device=device), caches)[0, -1]
        token_id = int(sample(logits, temperature, top_k, top_p, generator))
        if token_id in stop_ids:
            return
        yield token_id
        context.append(token_id)
        unread = [token_id]


def stream_text(tokenizer: Tokenizer, ids: Iterable[int]) -> Iterator[str]:
    """Turn tokens into text as they arrive, never a part of a character.

    Args:
        tokenizer: Knows the bytes of each token.
        ids: Token ids.

    Yields:
        Pieces of text; joined they are `tokenizer.decode` of all ids.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for token_id in ids:
        if piece := decoder.decode(tokenizer.decode_bytes([token_id])):
            yield piece
    if rest := decoder.decode(b"", final=True):
        yield rest
