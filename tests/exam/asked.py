"""Say in a line what a submission was asked, as one could type it where that is short enough."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

Inputs = Mapping[str, Any]

MOST_VALUES = 8
"""Arrays of more values are described by dtype and shape."""
MOST_LETTERS = 120
MOST_OF_A_TEXT = 400
"""Mistakes show in the texts to learn from and to encode: more of these is quoted."""


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
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            layout = ", not contiguous" if name in strided else ""
            if 0 < value.size <= MOST_VALUES and not layout and name not in dtypes:
                yield f"{name}={typed(value)}"
            else:
                kind = dtypes.get(name, value.dtype)
                yield f"{name}: {kind} of shape {value.shape}{layout}"
        elif name in ("arguments", "settings", "options") and value is not None:
            yield from described(value, how)
        elif name == "weights":
            yield f"weights: {len(value)} tensors"
        elif value is None and values is how.get("arguments"):
            yield f"{name}=None"
        elif not isinstance(value, list | dict) and value is not None:
            yield f"{name}={shortened(value)}"


def typed(array: np.ndarray) -> str:
    """A small array as nested lists, floats with the digits that tell them from others."""
    if array.ndim:
        return f"[{', '.join(map(typed, array))}]"
    return repr(array.item()) if array.dtype.kind != "f" else f"{array.item():.9g}"


def shortened(value: object, length: int = MOST_LETTERS) -> str:
    shown = repr(value)
    return shown if len(shown) <= length else f"{shown[:length]}... ({len(shown)} characters)"


def tokenizer(inputs: Inputs) -> str:
    """The short arguments first, and what the tokenizer is used for."""
    calls = {
        "texts": "encode({})",
        "rows": "decode({})",
        "chunkings": "encode_iterable({})",
        "text": "encode({})",
        "chunk": "encode_iterable({}, ...)",
        "line": "encode_iterable({}, ...)",
    }
    made = shown_tokenizer(inputs["tokenizer"])
    key = next(key for key in calls if key in inputs)
    values = inputs[key] if isinstance(inputs[key], list) else [inputs[key]]
    first = shortened(values[0], MOST_OF_A_TEXT) if values else ""
    more = f", and {len(values) - 1} more" if len(values) > 1 else ""
    return f"{made}.{calls[key].format(first)}{more}"


def shown_tokenizer(given: Inputs) -> str:
    merges, vocab = given["merges"], given["vocab"]
    told = repr(merges)
    if len(merges) > MOST_VALUES:
        told = f"{repr(merges[:4])[:-1]}, ...] ({len(merges)} of them)"
    return (
        f"get_tokenizer(special_tokens={given['special_tokens']!r},"
        f" merges={told}, vocab: {len(vocab)} tokens)"
    )


def tokenizers(inputs: Inputs) -> str:
    made = "; ".join(map(shown_tokenizer, inputs["tokenizers"]))
    return f"{made}; each in turn encodes {shortened(inputs['texts'], MOST_OF_A_TEXT)}"


def training(inputs: Inputs) -> str:
    text = shortened(inputs["text"], MOST_OF_A_TEXT) if "text" in inputs else "b''"
    size = f"vocab_size={inputs['vocab_size']}, " if "vocab_size" in inputs else ""
    return f"run_train_bpe({size}special_tokens={inputs['special_tokens']!r}, a file of {text})"


def steps(inputs: Inputs) -> str:
    """The parameters of each group with its own options, and all that changes on the way."""
    groups = [
        ", ".join(
            [
                f"parameters of shapes {shortened([array.shape for array in group['params']])}",
                *(f"{name}={value}" for name, value in group.items() if name != "params"),
            ]
        )
        for group in inputs["groups"]
    ]
    told = [*groups, *(f"{name}={value}" for name, value in inputs["options"].items())]
    rows, first = inputs["gradients"], inputs.get("added_after") or 0
    missing = [(n, i) for n, row in enumerate(rows) for i, g in enumerate(row) if g is None]
    on_the_way = {
        "no gradient at (step, parameter)": [place for place in missing if place[0] >= first],
        "lr at each step": inputs.get("rates"),
        "options set before each step": inputs.get("changes"),
        "saved and loaded after step": inputs.get("restart_after"),
        "last group added after step": inputs.get("added_after"),
        "steps of another optimizer in between": inputs.get("rival"),
    }
    rest = "".join(f"; {what} {shortened(value)}" for what, value in on_the_way.items() if value)
    return f"AdamW({'; '.join(told)}), {len(rows)} steps{rest}"


def rates(inputs: Inputs) -> str:
    its = inputs["iterations"]
    settings = ", ".join(f"{name}={value:.6g}" for name, value in inputs["settings"].items())
    told = str(its) if len(its) <= MOST_VALUES else f"{its[0]}, {its[1]}, ..., {its[-1]}"
    return f"run_get_lr_cosine_schedule(it, {settings}) at it = {told.strip('[]')}"


def clipping(inputs: Inputs) -> str:
    gradients = [g for g in inputs["gradients"] if g is not None]
    given = [
        "None" if g is None else typed(g) if g.size <= MOST_VALUES else f"of shape {g.shape}"
        for g in inputs["gradients"][:MOST_VALUES]
    ]
    more = f", ... ({len(inputs['gradients'])})" if len(inputs["gradients"]) > len(given) else ""
    kind = f", {gradients[0].dtype}" if gradients and gradients[0].dtype != np.float32 else ""
    return (
        f"run_gradient_clipping(parameters with the gradients {', '.join(given)}{more}{kind},"
        f" max_l2_norm={inputs['max_l2_norm']})"
    )


def checkpoint(inputs: Inputs) -> str:
    place, iteration = inputs.get("place", "path"), inputs.get("iteration", 3)
    return f"run_save_checkpoint(..., iteration={iteration}, out: {place}) and run_load_checkpoint"


def batch(inputs: Inputs) -> str:
    sizes = ", ".join(described(inputs, {}))
    return f"run_get_batch({sizes})"


QUESTIONS: dict[str, Callable[[Inputs], str]] = {
    "tokenizer": tokenizer,
    "tokenizers": tokenizers,
    "special_tokens": training,
    "groups": steps,
    "options": lambda inputs: f"AdamW({', '.join(described(inputs, {}))}).step(closure)",
    "megabytes": lambda inputs: f"run_get_batch(a memory map of {inputs['megabytes']} MiB, ...)",
    "kind": lambda inputs: question(inputs["inputs"]),
    "settings": rates,
    "max_l2_norm": clipping,
    "dataset": batch,
    "place": checkpoint,
    "frozen": checkpoint,
}
"""How to describe probes that are given no adapter's name, by an input that only they have."""
