"""Tensor parallelism: each process computes some heads, hidden features and vocabulary entries.

All processes read the same batch, and every matrix product is shared out among them; norms and the
residual stream are computed by each. Read split.py and parallel_layers.py first.
"""

from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.run.distributed import World
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
from cs_basics.run.parallel.split import BuildWhole, Split

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


class TensorParallel(Split):
    """Each process holds and computes a share of every matrix.

    Args:
        model: The model, not accelerated; shared out in place.
        optimizer: Optimizer of the model; its parameters are replaced by the shards.
        world: The process group, two processes or more.
        build: As in Split.
    """

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, world: World, build: BuildWhole
    ) -> None:
        super().__init__(model, world, build)
        # With duplicates: a tied weight has two names.
        whole = dict(model.named_parameters(remove_duplicate=False))
        self._axes = share_out(model)
        shared = dict(model.named_parameters(remove_duplicate=False))
        share_of = {id(whole[name]): shared[name] for name in whole}
        for group in optimizer.param_groups:
            group["params"] = [share_of[id(parameter)] for parameter in group["params"]]
        self._sizes = {name: whole[name].shape for name in whole}
        self.name_of = {id(parameter): name for name, parameter in shared.items()}

    def clip(self, optimizer: Optimizer, max_norm: float) -> float:  # noqa: ARG002
        """Clip the gradients; return their global norm, with replicated weights counted once."""
        held = {n: p for n, p in self.model.named_parameters() if p.grad is not None}
        parts = [p for n, p in held.items() if n in self._axes]
        same = [p for n, p in held.items() if n not in self._axes]
        return self.clip_parts(parts, same, max_norm)

    def gathered(self, part: Tensor, name: str) -> Tensor:
        """Put the shards of all processes together again."""
        axis = self._axes.get(name)
        return part if axis is None else gather(part, axis, self._sizes[name][axis])

    def share(self, whole: Tensor, name: str) -> Tensor:
        """Return this process's shard of a whole tensor."""
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
