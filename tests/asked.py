"""Say in a line what a submission was asked, as one could type it where that is short enough."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import contract
import numpy as np

Inputs = Mapping[str, Any]

MOST_VALUES = 8
"""Arrays of more values are told by dtype and shape."""
MOST_LETTERS = 120


def question(inputs: Inputs) -> str:
    """Name the call that a probe makes with these inputs; "" where that says nothing."""
    arguments = inputs.get("arguments") or next(iter(inputs.get("cases", ())), None)
    if "function" in inputs and arguments is not None:
        return f"{inputs['function']}({', '.join(described(arguments, inputs))})"
    for key, say in QUESTIONS.items():
        if key in inputs:
            return say(inputs)
    return ""


def described(values: Inputs, how: Inputs) -> Iterator[str]:
    """Say in a few words what a call is given; `how` may change dtypes and memory layout."""
    dtypes, strided = how.get("dtypes") or {}, how.get("strided") or ()
    called = contract.current().renamed
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            layout = ", not contiguous" if name in strided else ""
            shown = called.get(name, name)
            if value.size <= MOST_VALUES and not layout and name not in dtypes:
                yield f"{shown}={typed(value)}"
            else:
                kind = dtypes.get(name, value.dtype)
                yield f"{shown}: {kind} of shape {value.shape}{layout}"
        elif name in ("arguments", "settings", "options") and value is not None:
            yield from described(value, how)
        elif name == "weights":
            yield f"weights: {len(value)} tensors"
        elif value is None and values is how.get("arguments"):
            yield f"{name}=None"
        elif not isinstance(value, list | dict) and value is not None:
            yield f"{name}={value!r:.80}"


def typed(array: np.ndarray) -> str:
    """A small array as nested lists, floats with the digits that tell them from others."""
    if array.ndim:
        return f"[{', '.join(map(typed, array))}]"
    return repr(array.item()) if array.dtype.kind != "f" else f"{array.item():.9g}"


def shortened(value: object, length: int = MOST_LETTERS) -> str:
    shown = repr(value)
    return shown if len(shown) <= length else f"{shown[:length]}... ({len(shown)} characters)"


def tokenizer(given: Inputs) -> str:
    merges, vocab = shortened(given["merges"]), given["vocab"]
    specials = given["special_tokens"]
    return (
        f"get_tokenizer(vocab: {len(vocab)} tokens, merges={merges}, special_tokens={specials!r})"
    )


def training(inputs: Inputs) -> str:
    rest = f"vocab_size={inputs['vocab_size']}, special_tokens={inputs['special_tokens']!r}"
    return f"run_train_bpe(a file of {shortened(inputs['text'])}, {rest})"


def clipping(inputs: Inputs) -> str:
    shapes = [None if gradient is None else gradient.shape for gradient in inputs["gradients"]]
    return (
        f"run_gradient_clipping(parameters with gradients of shapes {shortened(shapes)},"
        f" max_l2_norm={inputs['max_l2_norm']})"
    )


def batch(inputs: Inputs) -> str:
    sizes = ", ".join(described(inputs, {}))
    return f"run_get_batch({sizes})"


QUESTIONS: dict[str, Callable[[Inputs], str]] = {
    "tokenizer": lambda inputs: tokenizer(inputs["tokenizer"]),
    "vocab_size": training,
    "max_l2_norm": clipping,
    "dataset": batch,
    "place": lambda inputs: f"run_save_checkpoint and run_load_checkpoint with a {inputs['place']}",
}
"""What to say of probes that call no adapter by its name, by an input that only they have."""
