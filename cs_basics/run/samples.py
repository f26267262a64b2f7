"""Samples: stories that a model generates during and after its training."""

import logging
from pathlib import Path

from cs_basics.generate import Sampling, generate
from cs_basics.run.atomic import write_atomically
from cs_basics.run.model import accelerate
from cs_basics.settings.run import END_OF_TEXT, RunConfig
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

logger = logging.getLogger(__name__)

SAMPLE_TOKENS = 300
SHORT_TOKENS = 64
"""Tokens of the sample that goes with each validation loss."""
SAMPLING = Sampling(temperature=0.3, top_p=0.95)
NO_STORY = "(Nothing: the model ended the story at once, as it may after little training.)"


def write_samples(
    model: TransformerLM,
    tokenizer: Tokenizer,
    path: Path,
    config: RunConfig,
    *,
    is_fast: bool,
) -> list[str]:
    """Generate stories without a prompt, and write them to a Markdown file.

    Returns:
        The stories; one that fails is left out, with a warning.
    """
    tried = (
        try_story(model, tokenizer, SAMPLE_TOKENS, config.seed + number, is_fast=is_fast)
        for number in range(config.num_samples)
    )
    stories = [story for story in tried if story is not None]
    settings = f"Temperature {SAMPLING.temperature}, top-p {SAMPLING.top_p}."
    heading = f"# Samples\n\n{settings}\n"
    parts = [f"\n## {number}\n\n{story or NO_STORY}\n" for number, story in enumerate(stories, 1)]
    write_atomically(path, (heading + "".join(parts)).encode())
    return stories


def try_story(
    model: TransformerLM, tokenizer: Tokenizer, max_tokens: int, seed: int, *, is_fast: bool
) -> str | None:
    """Generate a story as `write_story` does; None, with a warning, if that fails."""
    try:
        return write_story(model, tokenizer, max_tokens, seed, is_fast=is_fast)
    except Exception as error:
        # A student's classes may raise anything, and a sample never ends a run.
        logger.warning("no sample: %s: %s", type(error).__name__, error)
        return None


def write_story(
    model: TransformerLM,
    tokenizer: Tokenizer,
    max_tokens: int,
    seed: int,
    *,
    is_fast: bool,
) -> str:
    """Generate one story without a prompt."""
    prompt = tokenizer.encode(f"{END_OF_TEXT}\n")
    stop_ids = tokenizer.encode(END_OF_TEXT)
    write = accelerate(generate) if is_fast else generate
    ids = write(model, prompt, max_tokens, SAMPLING, stop_ids=stop_ids, seed=seed)
    return tokenizer.decode(list(ids)).strip()
