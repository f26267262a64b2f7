"""The lines of the book, or of a student, that compute what a page shows."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cs_basics import bpe, data, functional, generate, pretokenize
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

ROOT = Path(data.__file__).parents[1]


def book_lines(model: TransformerLM) -> dict[str, dict[str, Any]]:
    """Return file, line, name and source of what computes each part, by the part's name.

    The classes are those of the model itself, whoever wrote them; what has no source is left out.
    """
    block: Any = model.layers[0]
    wanted: dict[str, Callable[..., Any] | None] = {
        "tokenizer": Tokenizer.encode,
        "merge": getattr(bpe, "merge_by_rank", None),
        "pretokens": getattr(pretokenize, "count_pretokens", None),
        "embedding": type(model.token_embeddings).forward,
        "block": type(block).forward,
        "norm": type(block.ln1).forward,
        "attention": type(block.attn).forward,
        "scores": functional.scaled_dot_product_attention,
        "rope": None if block.attn.rope is None else type(block.attn.rope).forward,
        "ffn": type(block.ffn).forward,
        "softmax": functional.softmax,
        "model": type(model).forward,
        "loss": functional.cross_entropy,
        "sample": generate.sample,
    }
    found = {name: _lines(function) for name, function in wanted.items() if function is not None}
    return {name: lines for name, lines in found.items() if lines is not None}


def _lines(function: Callable[..., Any]) -> dict[str, Any] | None:
    try:
        source, line = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function)
    except (OSError, TypeError):
        return None
    path = Path(file or "")
    place = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    if place.startswith("..") or "site-packages" in place:
        return None  # nn.Sequential, which stands where a model has no norm
    return {
        "file": place,
        "line": line,
        "name": function.__qualname__,
        "source": inspect.cleandoc("\n" + "".join(source)),
    }
