"""A walk through a model: one sentence, and at every part its shape, its size and its line of code.

What is printed comes from running the model: a hook at each part says which line called it.
"""

import inspect
import linecache
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from cs_basics.transformer import TransformerLM
from cs_basics.variants.value_residual import StreamAndValues, stream_of

PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Stop:
    """What a part of the model made of its input."""

    part: str
    """Its name in the model, such as "layers.0.ln1"."""
    kind: str
    """The name of its class."""
    shape_in: tuple[int, ...]
    shape_out: tuple[int, ...]
    rms_in: float | None
    """Root mean square of what it read; None for token ids."""
    rms_out: float
    file: str
    """Where it was called, relative to the repository."""
    line: int
    source: str
    """That line."""


def walk(model: TransformerLM, token_ids: Int[Tensor, "batch seq"]) -> list[Stop]:
    """Run a model and stop at each of its parts, and at the parts of its first block.

    Args:
        model: A Transformer.
        token_ids: The sentence, (1, seq).
    """
    guide = _Guide()
    hooks: list[RemovableHandle] = []
    for name, part in model.named_modules():
        if _is_shown(name, part):
            hooks.append(part.register_forward_pre_hook(partial(guide.enter, name)))
            hooks.append(part.register_forward_hook(partial(guide.leave, name)))
    try:
        with torch.no_grad():
            model(token_ids)
    finally:
        for hook in hooks:
            hook.remove()
    return guide.stops


class _Guide:
    """Takes down the stops of a walk."""

    def __init__(self) -> None:
        self.stops: list[Stop] = []
        self.entered: dict[str, int] = {}
        """How many stops there were before a part."""

    def enter(self, name: str, *_: object) -> None:
        self.entered[name] = len(self.stops)

    def leave(
        self,
        name: str,
        part: nn.Module,
        inputs: tuple[StreamAndValues, ...],
        output: StreamAndValues,
    ) -> None:
        file, line = _caller()
        x, y = stream_of(inputs[0]), stream_of(output)
        stop = Stop(
            part=name,
            kind=type(part).__name__,
            shape_in=tuple(x.shape),
            shape_out=tuple(y.shape),
            rms_in=_rms(x) if x.is_floating_point() else None,
            rms_out=_rms(y),
            file=file.relative_to(PACKAGE.parent).as_posix(),
            line=line,
            source=linecache.getline(str(file), line).strip(),
        )
        # A block comes before its parts, though it ends after them.
        self.stops.insert(self.entered[name], stop)


def as_text(stops: list[Stop]) -> str:
    """Return the walk as lines for a terminal."""
    lines: list[str] = []
    for stop in stops:
        indent = "  " * stop.part.count(".")
        size = f"RMS {stop.rms_out:.3g}"
        if stop.rms_in is not None:
            size = f"RMS {stop.rms_in:.3g} -> {stop.rms_out:.3g}"
        shapes = f"{_shape(stop.shape_in)} -> {_shape(stop.shape_out)}"
        lines.append(f"{indent}{stop.part} ({stop.kind}): {shapes}, {size}")
        lines.append(f"{indent}    {stop.file}:{stop.line}  {stop.source}"[:100])
    return "\n".join(lines)


def _is_shown(name: str, part: nn.Module) -> bool:
    """Leave out the model itself, lists, and the insides of all blocks but the first."""
    if not name or isinstance(part, nn.ModuleList) or name.endswith("rope"):
        return False
    depth = name.count(".")
    return depth < 2 or name.startswith("layers.0.")


def _caller() -> tuple[Path, int]:
    """The nearest line of this package, outside this file, that is being executed."""
    frame = inspect.currentframe()
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE) and file != Path(__file__):
            return file, frame.f_lineno
        frame = frame.f_back
    raise RuntimeError("the model was not called from its own code")


def _rms(x: Tensor) -> float:
    return x.float().square().mean().sqrt().item()


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
