"""A run as one GGUF file, which llama.cpp reads, and what is built on it.

Weights and settings are those of a Llama folder (llama.py) under other names. Only the order of
rotated rows differs: llama.cpp turns the pairs of its architecture llama as the book does, and
those of qwen3 as such a folder does.

llama.cpp's pre-tokenizer "gpt-2" is GPT-2's pattern, as ours is, and gives our ids. Letters and
numbers that are newer than Unicode 15.1 are the exception: llama-cpp-python 0.3.36, which we tested
with, does not know them. Its function llama_detokenize closes up spaces before punctuation, as for
GPT-2 itself; tokens one by one, as programs write them, give back every byte.
"""

from pathlib import Path
from typing import Literal

import gguf

from cs_basics.interop.llama import read_llama_run
from cs_basics.interop.llama_weights import to_llama_weights
from cs_basics.interop.tokenizer_files import printable_vocab
from cs_basics.run.atomic import atomic_writer
from cs_basics.run.folder import RunFolder, Which
from cs_basics.run.tokenizer_folder import to_printable
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer

DType = Literal["float32", "float16", "q8_0"]
_TYPES = {
    "float32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "float16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}


def export_gguf(
    run: RunFolder, out: Path, which: Which = "latest", dtype: DType = "float32"
) -> int:
    """Write the model and tokenizer of a run as one GGUF file.

    Args:
        run: The run.
        out: The file to make.
        which: The checkpoint to export.
        dtype: Of the matrices; gains stay in float32. q8_0 has 8 bits a number and a scale for each
            32 of a row; a matrix whose rows are no multiple of 32 stays in float16.

    Returns:
        The number of parameters.

    Raises:
        OSError: A file is missing or cannot be written.
        ValueError: The model has no Llama form, GGUF cannot hold its tokenizer, a file of the run
            is damaged, or out exists.
    """
    if out.exists():
        raise ValueError(f"{out} already exists: choose another name, or remove it first")
    config, state, tokenizer = read_llama_run(run, which)
    architecture = gguf.MODEL_ARCH.QWEN3 if config.qk_norm else gguf.MODEL_ARCH.LLAMA
    kind, file_type = _TYPES[dtype]
    with atomic_writer(out) as file:
        writer = gguf.GGUFWriter(file.name, gguf.MODEL_ARCH_NAMES[architecture])
        writer.add_name(run.path.name)
        writer.add_file_type(file_type)
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        _add_sizes(writer, config)
        _add_tokenizer(writer, tokenizer, config.vocab_size)
        names = gguf.get_tensor_name_map(architecture, config.num_layers)
        weights = to_llama_weights(state, config, is_half_split=config.qk_norm)
        for llama_name, weight in weights.items():
            name = names[llama_name.removesuffix(".weight")] + ".weight"
            of_this = _type_of(weight.shape, kind)
            writer.add_tensor(name, gguf.quantize(weight.numpy(), of_this), raw_dtype=of_this)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return sum(weight.numel() for weight in weights.values())


def _type_of(shape: tuple[int, ...], kind: gguf.GGMLQuantizationType) -> gguf.GGMLQuantizationType:
    if len(shape) == 1:
        return gguf.GGMLQuantizationType.F32
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    return gguf.GGMLQuantizationType.F16 if shape[-1] % block else kind


def _add_sizes(writer: gguf.GGUFWriter, config: ModelConfig) -> None:
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.context_length)
    writer.add_embedding_length(config.d_model)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads or config.num_heads)
    writer.add_key_length(config.d_head)
    writer.add_value_length(config.d_head)
    writer.add_rope_dimension_count(config.d_head)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.norm_eps)


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer, num_rows: int) -> None:
    vocab, specials = printable_vocab(tokenizer)
    names = {row: f"[unused {row}]" for row in range(num_rows)}
    types = dict.fromkeys(names, gguf.TokenType.UNUSED)
    for token, row in vocab.items():
        names[row], types[row] = token, gguf.TokenType.NORMAL
    for token, row in specials.items():
        if row in vocab.values() and names[row] != token:
            raise ValueError(f"GGUF cannot hold the special token {token!r}, which is a byte, too")
        names[row], types[row] = token, gguf.TokenType.CONTROL
    merges = [" ".join(map(to_printable, merge)) for merge in tokenizer.merges]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(names.values()))
    writer.add_token_types(list(types.values()))
    # llama.cpp reads no file without merges; this one has no effect.
    writer.add_token_merges(merges or [""])
    writer.add_bos_token_id(specials[END_OF_TEXT])
    writer.add_eos_token_id(specials[END_OF_TEXT])
    writer.add_add_bos_token(False)
