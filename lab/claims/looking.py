"""The norms of a trained model, and what happens when their outputs are changed."""

import contextlib
from collections.abc import Callable, Generator

from torch import Tensor, nn

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.study.microscope.reading import norms_of
from cs_basics.transformer import TransformerLM


def gained_norms(model: TransformerLM) -> dict[str, RMSNorm | LayerNorm]:
    """Return the norms of the residual stream that have a gain, by name."""
    return {
        name: norm
        for name, norm in norms_of(model).items()
        if isinstance(norm, RMSNorm | LayerNorm)
    }


@contextlib.contextmanager
def changed_outputs(model: TransformerLM, change: Callable[[Tensor], Tensor]) -> Generator[None]:
    """Pass the output of every norm through a function."""

    def hook(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return change(output)

    hooks = [norm.register_forward_hook(hook) for norm in gained_norms(model).values()]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()
