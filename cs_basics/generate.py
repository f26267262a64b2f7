"""Generate text with a trained model, which reads the whole context anew for every token."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cs_basics.functional import softmax
from cs_basics.transformer import TransformerLM

MIN_TEMPERATURE = 1e-30
"""Scores are divided by the temperature in float32, in which much smaller numbers become 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How the next token is drawn from the model's scores."""

    temperature: float = 1.0
    """The scores are divided by it: below 1 the likely tokens become likelier; 0 always takes the
    likeliest."""
    top_k: int | None = None
    """Draw only from the k likeliest tokens, and from those that tie with the last of them."""
    top_p: float | None = None
    """Draw from the smallest set of likeliest tokens whose probabilities sum to at least this, and
    from those that tie with the last of them (nucleus sampling, Holtzman et al. 2020, sec. 3.1,
    https://arxiv.org/abs/1904.09751). With top_k, it is a fraction of the probability of the k
    likeliest tokens."""
    repetition_penalty: float = 1.0
    """Scores of tokens that the text already contains are divided by it if positive and multiplied
    by it if negative (after Keskar et al. 2019, sec. 4.1, https://arxiv.org/abs/1909.05858, who
    divide both); above 1 the text repeats itself less. Only the part of a prompt that
    is read counts."""
    when_full: Literal["slide", "stop"] = "slide"
    """When the context is full: forget its first half and go on, or end the text."""

    def __post_init__(self) -> None:
        if self.temperature != 0 and not MIN_TEMPERATURE <= self.temperature < math.inf:
            limits = f"0, or at least {MIN_TEMPERATURE}, and finite"
            raise ValueError(f"temperature={self.temperature} must be {limits}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k} must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must be greater than 0 and at most 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise ValueError(
                f"repetition_penalty={self.repetition_penalty} must be greater than 0, and finite"
            )


GREEDY = Sampling(temperature=0)


@torch.no_grad()
def generate(
    model: TransformerLM,
    prompt: Sequence[int],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_ids: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[int]:
    """Continue a prompt, yielding each token as soon as it is drawn.

    Args:
        model: The language model.
        prompt: Token ids, at least one; only the last context_length - 1 are read.
        max_tokens: The most tokens to write.
        sampling: How to draw, and what to do when the context is full.
        stop_ids: Any of these ends the text and is not yielded.
        seed: The same seed gives the same text; None draws afresh.

    Yields:
        Token ids.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know; raised when the
            first token is asked for.
    """
    text = checked_prompt(model, prompt)
    begin = 0  # The model is shown text[begin:].
    device = next(model.parameters()).device
    for uniform in draw_uniforms(max_tokens, seed, device):
        if len(text) - begin > model.context_length:
            if sampling.when_full == "stop":
                return
            begin = len(text) - max(model.context_length // 2, 1)
        logits = model(torch.tensor([text[begin:]], device=device))[0, -1]
        token_id = int(sample(logits, sampling, uniform, seen_tokens(model, text, sampling)))
        if token_id in stop_ids:
            return
        yield token_id
        text.append(token_id)


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
        uniform: A number for each row, uniform on [0, 1). The tokens lie side by side on a line of
            length 1, each as long as its probability; the one at this point is taken.
        seen: True for each token that the text already contains; None to penalise none.

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
        # Dropped probabilities become 1, so that the minimum below is that of the kept ones.
        ordered = ordered.masked_fill(is_enough & (before > 0), 1.0)
    threshold = ordered.amin(dim=-1, keepdim=True)
    return draw(probabilities.masked_fill(probabilities < threshold, 0), uniform)


def draw(
    weights: Float[Tensor, "... vocab_size"], uniform: Float[Tensor, "..."]
) -> Int[Tensor, "..."]:
    """Draw an index per row, each with a probability proportional to its weight.

    `uniform` is that of `sample`.
    """
    ends = weights.cumsum(dim=-1)
    total = ends[..., -1:]
    # Rounding may make the product equal to the total, which is past the last index.
    point = torch.minimum(uniform.unsqueeze(-1) * total, torch.nextafter(total, total * 0))
    return (ends <= point).sum(dim=-1)


def checked_prompt(model: TransformerLM, prompt: Sequence[int]) -> list[int]:
    """Return the last context_length - 1 tokens of a prompt: then a new one fits in.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know.
    """
    if not prompt:
        raise ValueError("the prompt is empty: give at least one token, such as <|endoftext|>")
    if unknown := [id for id in prompt if not 0 <= id < model.vocab_size]:
        raise ValueError(f"token id {unknown[0]} is not in [0, {model.vocab_size})")
    return list(prompt[-max(model.context_length - 1, 1) :])


def draw_uniforms(
    max_tokens: int, seed: int | None, device: torch.device
) -> Float[Tensor, " max_tokens"]:
    """Return the random numbers of one text, from [0, 1); without a seed, new ones each time."""
    generator = torch.Generator()
    generator.seed() if seed is None else generator.manual_seed(seed)
    return torch.rand(max_tokens, generator=generator).to(device)


def seen_tokens(
    model: TransformerLM, text: Sequence[int], sampling: Sampling
) -> Bool[Tensor, " vocab_size"] | None:
    """Mark the tokens that a text contains; return None if there is no repetition penalty."""
    if sampling.repetition_penalty == 1:
        return None
    device = next(model.parameters()).device
    seen = torch.zeros(model.vocab_size, dtype=torch.bool, device=device)
    seen[torch.tensor(text, device=device)] = True
    return seen
