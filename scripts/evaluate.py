"""Measure how well a trained model predicts a text.

python scripts/evaluate.py runs/stories --text FILE
"""

import json
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import tyro
from cli import progress_printer, run
from process import keep_freed_memory

from cs_basics.run.encoding import encode_file
from cs_basics.run.evaluation import evaluate, make_loss_function
from cs_basics.run.folder import RunFolder, Which
from cs_basics.run.hardware import resolve_device, resolve_dtype
from cs_basics.run.look import look_at_text
from cs_basics.run.model import compile_loss

COMPILED_FROM = 5_000_000
"""Bytes of text from which compiling pays off; it takes half a minute the first time."""


def main(
    run_dir: tyro.conf.Positional[Path],
    text: Path,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    batch_size: int = 16,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    fast: Literal["auto", "off"] = "auto",
    checkpoint: Which = "latest",
) -> None:
    """Measure loss, perplexity, bits per byte and speed of a trained model on a whole text.

    Args:
        run_dir: The run folder.
        text: The text; stories separated by <|endoftext|>.
        as_json: Print one JSON object instead of a table.
        batch_size: Windows of text per batch.
        device: Device; auto: CUDA if there is one, then MPS, then the CPU.
        dtype: Type of the matrix products; auto: whichever is faster here.
        fast: off: the model of the book. auto: its faster twin, compiled for a long text.
        checkpoint: latest, or best: the one with the lowest validation loss.
    """
    keep_freed_memory()
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    folder = RunFolder(run_dir)
    config = folder.read_config()
    torch_device = resolve_device(device)
    tokenizer = folder.load_tokenizer(is_fast=fast == "auto")
    look_at_text(text, tokenizer.special_tokens)
    model = folder.load_model(torch_device, checkpoint, is_fast=fast == "auto")
    loss_of = plain_loss_of = make_loss_function(model, resolve_dtype(dtype, torch_device))
    if fast == "auto" and text.is_file() and text.stat().st_size >= COMPILED_FROM:
        loss_of = compile_loss(plain_loss_of, torch_device)
    show = progress_printer()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "tokens.bin"
        tokens = encode_file(tokenizer, text, path, on_progress=show)
        result = evaluate(
            loss_of,
            tokens,
            config.model.context_length,
            batch_size,
            torch_device,
            loss_of_rest=plain_loss_of,
            on_progress=show,
        )
    rows = {
        "loss": result.loss,
        "perplexity": result.perplexity,
        "bits_per_byte": result.bits_per_byte,
        "tokens_per_s": result.num_tokens / result.elapsed_s,
        "num_tokens": result.num_tokens,
    }
    if as_json:
        print(json.dumps({"run_dir": str(run_dir), "text": str(text), **rows}))
        return
    print(f"loss           {result.loss:.4f} nats per token")
    print(f"perplexity     {result.perplexity:.2f}")
    print(f"bits per byte  {result.bits_per_byte:.4f}")
    print(f"speed          {rows['tokens_per_s']:,.0f} tokens/s over {result.num_tokens:,} tokens")


if __name__ == "__main__":
    run(main)
