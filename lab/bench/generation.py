"""Generation against the transformers package: one text, and sixteen at once, with sampling on.

Both models have the same shape, each its own random weights; they read the same prompts and draw
with the same settings; no text ends before the last token. Both write 100 tokens, in turns.
"""

from collections.abc import Iterator
from functools import partial

import torch

from cs_basics.fast.decoding import generate_batch
from cs_basics.generate import Sampling
from cs_basics.transformer import TransformerLM
from lab.timing import alternating_times

from .measuring import Row
from .models import SHAPE, llama, ours

NEW_TOKENS = 100
PROMPT_TOKENS = 16
SAMPLING = Sampling(temperature=0.8, top_k=50, top_p=0.95)


def measure() -> Iterator[Row]:
    """Measure our way to generate against `generate` of transformers."""
    torch.manual_seed(0)
    for batch_size, what in ((1, "one text"), (16, "16 texts")):
        prompts = torch.randint(SHAPE.vocab_size, (batch_size, PROMPT_TOKENS))
        functions = [
            partial(_generate_ours, ours(), prompts),
            partial(_generate_peer, llama().eval(), prompts),
        ]
        mine, theirs = (
            NEW_TOKENS * batch_size / seconds for seconds in alternating_times(functions, rounds=3)
        )
        yield Row(f"{what}, top-k 50, top-p 0.95, float32", mine, "tokens/s", theirs)


def _generate_ours(model: TransformerLM, prompts: torch.Tensor) -> None:
    for _ in generate_batch(model, prompts.tolist(), NEW_TOKENS, SAMPLING, seed=0):
        pass


def _generate_peer(model: torch.nn.Module, prompts: torch.Tensor) -> None:
    made = model.generate(  # pyright: ignore[reportCallIssue]  the peer has no types
        prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=True,
        temperature=SAMPLING.temperature,
        top_k=SAMPLING.top_k or 0,
        top_p=SAMPLING.top_p,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        eos_token_id=None,
    )
    assert made.shape[1] == prompts.shape[1] + NEW_TOKENS
