"""Import a Llama folder as a run folder, to generate, evaluate or train further.

python scripts/import_llama.py story-writer --out runs/imported
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
    """Import a Llama folder as a run folder, to generate, evaluate or train further.

    Args:
        folder: The Llama folder: config.json, safetensors, and a byte-level BPE tokenizer.json.
        out: The run folder to make.
        context_length: Context length (none: that of the folder); the memory of generation grows
            with it.
        train_text: For further training: the text (none: the embedded corpus).
        valid_text: For further training: the text to validate on.
        lr: For further training: the highest learning rate.
        max_steps: For further training: the number of updates.
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
