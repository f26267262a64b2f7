"""What goes into the norms of a model, and what happens when what comes out is changed."""

import contextlib
from collections.abc import Callable, Generator

import torch
from torch import Tensor, nn

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.transformer import TransformerBlock, TransformerLM


def stream_norms(model: TransformerLM) -> dict[str, RMSNorm | LayerNorm]:
    """Return the norms that read the residual stream, by place: "block 1, ln1" ... "ln_final"."""
    found: dict[str, RMSNorm | LayerNorm] = {}
    for number, block in enumerate(model.layers, start=1):
        assert isinstance(block, TransformerBlock)
        found |= {f"block {number}, ln1": block.ln1, f"block {number}, ln2": block.ln2}
    return {**found, "ln_final": model.ln_final}


@torch.no_grad()
def inputs_of_norms(model: TransformerLM, ids: Tensor) -> dict[str, Tensor]:
    """Return what each norm reads of a batch, (vectors, d_model)."""
    seen: dict[str, Tensor] = {}

    def note(place: str) -> Callable[[nn.Module, tuple[Tensor], Tensor], None]:
        def hook(_module: nn.Module, inputs: tuple[Tensor], _output: Tensor) -> None:
            seen[place] = inputs[0].flatten(0, -2)

        return hook

    hooks = [norm.register_forward_hook(note(at)) for at, norm in stream_norms(model).items()]
    try:
        model(ids)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


@contextlib.contextmanager
def changed_outputs(model: TransformerLM, change: Callable[[Tensor], Tensor]) -> Generator[None]:
    """Pass the output of every norm through a function."""

    def hook(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return change(output)

    hooks = [norm.register_forward_hook(hook) for norm in stream_norms(model).values()]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()
