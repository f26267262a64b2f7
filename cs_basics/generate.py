"""Write text with a trained model, one token at a time.

First the definition, which reads the whole context for every token, then the same with a cache of
keys and values. decoding.py does it for several texts at once, and compiled; text_stream.py turns
the tokens into text.
"""

from collections.abc import Collection, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cs_basics.functional import softmax
from cs_basics.run.config import Sampling
from cs_basics.transformer import TransformerLM

LIKELIEST = Sampling(temperature=0)


def sample(
    logits: Float[Tensor, "... vocab_size"],
    sampling: Sampling,
    uniform: Float[Tensor, "..."],
    seen: Bool[Tensor, "... vocab_size"] | None = None,
) -> Int[Tensor, "..."]:
    """Draw one token per row.

    Args:
        logits: Scores of the next token, (..., vocab_size).
        sampling: How to draw.
        uniform: A random number of each row, evenly from [0, 1): the tokens lie side by side on
            a line, each as long as its probability, and this is the place where we look.
        seen: The tokens that the text holds already; None: none.

    Returns:
        Token ids, (...).
    """
    logits = logits.float()
    if seen is not None:
        penalty = sampling.repetition_penalty
        penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
        logits = torch.where(seen, penalised, logits)
    if sampling.temperature == 0:
        return logits.argmax(dim=-1)
    # The highest score becomes 0, so that no temperature above 0 can make it overflow.
    scores = logits - logits.amax(dim=-1, keepdim=True)
    probabilities = softmax(scores / sampling.temperature, dim=-1)
    ordered = probabilities.sort(dim=-1, descending=True).values[..., : sampling.top_k]
    if sampling.top_p is not None and sampling.top_p < 1:
        before = ordered.cumsum(dim=-1) - ordered
        is_enough = before >= sampling.top_p * ordered.sum(dim=-1, keepdim=True)
        ordered = ordered.masked_fill(is_enough, 1.0)
    least = ordered.amin(dim=-1, keepdim=True)
    return draw(probabilities.masked_fill(probabilities < least, 0), uniform)


def draw(
    weights: Float[Tensor, "... vocab_size"], uniform: Float[Tensor, "..."]
) -> Int[Tensor, "..."]:
    """Draw an index per row, as often as its weight says; uniform as in `sample`."""
    ends = weights.cumsum(dim=-1)
    total = ends[..., -1:]
    # Below the total even where the product is rounded up: there is an index at that place.
    place = torch.minimum(uniform.unsqueeze(-1) * total, torch.nextafter(total, total * 0))
    return (ends <= place).sum(dim=-1)


@torch.no_grad()
def generate_uncached(
    model: TransformerLM,
    prompt: Sequence[int],
    max_tokens: int,
    sampling: Sampling = LIKELIEST,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[int]:
    """Continue a prompt: the definition, which reads the whole context for every token.

    Arguments, results and errors as in `generate`, which must yield the same tokens.
    """
    context = checked_prompt(model, prompt)
    device = model.token_embeddings.weight.device
    uniforms = draw_uniforms(max_tokens, seed, device)
    seen = seen_tokens(model, [context], sampling)
    for uniform in uniforms:
        if len(context) > model.context_length:
            if sampling.when_full == "stop":
                return
            context = context[-(model.context_length // 2) :]
        logits = model(torch.tensor([context], device=device))[:, -1]
        token_id = int(sample(logits, sampling, uniform.unsqueeze(0), seen))
        if token_id in stop_ids:
            return
        yield token_id
        context.append(token_id)
        if seen is not None:
            seen[:, token_id] = True


@torch.no_grad()
def generate(
    model: TransformerLM,
    prompt: Sequence[int],
    max_tokens: int,
    sampling: Sampling = LIKELIEST,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[int]:
    """Continue a prompt, yielding each token as soon as it is drawn.

    The keys and values of earlier positions are kept, so a token costs one position instead of
    the whole context.

    Args:
        model: The language model.
        prompt: Token ids, at least one; only the last context_length - 1 are read.
        max_tokens: Tokens to write at the most.
        sampling: How to draw, and what to do when the context is full.
        stop_ids: A token of these ends the text and is not yielded.
        seed: The same seed gives the same text; None draws afresh.

    Yields:
        Token ids.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know.
    """
    context = checked_prompt(model, prompt)
    device = model.token_embeddings.weight.device
    uniforms = draw_uniforms(max_tokens, seed, device)
    seen = seen_tokens(model, [context], sampling)
    caches, unread = model.empty_caches(batch_size=1), context
    for uniform in uniforms:
        if caches[0].length + len(unread) > model.context_length:
            if sampling.when_full == "stop":
                return
            context = unread = context[-(model.context_length // 2) :]
            caches = model.empty_caches(batch_size=1)
        hidden = model.hidden(torch.tensor([unread], device=device), caches)
        # Of a prompt only the last position predicts something new.
        logits = model.lm_head(hidden[:, -1])
        token_id = int(sample(logits, sampling, uniform.unsqueeze(0), seen))
        if token_id in stop_ids:
            return
        yield token_id
        context.append(token_id)
        unread = [token_id]
        if seen is not None:
            seen[:, token_id] = True


def checked_prompt(model: TransformerLM, prompt: Sequence[int]) -> list[int]:
    """Return as much of the end of a prompt as leaves room for a token.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know.
    """
    if not prompt:
        raise ValueError("the prompt is empty: give at least one token, such as <|endoftext|>")
    if unknown := [id for id in prompt if not 0 <= id < model.vocab_size]:
        raise ValueError(f"token id {unknown[0]} is not below vocab_size={model.vocab_size}")
    return list(prompt[-(model.context_length - 1) :])


def draw_uniforms(
    max_tokens: int, seed: int | None, device: torch.device
) -> Float[Tensor, " max_tokens"]:
    """Return the random numbers of one text, from [0, 1); without a seed others each time."""
    generator = torch.Generator()
    generator.seed() if seed is None else generator.manual_seed(seed)
    return torch.rand(max_tokens, generator=generator).to(device)


def seen_tokens(
    model: TransformerLM, contexts: Sequence[Sequence[int]], sampling: Sampling
) -> Bool[Tensor, "batch vocab_size"] | None:
    """Mark the tokens that each text holds; None where no penalty asks for them."""
    if sampling.repetition_penalty == 1:
        return None
    device = model.token_embeddings.weight.device
    seen = torch.zeros(len(contexts), model.vocab_size, dtype=torch.bool, device=device)
    for row, context in enumerate(contexts):
        seen[row, torch.tensor(context, device=device)] = True
    return seen
