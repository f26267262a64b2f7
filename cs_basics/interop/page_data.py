"""What a page knows of a run: sizes, tokenizer, a piece of validation text, and the weights.

Weights of two axes are rounded to int8, row by row with a float32 scale each; gains and biases stay
float32. The readers of all this are page/weights.js and page/tokenizer.js.
"""

import base64
import functools
from dataclasses import asdict
from typing import Any

import numpy as np
import regex
import torch
from jaxtyping import Float
from torch import Tensor

from cs_basics.run.folder import RunFolder
from cs_basics.run.samples import SAMPLING
from cs_basics.run.token_file import open_token_file
from cs_basics.run.writing import first_words
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

LARGEST = 127
"""The largest int8 that is used, so that the negative of every value exists too."""


def to_int8(
    weight: Float[Tensor, "rows columns"],
) -> tuple[Tensor, Float[Tensor, " rows"]]:
    """Round each row to multiples of a 127th of its largest value.

    Returns:
        The multiples, int8 (rows, columns), and the scales by which they are multiplied, (rows).
    """
    scales = weight.abs().amax(dim=-1) / LARGEST
    # A row of zeros has the scale 0, and 0 / 0 would be NaN.
    multiples = (weight / scales.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(-1)).round()
    return multiples.to(torch.int8), scales


def rounded_to_int8(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict as a page has it: each weight of two axes rounded to int8 and back."""
    rounded = dict(state)
    for name, weight in state.items():
        if weight.ndim == 2:
            multiples, scales = to_int8(weight)
            rounded[name] = multiples.float() * scales.unsqueeze(-1)
    return rounded


def weights_data(state: dict[str, Tensor], *, is_exact: bool) -> tuple[list[dict[str, Any]], str]:
    """Return the position of each weight, and the bytes of all weights in base64.

    Args:
        state: A state dict, float32.
        is_exact: Keep float32.
    """
    packed = bytearray()

    def put(values: Tensor) -> int:
        packed.extend(bytes(-len(packed) % 4))  # a Float32Array must start at a multiple of 4
        start = len(packed)
        packed.extend(values.contiguous().numpy().tobytes())
        return start

    # Tied weights have two names and are stored once.
    places: dict[tuple[int, torch.Size], dict[str, Any]] = {}
    named: list[dict[str, Any]] = []
    for name, weight in state.items():
        key = (weight.data_ptr(), weight.shape)
        if key not in places:
            values, scales = weight.detach().cpu().float(), None
            if values.ndim == 2 and not is_exact:
                values, scales = to_int8(values)
            places[key] = {
                "shape": list(weight.shape),
                "at": put(values),
                "scales_at": None if scales is None else put(scales),
            }
        named.append({"name": name, **places[key]})
    return named, base64.b64encode(packed).decode("ascii")


def tokenizer_data(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return a tokenizer for JSON: bytes become characters of the same code."""
    return {
        "vocab": [(i, token.decode("latin-1")) for i, token in sorted(tokenizer.vocab.items())],
        "merges": [(a.decode("latin-1"), b.decode("latin-1")) for a, b in tokenizer.merges],
        "special_tokens": tokenizer.special_tokens,
        "letters": character_class(r"\p{L}"),
        "numbers": character_class(r"\p{N}"),
    }


@functools.cache
def character_class(pattern: str) -> str:
    r"""Return the ranges of matching characters, as in a character class of JavaScript.

    A browser's own `\p{L}` follows its version of Unicode, and tokens would depend on the browser.
    """
    codes = np.arange(0x110000, dtype="<u4")
    every = codes[(codes < 0xD800) | (codes >= 0xE000)].tobytes().decode("utf-32-le")
    runs = (match.group() for match in regex.finditer(f"{pattern}+", every))
    return "".join(f"\\u{{{ord(run[0]):x}}}-\\u{{{ord(run[-1]):x}}}" for run in runs)


def validation_data(run: RunFolder, num_tokens: int) -> dict[str, Any] | None:
    """Return the beginning of the validation text and its bytes per token; None without one."""
    path = run.tokens / "valid.bin"
    if not path.exists():
        return None
    text = open_token_file(path)
    ids = text.tokens[:num_tokens].astype(np.int64).tolist()
    return {"ids": ids, "bytes_per_token": text.num_bytes / text.num_tokens}


def page_data(run: RunFolder, model: TransformerLM, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return everything that the page knows of a run except the weights."""
    config = run.read_config()
    return {
        "name": run.path.absolute().name,
        "config": asdict(config.model),
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tokenizer": tokenizer_data(tokenizer),
        "end_of_text": END_OF_TEXT,
        "beginning": first_words(run),
        "sampling": {
            "temperature": SAMPLING.temperature,
            "top_k": SAMPLING.top_k,
            "top_p": SAMPLING.top_p,
        },
        "validation": validation_data(run, config.model.context_length + 1),
    }
