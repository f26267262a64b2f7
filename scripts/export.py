"""Export a trained model to what other programs load: a Llama folder, or one GGUF file.

python scripts/export.py runs/stories --out story-writer
python scripts/export.py runs/stories --out story-writer.gguf
"""

from pathlib import Path
from typing import Literal

import tyro
from cli import check_can_write, run

from cs_basics.interop.llama import export_llama
from cs_basics.run.folder import RunFolder, Which
from cs_basics.run.writing import first_words, opening

WITH_TRANSFORMERS = """load it with transformers (pip install transformers):

    from transformers import pipeline
    write = pipeline("text-generation", model="{out}")
    print(write({prompt!r})[0]["generated_text"])"""
WITH_LLAMA_CPP = """open it with llama.cpp, here from Python (pip install llama-cpp-python):

    from llama_cpp import Llama
    write = Llama("{out}", n_ctx=0, verbose=False)
    print(write({opening!r}, max_tokens=200)["choices"][0]["text"])"""


def main(
    run_dir: tyro.conf.Positional[Path],
    out: Path,
    dtype: Literal["float32", "float16", "q8_0"] = "float32",
    checkpoint: Which = "latest",
) -> None:
    """Export a trained model to what other programs load: a Llama folder, or one GGUF file.

    A model with QK-norm becomes one of type qwen3.

    Args:
        run_dir: The run folder.
        out: A name that ends in .gguf makes a file for llama.cpp and programs built on it; any
            other, a folder (config.json, model.safetensors, tokenizer.json and
            generation_config.json) for transformers and many other programs.
        dtype: Type of the matrices of a GGUF file. q8_0: 8 bits; a matrix whose rows are no
            multiple of 32 stays in float16.
        checkpoint: latest, or best: the one with the lowest validation loss.
    """
    check_can_write(out)
    folder = RunFolder(run_dir)
    if out.suffix == ".gguf":
        try:
            from cs_basics.interop.gguf_file import export_gguf
        except ModuleNotFoundError as error:
            raise ValueError(f"{error.name} is not installed: pip install gguf") from None
        num_parameters = export_gguf(folder, out, checkpoint, dtype)
        how = WITH_LLAMA_CPP
    elif dtype == "float32":
        num_parameters = export_llama(folder, out, checkpoint)
        how = WITH_TRANSFORMERS
    else:
        raise ValueError(f"--dtype {dtype} is of a .gguf file: a Llama folder is in float32")
    prompt = first_words(folder) or "Once"
    shown = how.format(out=out, prompt=prompt, opening=opening(prompt))
    print(f"{out}: {num_parameters:,} parameters in {dtype}\n\n{shown}")


if __name__ == "__main__":
    run(main)
