"""The model of a run and its fast twins, made of the folders that are there.

A run stands on the book alone. The student edition leaves out cs_basics/variants, cs_basics/fast
and cs_basics/run/parallel, and no other file asks for them: without fast twins the book's own code
runs, and a setting that needs a missing folder is refused. Imports are local to the function that
needs them, so that encoding a text imports no torch.
"""

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import TrainConfig

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch
    from torch import Tensor
    from torch.optim import Optimizer

    from cs_basics.transformer import TransformerLM
    from cs_basics.variants.dropout import Dropout

    LossFunction = Callable[[Tensor, Tensor], Tensor]

Thing = TypeVar("Thing")

PACKAGE = Path(__file__).parents[1]

NEEDS = {
    **dict.fromkeys(
        [
            *("norm", "norm_eps", "placement", "positions", "num_kv_heads", "head_dim", "ffn"),
            *("qk_norm", "value_residual", "tie_embeddings", "head_bias"),
            *("optimizer", "dropout"),
        ],
        "variants",
    ),
    "parallel": "run/parallel",
}
"""The folder that a setting needs with any value but its default."""

logger = logging.getLogger(__name__)


def has_room(name: str) -> bool:
    """Tell whether a folder of cs_basics is there."""
    return (PACKAGE / name / "__init__.py").is_file()


def beyond_the_book(section: Any) -> dict[str, object]:  # noqa: ANN401  a dataclass
    """Return the settings of a section of the configuration that need a folder."""
    return {
        entry.name: getattr(section, entry.name)
        for entry in dataclasses.fields(section)
        if entry.name in NEEDS and getattr(section, entry.name) != entry.default
    }


def check_rooms(config: TrainConfig) -> None:
    """Refuse settings whose folder is left out, or that the chosen norm ignores.

    Raises:
        ValueError: There is such a setting.
    """
    for section in (config.model, config.data, config.optim, config.run):
        _check_section(section)
    if config.model.norm != ModelConfig.norm:
        from cs_basics.variants.model import make_norm

        make_norm(config.model)


def _check_section(section: Any) -> None:  # noqa: ANN401  a dataclass
    for name, value in beyond_the_book(section).items():
        if not has_room(NEEDS[name]):
            raise ValueError(
                f"{name}={value} needs cs_basics/{NEEDS[name]}, which this edition leaves out: "
                "leave the option out, or take a preset without it, such as stories"
            )


def accelerate(thing: Thing) -> Thing:
    """Return the fast twin of a class or a function of the book; itself where there is none."""
    if not has_room("fast"):
        return thing
    from cs_basics.fast import accelerate

    return accelerate(thing)


def build_model(
    config: ModelConfig, device: "torch.device | str | None" = None, *, is_fast: bool = False
) -> "TransformerLM":
    """Build the model that a configuration describes: the book's, unless it asks for more.

    Args:
        config: The sizes and the choices.
        device: Where the weights live.
        is_fast: Build it of fast twins, where there are any.

    Raises:
        ValueError: The configuration needs a folder that is left out, or the device cannot compute
            what the book computes.
    """
    if not is_fast and str(device).startswith("mps"):
        raise ValueError("fast=off needs float64, which device=mps lacks: use fast=auto or the cpu")
    _check_section(config)
    if beyond_the_book(config) or (is_fast and has_room("fast")):
        from cs_basics.variants.model import Transformer

        return (accelerate(Transformer) if is_fast else Transformer)(config, device)
    from cs_basics.transformer import TransformerLM

    sizes = {name: value for name, value in dataclasses.asdict(config).items() if name not in NEEDS}
    model = TransformerLM(**sizes, device=device)
    # generate.py reads both, which a student's model need not keep.
    for name in ("vocab_size", "context_length"):
        if not hasattr(model, name):
            setattr(model, name, sizes[name])
    return model


def make_model(
    config: TrainConfig,
    tokens: "npt.NDArray[np.integer[Any]]",
    device: "torch.device",
    *,
    is_fast: bool,
) -> "TransformerLM":
    """Build the model of a run as it is before the first update.

    Args:
        config: The run.
        tokens: Token ids of the training text: a bias of the head begins at their shares.
        device: Where the weights live.
        is_fast: Build it of fast twins, where there are any.
    """
    model = build_model(config.model, device, is_fast=is_fast)
    if config.model.head_bias:
        from cs_basics.variants.head_bias import set_head_bias

        set_head_bias(model, tokens)
    return model


def make_dropout(model: "TransformerLM", config: TrainConfig, num_rows: int) -> "Dropout | None":
    """Give a model the masks of dropout, if there is to be any, for the rows of a micro-batch."""
    if not config.optim.dropout:
        return None
    from cs_basics.variants.dropout import Dropout

    shape = (num_rows, config.model.context_length, config.model.d_model)
    return Dropout(model, config.optim.dropout, shape)


def batch_generator(model: "TransformerLM") -> Callable[..., Any] | None:
    """Return what continues several prompts of a model at once, or None where nothing does."""
    if not has_room("fast"):
        return None
    from cs_basics.fast.cached import can_decode
    from cs_basics.fast.decoding import generate_batch

    return generate_batch if can_decode(model) else None


def compile_training(
    model: "TransformerLM",
    plain_loss_of: "LossFunction",
    optimizer: "Optimizer",
    config: TrainConfig,
    dtype: "torch.dtype",
    num_rows: int,
    *,
    is_alone: bool,
) -> "LossFunction":
    """Compile the training step as far as this machine can.

    Args:
        model: The model to train.
        plain_loss_of: Its loss, uncompiled.
        optimizer: Its optimizer; with fast twins, its update is compiled in place.
        config: The run.
        dtype: Type of the matrix products.
        num_rows: Sequences of a micro-batch.
        is_alone: Whether this is the only process that trains the model.

    Returns:
        The compiled loss.
    """
    if has_room("fast"):
        from cs_basics.fast.training import compile_training

        return compile_training(model, config.model, optimizer, dtype, num_rows, is_alone=is_alone)
    import torch

    device = next(model.parameters()).device
    # An evaluation takes the graph of training: compiling another costs more than it saves.
    return torch.enable_grad()(compile_loss(plain_loss_of, device))


def compile_loss(loss_of: "LossFunction", device: "torch.device") -> "LossFunction":
    """Compile a loss; it runs uncompiled, with a logged reason, where that fails."""
    if has_room("fast"):
        from cs_basics.fast.compilation import compile_if_possible

        return compile_if_possible(loss_of, device)
    import torch

    current = compiled = torch.compile(loss_of)

    def call(inputs: "Tensor", targets: "Tensor") -> "Tensor":
        nonlocal current
        try:
            return current(inputs, targets)
        except Exception as error:
            if current is not compiled:
                raise
            # An error in a student's code comes again below, with a traceback that can be read.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            logger.warning("torch.compile does not work here, so the run is slower: %s", reason)
            current = loss_of
            return current(inputs, targets)

    return call
