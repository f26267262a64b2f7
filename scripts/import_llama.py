"""Make a run folder of a Llama folder: to write with it, to evaluate it, to train it further.

python scripts/import.py story-writer --out runs/imported
python scripts/generate.py runs/imported --prompt "Once upon a time"
python scripts/train.py stories --run-dir runs/imported --resume --max-steps 200
"""

from pathlib import Path
from typing import Annotated, Any

import tyro
from cli import check_can_write, run

from cs_basics.interop.llama import import_llama


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    out: Path,
    context_length: int | None = None,
    train_text: Path | None = None,
    valid_text: Path | None = None,
    lr: float = 1e-4,
    max_steps: int = 1_000,
) -> None:
    """Make a run folder of a Llama folder: to write with it, to evaluate it, to train it further.

    Args:
        folder: The Llama folder: config.json, safetensors, a tokenizer.json of GPT-2's kind.
        out: The run folder to make.
        context_length: Tokens the model sees at once (none: as many as the folder says); the
            memory that writing takes grows with it.
        train_text: For training it further: the text (none: stories from the grammar).
        valid_text: For training it further: the text to validate on.
        lr: For training it further: the highest learning rate.
        max_steps: For training it further: the number of updates.
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
    config = import_llama(folder, out, **settings)
    print(f"{out}: d_model {config.d_model}, {config.num_layers} layers, {config.num_heads} heads")
    print(f"write more     python scripts/generate.py {out} --prompt 'Once upon a time'")
    print(f"measure        python scripts/evaluate.py {out} --text FILE")


if __name__ == "__main__":
    run(main)
