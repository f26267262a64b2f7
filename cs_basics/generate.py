"""Generate text with a trained model, which reads the whole context anew for every token."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from cs_basics.functional import softmax
from cs_basics.transformer import TransformerLM


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How the next token is drawn from the model's scores."""

    temperature: float = 1.0
    """The scores are divided by it: below 1 the likely tokens become likelier; 0 always takes the
    likeliest."""
    top_k: int | None = None
    """Draw only from the k likeliest tokens."""
    top_p: float | None = None
    """Draw only from the smallest set of likeliest tokens whose probabilities sum to at least this
    (nucleus sampling, Holtzman et al. 2020, sec. 3.1, https://arxiv.org/abs/1904.09751). With
    top_k, it is a fraction of the probability of the k likeliest tokens."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature} must be finite and at least 0")
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

    Args:
        model: The language model, which reads the last context_length tokens at each step.
        prompt: Token ids, at least one.
        max_tokens: The most tokens to write.
        sampling: How to draw.
        stop_ids: Any of these ends the text and is not yielded.
        seed: The same seed gives the same text; None draws afresh.

    Raises:
        ValueError: The prompt is empty or holds ids that the model does not know, or the highest
            score is not a finite number; raised when the next token is asked for.
    """
    if not prompt:
        raise ValueError("the prompt is empty: give at least one token, such as <|endoftext|>")
    if unknown := [id for id in prompt if not 0 <= id < model.vocab_size]:
        raise ValueError(f"token id {unknown[0]} is not in [0, {model.vocab_size})")
    generator = torch.Generator()
    generator.seed() if seed is None else generator.manual_seed(seed)
    device = next(model.parameters()).device
    context = list(prompt)
    for _ in range(max_tokens):
        ids = torch.tensor([context[-model.context_length :]], device=device)
        token_id = sample(model(ids)[0, -1], sampling, generator)
        if token_id in stop_ids:
            return
        yield token_id
        context.append(token_id)


def sample(
    logits: Float[Tensor, " vocab_size"], sampling: Sampling, generator: torch.Generator
) -> int:
    """Draw one token. Tokens as likely as the last that top_k or top_p keeps are kept, too.

    Args:
        logits: Scores of the next token, (vocab_size,).
        sampling: How to draw.
        generator: Gives one random number, unless the temperature is 0.

    Raises:
        ValueError: The highest score is not a finite number.
    """
    highest = logits.max().item()
    if not math.isfinite(highest):
        raise ValueError(f"the highest score is {highest}: the model's weights are not finite")
    if sampling.temperature == 0:
        return int(logits.argmax())
    # In float64, as float32 would round a tiny temperature to 0. The highest score becomes 0.
    scores = (logits.cpu().double() - highest) / sampling.temperature
    probabilities = softmax(scores.float(), -1).double()
    # The probabilities of the tokens to keep, highest first; top_k=None keeps all.
    kept = probabilities.sort(descending=True).values[: sampling.top_k]
    if sampling.top_p is not None and sampling.top_p < 1:
        # A token is kept if those before it do not yet reach top_p.
        before = kept.cumsum(-1) - kept
        kept = kept[before < sampling.top_p * kept.sum()]
    probabilities = probabilities.masked_fill(probabilities < kept[-1], 0)
    # Count the tokens before the first whose sum exceeds a random share of the whole sum.
    sums = probabilities.cumsum(-1)
    return int((sums <= torch.rand((), generator=generator) * sums[-1]).sum())
