"""Tensor parallelism: each process computes some heads, hidden features and vocabulary entries.

All processes read the same batch, and every matrix product is shared out among them; norms and the
residual stream are computed by each. Read parallel_layers.py first.
"""

import math
from typing import cast

from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.optim import clip_grad_norm
from cs_basics.run.checkpoint_file import Checkpoint
from cs_basics.run.distributed import (
    DDP,
    BuildWhole,
    Saved,
    World,
    map_optimizer_state,
)
from cs_basics.run.parallel.fsdp import scale_gradients
from cs_basics.run.parallel.parallel_layers import (
    ColumnParallelLinear,
    RowParallelLinear,
    Sharded,
    VocabParallelEmbedding,
    VocabParallelHead,
    gather,
    shard,
    summed,
)

LAYERS: dict[str, tuple[type[Sharded], int]] = {
    "token_embeddings": (VocabParallelEmbedding, 0),
    "q_proj": (ColumnParallelLinear, 0),
    "k_proj": (ColumnParallelLinear, 0),
    "v_proj": (ColumnParallelLinear, 0),
    "output_proj": (RowParallelLinear, 1),
    "w1": (ColumnParallelLinear, 0),
    "w3": (ColumnParallelLinear, 0),
    "w2": (RowParallelLinear, 1),
    "lm_head": (VocabParallelHead, 0),
}
"""What each layer becomes, and the axis along which its weight is sharded."""


class TensorParallel(DDP):
    """Each process holds and computes a share of every matrix.

    Args:
        model: The model, not accelerated; shared out in place.
        optimizer: Optimizer of the model; its parameters are replaced by the shards.
        world: The process group, two processes or more.
        build: Returns a whole model and its optimizer on the CPU, into which checkpoints are read.
    """

    is_split = True

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, world: World, build: BuildWhole
    ) -> None:
        super().__init__(model, world)
        self._build = build
        # With duplicates: a tied weight has two names.
        whole = dict(model.named_parameters(remove_duplicate=False))
        self._axes = share_out(model)
        shared = dict(model.named_parameters(remove_duplicate=False))
        share_of = {id(whole[name]): shared[name] for name in whole}
        for group in optimizer.param_groups:
            group["params"] = [share_of[id(parameter)] for parameter in group["params"]]
        self._sizes = {name: whole[name].shape for name in whole}
        self._name_of = {id(parameter): name for name, parameter in shared.items()}

    def clip(self, optimizer: Optimizer, max_norm: float) -> float:  # noqa: ARG002
        """Clip the gradients; return their global norm, with replicated weights counted once."""
        held = {n: p for n, p in self.model.named_parameters() if p.grad is not None}
        parts = [p for n, p in held.items() if n in self._axes]
        same = [p for n, p in held.items() if n not in self._axes]
        of_parts, of_same = (float(clip_grad_norm(one, math.inf)) for one in (parts, same))
        norm = math.sqrt(self.world.sum([of_parts**2])[0] + of_same**2)
        scale_gradients(held.values(), norm, max_norm)
        return norm

    def whole(self, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Gather model and optimizer from all processes; the results support `state_dict` only."""
        model_state = {
            name: self._gathered(value, name) for name, value in self.model.state_dict().items()
        }
        optimizer_state = map_optimizer_state(
            optimizer,
            optimizer.state_dict(),
            lambda part, of: self._gathered(part, self._name_of[id(of)]),
        )
        return cast(nn.Module, Saved(model_state)), cast(Optimizer, Saved(optimizer_state))

    def load(self, optimizer: Optimizer, checkpoint: Checkpoint) -> None:
        """Load the shard of this process from a checkpoint; errors as in DDP."""
        whole_model, whole_optimizer = self._build()
        checkpoint.load_into(whole_model, whole_optimizer)
        weights = {
            name: self._share(value, name) for name, value in whole_model.state_dict().items()
        }
        self.model.load_state_dict(weights)
        state = map_optimizer_state(
            optimizer,
            whole_optimizer.state_dict(),
            lambda whole, of: self._share(whole, self._name_of[id(of)]),
        )
        optimizer.load_state_dict(state)

    def _gathered(self, part: Tensor, name: str) -> Tensor:
        axis = self._axes.get(name)
        return part if axis is None else gather(part, axis, self._sizes[name][axis])

    def _share(self, whole: Tensor, name: str) -> Tensor:
        axis = self._axes.get(name)
        return whole if axis is None else shard(whole, axis)


def share_out(model: nn.Module) -> dict[str, int]:
    """Replace the matrices of a model by this process's shards; return each one's axis by name."""
    axes: dict[str, int] = {}
    shared: dict[int, nn.Parameter] = {}
    for name, module in list(model.named_modules()):
        owner, _, part = name.rpartition(".")
        kind, axis = LAYERS.get(part, (None, 0))
        if kind is None:
            if name.endswith(("q_norm", "k_norm")):
                # All heads share one gain, and each process has the gradient of its own heads only.
                for gain in module.parameters():
                    gain.register_hook(summed)
            continue
        whole = module.weight
        assert isinstance(whole, nn.Parameter)
        if id(whole) not in shared:  # Tied weights stay tied.
            shared[id(whole)] = nn.Parameter(shard(whole.detach(), axis))
        setattr(model.get_submodule(owner), part, kind(shared[id(whole)], whole.shape[0]))
        axes[f"{name}.weight"] = axis
    return axes
