"""The optimizer of a run: its groups of weights, and the rate and decay of each."""

from typing import Any

from torch import nn
from torch.optim import Optimizer

from cs_basics.fast import accelerate
from cs_basics.optim import AdamW
from cs_basics.run.config import TrainConfig
from cs_basics.variants.head_bias import head_biases


def make_optimizer(model: nn.Module, config: TrainConfig, *, is_fast: bool = False) -> Optimizer:
    """Return the optimizer of a run.

    The embedding table has a learning rate of its own; a bias of the output head is not decayed.

    Args:
        model: The model whose weights are updated.
        config: Rates, betas, decay.
        is_fast: Take the fast twin.
    """
    optim = config.optim
    # Both are found by the names that the contract gives them (docs/handout.md).
    table = model.get_parameter("token_embeddings.weight")
    is_tied = table is model.get_parameter("lm_head.weight")
    ratio = 1.0 if is_tied else optim.embedding_lr_ratio
    biases = head_biases(model)
    held = {id(parameter) for parameter in (table, *biases)}
    others = {name: p for name, p in model.named_parameters() if id(p) not in held}
    groups: list[dict[str, Any]] = [
        {"params": list(others.values()), "lr_ratio": 1.0},
        {"params": [table], "lr_ratio": ratio, "weight_decay": optim.weight_decay / ratio},
    ]
    if biases:  # Decay would pull them to 0, as if all tokens were equally frequent.
        groups.append({"params": biases, "lr_ratio": 1.0, "weight_decay": 0.0})
    kind = AdamW
    if optim.optimizer == "muon":
        from cs_basics.variants.muon import Muon

        kind = Muon
        matrices = {n: p for n, p in others.items() if ".layers." in f".{n}" and p.dim() == 2}
        of_muon = {
            "lr_ratio": optim.muon_lr_ratio,
            "weight_decay": optim.weight_decay / optim.muon_lr_ratio,
            "momentum": 0.95,
            "num_steps": 3,
        }
        groups[0]["params"] = [p for name, p in others.items() if name not in matrices]
        groups.append({**of_muon, "params": list(matrices.values())})
    return (accelerate(kind) if is_fast else kind)(
        groups, lr=optim.lr, betas=(optim.beta1, optim.beta2), weight_decay=optim.weight_decay
    )
