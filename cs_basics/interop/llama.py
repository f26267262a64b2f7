"""Models to and from the Llama folders of Hugging Face, which many other programs read and write.

A folder holds config.json (llama_config.py), the weights in safetensors (llama_weights.py),
tokenizer.json (interchange.py) and what generation needs. The architecture is the one of
transformer.py, and the logits are the same up to rounding.

Test: pytest tests/project/test_interop.py
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from cs_basics.checkpoint import load_weights, save_checkpoint
from cs_basics.interop.llama_config import check_has_llama_form, read_llama_config, to_llama_config
from cs_basics.interop.llama_weights import WEIGHTS, read_llama_weights, save_llama_weights
from cs_basics.interop.tokenizer_files import load_tokenizer_json, save_tokenizer_json
from cs_basics.optim import AdamW
from cs_basics.run.atomic import atomic_folder
from cs_basics.run.config import END_OF_TEXT, TrainConfig
from cs_basics.run.folder import RunFolder, build_model
from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.run.trainer import SAMPLING, parameter_groups
from cs_basics.tokenizer import Tokenizer


def export_llama(run: RunFolder, out: Path) -> int:
    """Write the model and tokenizer of a run as a Llama folder, the weights in float32.

    Args:
        run: The run; its latest checkpoint is taken.
        out: The folder to make.

    Returns:
        The number of parameters.

    Raises:
        OSError: A file is missing or cannot be written.
        ValueError: The model has no Llama form, a file of the run is damaged, or out exists.
    """
    config = run.read_config()
    check_has_llama_form(config)
    model = run.load_model()
    tokenizer = run.load_tokenizer()
    check_tokenizer(tokenizer, config, run.tokenizer)
    with atomic_folder(out) as folder:
        num_parameters = save_llama_weights(model.state_dict(), config, folder / WEIGHTS)
        save_tokenizer_json(tokenizer, folder / "tokenizer.json")
        for name, content in descriptions(config, tokenizer).items():
            (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return num_parameters


def descriptions(config: TrainConfig, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """Return what stands in the JSON files of a Llama folder, by their names."""
    end_id = tokenizer.encode(END_OF_TEXT)[0]
    ends = {"bos_token_id": end_id, "eos_token_id": end_id}
    return {
        # No pad_token_id: transformers would never train the embedding of that token.
        "config.json": to_llama_config(config) | ends,
        "generation_config.json": {
            "do_sample": True,
            "temperature": SAMPLING.temperature,
            "top_p": SAMPLING.top_p,
            # A quarter of the context is left for the prompt.
            "max_new_tokens": max(1, 3 * config.context_length // 4),
            "pad_token_id": end_id,
            **ends,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": config.context_length,
            "clean_up_tokenization_spaces": False,
            **dict.fromkeys(("bos_token", "eos_token", "pad_token"), END_OF_TEXT),
        },
    }


def import_llama(folder: Path, out: Path, **settings: Any) -> TrainConfig:  # noqa: ANN401
    """Make a run folder of a Llama folder: to write with, to evaluate, to train further.

    Args:
        folder: The Llama folder.
        out: The run folder to make.
        settings: What else the configuration of the run shall hold, or hold instead; a shorter
            context_length needs less memory.

    Returns:
        The configuration of the run.

    Raises:
        OSError: A file is missing or cannot be read or written.
        ValueError: It is not a Llama folder, it needs what is not here, or out exists.
    """
    config = read_llama_config(folder / "config.json", **settings)
    tokenizer = load_tokenizer_json(folder / "tokenizer.json")
    check_tokenizer(tokenizer, config, folder / "tokenizer.json")
    weights = read_llama_weights(folder, config)
    model = build_model(config)
    load_weights(model, weights, os.fspath(folder))
    optimizer = AdamW(parameter_groups(model, config))
    with atomic_folder(out) as temporary:
        run = RunFolder(temporary)
        run.write_config(replace(config, run_dir=out), imported_from=folder.name)
        save_tokenizer(tokenizer, run.tokenizer)
        run.checkpoints.mkdir()
        # Without progress: a run that goes on from it has made no step.
        save_checkpoint(model, optimizer, 0, run.checkpoint_of(0))
    return config


def check_tokenizer(tokenizer: Tokenizer, config: TrainConfig, path: Path) -> None:
    """Refuse a tokenizer that does not fit the model.

    Raises:
        ValueError: It has ids that the model lacks, or no token that ends a text.
    """
    if END_OF_TEXT not in tokenizer.special_tokens:
        raise ValueError(f"{path} has no special token {END_OF_TEXT}, with which texts end here")
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"{path} has ids up to {tokenizer.vocab_size - 1}, the model has "
            f"vocab_size={config.vocab_size}"
        )
