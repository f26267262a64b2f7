"""Let a trained model continue a prompt.

python scripts/generate.py runs/stories --prompt "Once upon a time" --num-samples 3
"""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro
from cli import run

from cs_basics.generate import generate
from cs_basics.run.config import END_OF_TEXT, Sampling
from cs_basics.run.folder import RunFolder
from cs_basics.run.hardware import resolve_device
from cs_basics.run.text_stream import stream_text


def main(
    run_dir: Annotated[Path, tyro.conf.Positional],
    prompt: str = "",
    num_samples: int = 1,
    max_tokens: int = 300,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = 0.95,
    seed: int | None = None,
    stop: bool = True,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
) -> None:
    """Write text with a trained model, shown as it is drawn.

    Args:
        run_dir: The folder of a run.
        prompt: The beginning of the story; empty: the model begins by itself.
        num_samples: How many stories.
        max_tokens: Tokens to write at the most, each story.
        temperature: 0 always takes the likeliest token; the higher, the bolder.
        top_k: Draw from the k likeliest tokens only.
        top_p: Draw from the likeliest tokens that together have this probability only.
        seed: The same seed gives the same stories; none draws afresh.
        stop: End at the end of the story; otherwise go on with the next one.
        device: Where to run; auto: CUDA if there is one, then MPS, then the CPU.
    """
    for name, value in (("num_samples", num_samples), ("max_tokens", max_tokens)):
        if value < 1:
            raise ValueError(f"{name}={value} is below 1")
    folder = RunFolder(run_dir)
    model = folder.load_model(resolve_device(device))
    tokenizer = folder.load_tokenizer()
    # In training a story always follows the end of another one.
    context = tokenizer.encode(f"{END_OF_TEXT}\n{prompt}")
    for number in range(num_samples):
        if num_samples > 1:
            print(f"--- {number + 1} ---")
        ids = generate(
            model,
            context,
            max_tokens,
            Sampling(temperature=temperature, top_k=top_k, top_p=top_p),
            stop_ids=tokenizer.encode(END_OF_TEXT) if stop else (),
            seed=None if seed is None else seed + number,
        )
        print(prompt, end="", flush=True)
        for piece in stream_text(tokenizer, ids):
            sys.stdout.write(piece)
            sys.stdout.flush()
        print()


if __name__ == "__main__":
    run(main)
