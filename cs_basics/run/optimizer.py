"""The optimizer of a run: its groups of weights, and the rate and decay of each."""

from typing import Any

from torch import nn
from torch.optim import Optimizer

from cs_basics.layers import Embedding
from cs_basics.optim import AdamW
from cs_basics.run.model import accelerate
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import TrainConfig

BETA1 = 0.9
"""Decay rate of AdamW's first moment, the mean gradient."""
MUON_LR_RATIO = 3.0
"""Learning rate of Muon's matrices, as a multiple of AdamW's for the other weights. Muon's updates
are scaled to the size of AdamW's. Runs of ten minutes were better by 0.002 bits per byte at twice
AdamW's rate, and worse by 0.02 at five times (four seeds, 2026-11-26)."""


def embedding_tables(model: nn.Module, sizes: ModelConfig) -> list[nn.Parameter]:
    """Return the embedding table of a model, whatever its name; none if it cannot be told.

    It is the weight of the Embedding, or where a model has a class of its own for that, the first
    weight of the table's shape.
    """
    shape = (sizes.vocab_size, sizes.d_model)
    found = [p for m in model.modules() if isinstance(m, Embedding) for p in m.parameters()]
    return (found or [p for p in model.parameters() if p.shape == shape])[:1]


def make_optimizer(model: nn.Module, config: TrainConfig, *, is_fast: bool = False) -> Optimizer:
    """Return the optimizer of a run.

    The embedding table has a learning rate of its own; a bias of the output head is not decayed.

    Args:
        model: The model whose weights are updated.
        config: Rates, betas, decay.
        is_fast: Take the fast twin.
    """
    optim = config.optim
    tables = embedding_tables(model, config.model)
    ratio = 1.0 if config.model.tie_embeddings else optim.embedding_lr_ratio
    biases = [p for name, p in model.named_parameters() if name == "lm_head.bias"]
    held = {id(parameter) for parameter in (*tables, *biases)}
    others = {name: p for name, p in model.named_parameters() if id(p) not in held}
    groups: list[dict[str, Any]] = [
        {"params": list(others.values()), "lr_ratio": 1.0},
        {"params": tables, "lr_ratio": ratio, "weight_decay": optim.weight_decay / ratio},
    ]
    if biases:  # Decay would pull them to 0, as if all tokens were equally frequent.
        groups.append({"params": biases, "lr_ratio": 1.0, "weight_decay": 0.0})
    kind = AdamW
    if optim.optimizer == "muon":
        from cs_basics.variants.muon import Muon

        kind = Muon
        matrices = {n: p for n, p in others.items() if ".layers." in f".{n}" and p.dim() == 2}
        of_muon = {
            "lr_ratio": MUON_LR_RATIO,
            "weight_decay": optim.weight_decay / MUON_LR_RATIO,
            "momentum": 0.95,
            "num_steps": 3,
        }
        groups[0]["params"] = [p for name, p in others.items() if name not in matrices]
        groups.append({**of_muon, "params": list(matrices.values())})
    return (accelerate(kind) if is_fast else kind)(
        groups, lr=optim.lr, betas=(BETA1, optim.beta2), weight_decay=optim.weight_decay
    )
