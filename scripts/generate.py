"""Generate text with a trained model.

python scripts/generate.py runs/stories --prompt "Once upon a time" --num-samples 3
python scripts/generate.py runs/stories --num-samples 64 --batch-size 16
"""

import functools
import operator
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import tyro
from cli import print_result, progress_printer, run
from process import keep_freed_memory

from cs_basics.generate import Sampling
from cs_basics.run.folder import RunFolder, Which
from cs_basics.run.hardware import resolve_device
from cs_basics.run.samples import SAMPLING
from cs_basics.run.writing import generate_texts, hints, opening
from cs_basics.settings.run import END_OF_TEXT, MAX_SEED


def main(
    run_dir: tyro.conf.Positional[Path],
    prompt: tuple[str, ...] = ("",),
    num_samples: int = 1,
    max_tokens: int = 300,
    temperature: float = SAMPLING.temperature,
    top_k: int | None = None,
    top_p: float | None = SAMPLING.top_p,
    seed: int | None = None,
    stop: bool = True,
    batch_size: int = 1,
    fast: Literal["auto", "off"] = "auto",
    checkpoint: Which = "latest",
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
) -> None:
    """Generate text with a trained model and print it token by token.

    Args:
        run_dir: The run folder.
        prompt: Beginning of the story, or of several; empty: none.
        num_samples: Number of stories per prompt.
        max_tokens: Largest number of new tokens per story.
        temperature: 0: greedy decoding; higher: more varied.
        top_k: Sample from the k most probable tokens only.
        top_p: Sample only from the most probable tokens whose probabilities sum to this.
        seed: Equal seeds give equal stories; none: a random seed.
        stop: End at the end of the story; otherwise continue with the next one.
        batch_size: Stories generated at the same time, each printed when complete: much faster.
        fast: off: the reference, cs_basics/generate.py, one story after the other. auto: its faster
            twin, which keeps keys and values of what it has read.
        checkpoint: latest, or best: the one with the lowest validation loss.
        device: Device; auto: CUDA if there is one, then MPS, then the CPU.
    """
    keep_freed_memory()
    counts = {"num_samples": num_samples, "max_tokens": max_tokens, "batch_size": batch_size}
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed={seed} must be 0 to {MAX_SEED}")
    if temperature < 0:
        raise ValueError(f"temperature={temperature} must be 0 (the likeliest token) or greater")
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    folder = RunFolder(run_dir)
    model = folder.load_model(resolve_device(device), checkpoint, is_fast=fast == "auto")
    tokenizer = folder.load_tokenizer(is_fast=fast == "auto")
    beginnings = [text for text in prompt for _ in range(num_samples)]
    for text in prompt:
        for hint in hints(text, tokenizer, model.context_length):
            print(f"hint: {hint}", file=sys.stderr)
    num_stories = len(beginnings)
    for first in range(0, num_stories, batch_size):
        batch = beginnings[first : first + batch_size]
        chunks = generate_texts(
            model,
            tokenizer,
            [tokenizer.encode(opening(text)) for text in batch],
            max_tokens,
            sampling,
            stop_ids=tokenizer.encode(END_OF_TEXT) if stop else (),
            seed=None if seed is None else seed + first,
            is_fast=fast == "auto",
        )
        show_batch(batch, chunks, first if num_stories > 1 else None)


def show_batch(stories: list[str], chunks: Iterable[tuple[int, str]], first: int | None) -> None:
    """Print a batch of stories while they are generated.

    A single story is printed token by token; several are printed when complete, in their order.

    Args:
        stories: Their beginnings.
        chunks: What comes next, each with the index of its story.
        first: Number of the first story; None: print no numbers.
    """
    is_shown_growing = len(stories) == 1
    on_progress, done = progress_printer(), 0
    show = functools.partial(print, end="", flush=True)
    if is_shown_growing:
        show((f"--- {first + 1} ---\n" if first is not None else "") + stories[0])
    beginnings = stories[:]
    for row, chunk in chunks:
        stories[row] += chunk
        if is_shown_growing:
            show(chunk)
        else:
            done += 1
            on_progress("writing", "tokens", done, 0)  # a text may end at any token
    if is_shown_growing:
        show("\n")
    if num_empty := sum(map(operator.eq, stories, beginnings)):
        hint = f"the model ended {num_empty} at once, as it may after little training"
        print(f"hint: of {len(stories)} stories, {hint}", file=sys.stderr)
    if is_shown_growing:
        return
    for number, story in enumerate(stories, start=1):
        print_result((f"--- {first + number} ---\n" if first is not None else "") + story)


if __name__ == "__main__":
    run(main)
