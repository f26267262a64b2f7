"""The source code, from the book or a student, that computes what a page shows."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cs_basics import bpe, data, functional, generate
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

ROOT = Path(data.__file__).parents[1]


def book_lines(model: TransformerLM) -> dict[str, dict[str, Any]]:
    """Return file, line, name and source of the code of each part, by the part's name.

    The code is that of the model's own classes, whoever wrote them; without source, a part is left
    out.
    """
    parts = dict(model.named_modules())

    def forward(name: str) -> Callable[..., Any] | None:
        return type(parts[name]).forward if name in parts else None

    wanted: dict[str, Callable[..., Any] | None] = {
        "tokenizer": Tokenizer.encode,
        # A student's code may have no such function.
        "merge": getattr(bpe, "merge_by_rank", None),
        "block": forward("layers.0"),
        "norm": forward("layers.0.ln1"),
        "attention": forward("layers.0.attn"),
        "scores": functional.scaled_dot_product_attention,
        "rope": forward("layers.0.attn.rope"),
        "ffn": forward("layers.0.ffn"),
        "softmax": functional.softmax,
        "model": forward(""),
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
    if not path.is_relative_to(ROOT) or "site-packages" in path.parts:
        return None  # nn.Sequential, which stands where a model has no norm
    return {
        "file": path.relative_to(ROOT).as_posix(),
        "line": line,
        "name": function.__qualname__,
        "source": inspect.cleandoc("\n" + "".join(source)),
    }
