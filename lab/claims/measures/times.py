"""Times of one norm relative to another: layers, training steps, a token."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from cs_basics.fast import accelerate
from cs_basics.optim import AdamW, clip_grad_norm
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.updates import make_updates
from cs_basics.settings.presets import PRESETS
from cs_basics.settings.run import TrainConfig
from cs_basics.variants.model import Transformer
from lab.claims.measures.draws import normal
from lab.claims.measures.operations import calls_of
from lab.claims.rules import Figures
from lab.timing import alternating_times

CONFIG = PRESETS["own-text"][1].replace(tie_embeddings=False)
"""A model of 5 million parameters."""


def layers(
    seed: int,
    *,
    one: str,
    other: str,
    compiled: bool = False,
    other_compiled: bool | None = None,
    rows: int = 4096,
    widths: Sequence[int] = (512,),
    device: str = "cpu",
) -> Figures:
    """Time of the first norm / time of the second: forward_512, both_512 (with the backward)."""
    how = compiled, compiled if other_compiled is None else other_compiled
    ratios: dict[str, float] = {}
    for d in widths:
        x = normal(seed, rows, d).float().to(device).requires_grad_()
        calls = [calls_of(norm, x, compiled=c) for norm, c in zip((one, other), how, strict=True)]
        for direction in calls[0]:
            functions = [directions[direction] for directions in calls]
            first, second = alternating_times(functions, 51, device=torch.device(device))
            ratios[f"{direction}_{d}"] = first / second
    return ratios


def step_of(config: TrainConfig, seed: int, compiled: bool) -> Callable[[], None]:
    """Return an update of a fresh model, always with the same batch."""
    torch.manual_seed(seed)
    model = (accelerate(Transformer) if compiled else Transformer)(config.model)
    loss_of = make_loss_function(model, torch.float32)
    if compiled:
        loss_of = torch.compile(loss_of, dynamic=False)
    shape = (config.data.batch_size, config.model.context_length + 1)
    ids = torch.randint(config.model.vocab_size, shape)
    batch, optimizer = (ids[:, :-1], ids[:, 1:]), AdamW(model.parameters())

    def clip() -> float:
        return float(clip_grad_norm(model.parameters(), 1.0))

    return lambda: make_updates(optimizer, [batch], lambda _: 1e-3, loss_of, clip)


def models(
    seed: int, *, one: str, other: str, trains: bool = True, compiled: bool = False
) -> Figures:
    """Time with the first norm / with the second: of an update, or of reading one token."""
    torch.compiler.reset()
    calls: list[Callable[[], object]] = []
    for norm in (one, other):
        config = CONFIG.replace(norm=norm)
        model, ids = Transformer(config.model).requires_grad_(False), torch.tensor([[1]])
        calls.append(step_of(config, seed, compiled) if trains else partial(model, ids))
    first, second = alternating_times(calls, 7 if trains else 101)
    return {"step": first / second}
