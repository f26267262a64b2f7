"""Runs to and from the Llama folders of Hugging Face, which many other programs read and write.

A Llama folder holds config.json (llama_config.py), the weights in safetensors (llama_weights.py),
tokenizer.json (tokenizer_files.py) and settings for generation. The architecture is that of
transformer.py, or with QK-norm Qwen3's; the logits are the same up to rounding.
"""

import json
import logging
from pathlib import Path
from typing import Any

from torch import Tensor

from cs_basics.bpe import SINGLE_BYTES
from cs_basics.interop.llama_config import check_has_llama_form, read_llama_config, to_llama_config
from cs_basics.interop.llama_weights import (
    WEIGHTS,
    read_llama_weights,
    save_llama_weights,
    to_llama_weights,
)
from cs_basics.interop.tokenizer_files import load_tokenizer_json, save_tokenizer_json
from cs_basics.run.atomic import atomic_folder
from cs_basics.run.checkpoint_file import write_checkpoint
from cs_basics.run.folder import RunFolder, Which
from cs_basics.run.model import build_model
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.samples import SAMPLING
from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import END_OF_TEXT, TrainConfig
from cs_basics.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

TABLES = {"token_embeddings.weight", "lm_head.weight"}
"""The weights that have a row for each token."""


def export_llama(run: RunFolder, out: Path, which: Which = "latest") -> int:
    """Write the model and tokenizer of a run as a Llama folder, the weights in float32.

    Args:
        run: The run.
        out: The folder to make.
        which: The checkpoint to export.

    Returns:
        The number of parameters.

    Raises:
        OSError: A file is missing or cannot be written.
        ValueError: The model has no Llama form, a file of the run is damaged, or out exists.
    """
    config, state, tokenizer = read_llama_run(run, which)
    with atomic_folder(out) as folder:
        num_parameters = save_llama_weights(to_llama_weights(state, config), folder / WEIGHTS)
        save_tokenizer_json(tokenizer, folder / "tokenizer.json")
        for name, content in descriptions(config, tokenizer).items():
            (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return num_parameters


def read_llama_run(
    run: RunFolder, which: Which
) -> tuple[ModelConfig, dict[str, Tensor], Tokenizer]:
    """Return the model of a run that Llama's architecture can express, and its tokenizer.

    Raises:
        OSError: A file is missing.
        ValueError: The model has no Llama form, or a file of the run is damaged.
    """
    config = run.read_config().model
    check_has_llama_form(config)
    model = run.load_model(which=which)
    tokenizer = run.load_tokenizer()
    check_tokenizer(tokenizer, config, run.tokenizer)
    return config, model.state_dict(), tokenizer


def descriptions(config: ModelConfig, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """Return the contents of the JSON files of a Llama folder, by file name."""
    end_id = tokenizer.encode(END_OF_TEXT)[0]
    ends = {"bos_token_id": end_id, "eos_token_id": end_id}
    return {
        # No pad_token_id: transformers would never train the embedding of that token.
        "config.json": to_llama_config(config) | ends,
        "generation_config.json": {
            "do_sample": True,
            "temperature": SAMPLING.temperature,
            "top_p": SAMPLING.top_p,
            # The last quarter of the context is for the prompt.
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
    """Turn a Llama folder into a run folder: to generate with, to evaluate, to train further.

    Args:
        folder: The Llama folder.
        out: The run folder to make.
        settings: Further settings of the run (TrainConfig). They override those of the folder: a
            shorter context_length, for example, needs less memory.

    Returns:
        The configuration of the run.

    Raises:
        OSError: A file is missing or cannot be read or written.
        ValueError: It is not a Llama folder, it uses a feature that is not supported, or out
            exists.
    """
    config = read_llama_config(folder / "config.json", **settings)
    path = folder / "tokenizer.json"
    tokenizer = load_tokenizer_json(path)
    check_tokenizer(tokenizer, config.model, path)
    held = set(tokenizer.vocab.values())
    if num_missing := sum(byte not in held for byte in SINGLE_BYTES):
        logger.warning(
            "warning: %s has no token for %d of the 256 bytes: a text or prompt that holds one of "
            "them is refused",
            path,
            num_missing,
        )
    weights = read_llama_weights(folder, config.model)
    # The rows above belong to no token, and the model would write them, too.
    for name in TABLES & weights.keys():
        weights[name] = weights[name][: tokenizer.vocab_size]
    config = config.replace(vocab_size=tokenizer.vocab_size)
    model = build_model(config.model)
    model.load_state_dict(weights)
    with atomic_folder(out) as temporary:
        run = RunFolder(temporary)
        run.write_config(config.replace(run_dir=out), imported_from=folder.resolve().name)
        save_tokenizer(tokenizer, run.tokenizer)
        # No progress is stored: a run that goes on from here begins with its first step.
        write_checkpoint(run.checkpoint_of(0), model, make_optimizer(model, config), 0)
    return config


def check_tokenizer(tokenizer: Tokenizer, config: ModelConfig, path: Path) -> None:
    """Refuse a tokenizer that does not fit the model.

    Raises:
        ValueError: It has more ids than the model, or no special token that ends a text.
    """
    if END_OF_TEXT not in tokenizer.special_tokens:
        raise ValueError(f"{path} has no special token {END_OF_TEXT}, which ends a text here")
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"{path} has ids up to {tokenizer.vocab_size - 1}, the model has "
            f"vocab_size={config.vocab_size}"
        )
