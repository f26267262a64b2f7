"""Generate text with a trained model, which reads the whole context anew for every token."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from cs_basics.functional import softmax
from cs_basics.transformer import TransformerLM

MIN_TEMPERATURE = 1e-30
"""The lowest temperature but 0: scores are divided by it in float32, where much less would be 0."""


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

    def __post_init__(self) -> None:
        if self.temperature != 0 and not MIN_TEMPERATURE <= self.temperature < math.inf:
            limits = f"0, or at least {MIN_TEMPERATURE}, and finite"
            raise ValueError(f"temperature={self.temperature} must be {limits}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k} must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must be greater than 0 and at most 1")


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

    The model reads at most context_length tokens. When there are more, only the last half of that
    is kept.

    Args:
        model: The language model.
        prompt: Token ids, at least one; the last context_length - 1 are read.
        max_tokens: The most tokens to write.
        sampling: How to draw.
        stop_ids: Any of these ends the text and is not yielded.
        seed: The same seed gives the same text; None draws afresh.

    Yields:
        Token ids.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know; raised when the
            first token is asked for.
    """
    context = checked_prompt(model, prompt)
    generator = random_generator(seed)
    device = next(model.parameters()).device
    for _ in range(max_tokens):
        if len(context) > model.context_length:
            context = context[-max(model.context_length // 2, 1) :]
        logits = model(torch.tensor([context], device=device))[0, -1]
        token_id = sample(logits, sampling, generator)
        if token_id in stop_ids:
            return
        yield token_id
        context.append(token_id)


def checked_prompt(model: TransformerLM, prompt: Sequence[int]) -> list[int]:
    """Check a prompt; return its last context_length - 1 tokens, to leave room for a new one.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know.
    """
    if not prompt:
        raise ValueError("the prompt is empty: give at least one token, such as <|endoftext|>")
    if unknown := [id for id in prompt if not 0 <= id < model.vocab_size]:
        raise ValueError(f"token id {unknown[0]} is not in [0, {model.vocab_size})")
    return list(prompt[-max(model.context_length - 1, 1) :])


def random_generator(seed: int | None) -> torch.Generator:
    """Return a source of random numbers; without a seed they differ from run to run."""
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    return generator


def sample(
    logits: Float[Tensor, " vocab_size"], sampling: Sampling, generator: torch.Generator
) -> int:
    """Draw one token.

    Args:
        logits: Scores of the next token, (vocab_size,).
        sampling: How to draw.
        generator: Gives one random number, unless the temperature is 0.
    """
    if sampling.temperature == 0:
        return int(logits.argmax())
    # Before the division, in which a large score could overflow: the highest becomes 0.
    scores = logits.float() - logits.float().max()
    probabilities = softmax(scores / sampling.temperature, dim=-1)
    # The probabilities of the tokens to keep, highest first; top_k=None keeps all.
    kept = probabilities.sort(descending=True).values[: sampling.top_k]
    if sampling.top_p is not None:
        # A token is kept if those before it do not yet reach top_p.
        before = kept.cumsum(dim=-1) - kept
        num_kept = int((before < sampling.top_p * kept.sum()).sum())
        kept = kept[: max(num_kept, 1)]
    probabilities = probabilities.masked_fill(probabilities < kept[-1], 0)
    # On a line, token i owns the stretch from ends[i - 1] to ends[i], as long as its probability;
    # the owner of a random point is drawn. `rand` is in [0, 1), so 1 - rand is never 0: a point at
    # 0 could draw a token of probability 0.
    ends = probabilities.cumsum(dim=-1)
    point = (1 - torch.rand((), generator=generator).to(ends.device)) * ends[-1]
    return int((ends < point).sum())
