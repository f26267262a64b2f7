"""Export a trained model as a Llama folder, which transformers and many other programs load.

python scripts/export.py runs/stories --out story-writer
"""

from pathlib import Path
from typing import Annotated, Literal

import tyro
from cli import check_can_write, run

from cs_basics.interop.llama import export_llama
from cs_basics.run.folder import RunFolder


def main(
    run_dir: Annotated[Path, tyro.conf.Positional],
    out: Path,
    checkpoint: Literal["latest", "best"] = "latest",
) -> None:
    """Export a trained model as a Llama folder, which transformers and many other programs load.

    A model with QK-norm becomes one of type qwen3.

    Args:
        run_dir: The run folder.
        out: The folder to make: config.json, model.safetensors, tokenizer.json and
            generation_config.json.
        checkpoint: latest, or best: the one with the lowest validation loss.
    """
    check_can_write(out)
    num_parameters = export_llama(RunFolder(run_dir), out, checkpoint)
    print(f"{out}: {num_parameters:,} parameters in float32\n")
    print("load it with transformers (pip install transformers):\n")
    print("    from transformers import pipeline")
    print(f'    write = pipeline("text-generation", model="{out}")')
    print('    print(write("Once upon a time")[0]["generated_text"])')


if __name__ == "__main__":
    run(main)
