"""Turn a Llama folder into a run folder: to generate with it, evaluate it, or train it further.

python scripts/import_llama.py story-writer --out runs/imported
python scripts/generate.py runs/imported --prompt "Once upon a time"
python scripts/train.py --run-dir runs/imported --resume --max-steps 200
"""

from pathlib import Path
from typing import Any

import tyro
from cli import check_can_write, command_line, run

from cs_basics.interop.llama import import_llama


def main(
    folder: tyro.conf.Positional[Path],
    out: Path,
    context_length: int | None = None,
    train_text: Path | None = None,
    valid_text: Path | None = None,
    lr: float = 1e-4,
    max_steps: int = 1_000,
) -> None:
    """Turn a Llama folder into a run folder: to generate with it, evaluate it, or train it further.

    Args:
        folder: The folder: config.json of type llama or qwen3, safetensors, and tokenizer.json of
            byte-level BPE.
        out: The run folder to make.
        context_length: Tokens the model sees at once (none: as many as the folder says);
            generation needs memory in proportion.
        train_text: Text to train it further on (none: stories from the grammar).
        valid_text: Text to validate on; goes with train_text.
        lr: Highest learning rate of further training.
        max_steps: Number of updates of further training.
    """
    check_can_write(out)
    settings: dict[str, Any] = {
        "train_text": train_text,
        "valid_text": valid_text,
        "lr": lr,
        "max_steps": max_steps,
    }
    if context_length is not None:
        settings["context_length"] = context_length
    config = import_llama(folder, out, **settings).model
    print(f"{out}: d_model {config.d_model}, {config.num_layers} layers, {config.num_heads} heads")
    print(f"generate       {command_line('generate', out, '--prompt', 'TEXT')}")
    print(f"evaluate       {command_line('evaluate', out, '--text', 'FILE')}")


if __name__ == "__main__":
    run(main)
