"""Generation against the transformers package: one text, and sixteen at once, with sampling on.

Both models have the same shape, each its own random weights; they read the same prompts and draw
with the same settings; no text ends before the last token. Both write 100 tokens, in turns.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from process import pack_weights

from cs_basics.fast.decoding import generate_batch
from cs_basics.generate import Sampling
from cs_basics.transformer import TransformerLM
from lab.timing import alternating_times

from .measuring import Row
from .models import SHAPE, llama, ours

NEW_TOKENS = 100
PROMPT_TOKENS = 16
SAMPLINGS = {
    "top-k 50, top-p 0.95": Sampling(temperature=0.8, top_k=50, top_p=0.95),
    "top-p 0.95 alone": Sampling(temperature=0.8, top_p=0.95),
}
DTYPES = (torch.float32, torch.bfloat16)


def measure() -> Iterator[Row]:
    """Measure our ways to generate against each other and against `generate` of transformers."""
    torch.manual_seed(0)
    for batch_size in (1, 16):
        if batch_size > 1:
            pack_weights()  # As scripts/generate.py does.
        yield from measure_batch(batch_size)


def measure_batch(batch_size: int) -> Iterator[Row]:
    """Yield tokens per second of all texts together, for each type of the weights."""
    prompts = torch.randint(SHAPE.vocab_size, (batch_size, PROMPT_TOKENS))
    functions: list[Callable[[], None]] = []
    for dtype in DTYPES:
        peer, model = llama(dtype=dtype).eval(), ours().to(dtype)
        for sampling in SAMPLINGS.values():
            functions.append(partial(_generate_peer, peer, prompts, sampling))
            functions.append(partial(_generate_ours, model, prompts, sampling))
    first = next(iter(SAMPLINGS.values()))
    functions.append(partial(_generate_ours, ours(), prompts, first, is_compiled=False))
    *speeds, plain = (
        NEW_TOKENS * batch_size / seconds for seconds in alternating_times(functions, rounds=3)
    )
    what = "one text" if batch_size == 1 else f"{batch_size} texts"
    of_peer, of_ours = speeds[::2], speeds[1::2]
    for i, settings in enumerate(SAMPLINGS):
        mine, theirs = of_ours[i :: len(SAMPLINGS)], of_peer[i :: len(SAMPLINGS)]
        name = f"{what}, {settings}, the faster type of each"
        yield Row(name, max(mine), "tokens/s", max(theirs))
    if batch_size == 1:
        yield Row(f"{what}, not compiled, float32", plain, "tokens/s", of_peer[0])
    else:
        yield Row(f"{what}, {next(iter(SAMPLINGS))}, float32", of_ours[0], "tokens/s", of_peer[0])


def _generate_ours(
    model: TransformerLM, prompts: torch.Tensor, sampling: Sampling, is_compiled: bool = True
) -> None:
    for _ in generate_batch(
        model, prompts.tolist(), NEW_TOKENS, sampling, seed=0, is_compiled=is_compiled
    ):
        pass


def _generate_peer(model: torch.nn.Module, prompts: torch.Tensor, sampling: Sampling) -> None:
    made = model.generate(  # pyright: ignore[reportCallIssue]  the peer has no types
        prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=True,
        temperature=sampling.temperature,
        top_k=sampling.top_k or 0,
        top_p=sampling.top_p,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        eos_token_id=None,
    )
    assert made.shape[1] == prompts.shape[1] + NEW_TOKENS
