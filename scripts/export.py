"""Export a trained model to what other programs load: a Llama folder, or one GGUF file.

python scripts/export.py runs/stories --out story-writer
python scripts/export.py runs/stories --out story-writer.gguf --format gguf
"""

from pathlib import Path
from typing import Literal

import tyro
from cli import check_can_write, run

from cs_basics.interop.llama import export_llama
from cs_basics.run.folder import RunFolder, Which

WITH_TRANSFORMERS = """load it with transformers (pip install transformers):

    from transformers import pipeline
    write = pipeline("text-generation", model="{out}")
    print(write("Once upon a time")[0]["generated_text"])"""
WITH_LLAMA_CPP = """open it with llama.cpp, here from Python (pip install llama-cpp-python):

    from llama_cpp import Llama
    write = Llama("{out}", n_ctx=0, verbose=False)
    print(write("<|endoftext|>\\nOnce upon a time", max_tokens=200)["choices"][0]["text"])"""


def main(
    run_dir: tyro.conf.Positional[Path],
    out: Path,
    format: Literal["llama", "gguf"] = "llama",
    dtype: Literal["float32", "float16", "q8_0"] = "float32",
    checkpoint: Which = "latest",
) -> None:
    """Export a trained model to what other programs load: a Llama folder, or one GGUF file.

    A model with QK-norm becomes one of type qwen3.

    Args:
        run_dir: The run folder.
        out: The folder to make (config.json, model.safetensors, tokenizer.json and
            generation_config.json), or the GGUF file.
        format: llama: a folder, which transformers and many other programs load. gguf: a file,
            which llama.cpp runs, and what is built on it.
        dtype: Type of the matrices of a GGUF file. q8_0: 8 bits; a matrix whose rows are no
            multiple of 32 stays in float16.
        checkpoint: latest, or best: the one with the lowest validation loss.
    """
    check_can_write(out)
    if format == "gguf":
        try:
            from cs_basics.interop.gguf_file import export_gguf
        except ModuleNotFoundError as error:
            raise ValueError(f"{error.name} is not installed: pip install gguf") from None
        num_parameters = export_gguf(RunFolder(run_dir), out, checkpoint, dtype)
        how = WITH_LLAMA_CPP
    elif dtype == "float32":
        num_parameters = export_llama(RunFolder(run_dir), out, checkpoint)
        how = WITH_TRANSFORMERS
    else:
        raise ValueError(f"--dtype {dtype} needs --format gguf: a Llama folder is in float32")
    print(f"{out}: {num_parameters:,} parameters in {dtype}\n\n{how.format(out=out)}")


if __name__ == "__main__":
    run(main)
