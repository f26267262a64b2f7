"""What FSDP and tensor parallelism share: checkpoints and clipping of a model in parts."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from cs_basics.optim import clip_grad_norm
from cs_basics.run.checkpoint_file import Checkpoint
from cs_basics.run.distributed import DDP, World

BuildWhole = Callable[[], tuple[nn.Module, Optimizer]]
"""Builds a whole model and its optimizer on the CPU, into which checkpoints are read."""


class Split(DDP):
    """A model of which each process holds a part; the checkpoints are those of one process.

    Args:
        model: The model; a subclass splits it in place.
        world: The process group, two processes or more.
        build: Builds what checkpoints are read into.
    """

    is_split = True

    def __init__(self, model: nn.Module, world: World, build: BuildWhole) -> None:
        super().__init__(model, world)
        self._build = build
        self.name_of: dict[int, str] = {}
        """The name of the weight whose part the optimizer holds, by the id of the part."""

    @abstractmethod
    def gathered(self, part: Tensor, name: str) -> Tensor:
        """Put a tensor together from the processes' parts, which are split like a weight."""

    @abstractmethod
    def share(self, whole: Tensor, name: str) -> Tensor:
        """Return this process's part of a whole tensor, split like a weight."""

    def whole(self, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Gather model and optimizer from all processes; the results support `state_dict` only."""
        model_state = {name: self.gathered(part, name) for name, part in self._parts().items()}
        optimizer_state = self._convert(optimizer, optimizer.state_dict(), self.gathered)
        return cast(nn.Module, _Saved(model_state)), cast(Optimizer, _Saved(optimizer_state))

    def load(self, optimizer: Optimizer, checkpoint: Checkpoint) -> None:
        """Load the parts of this process from a checkpoint; errors as in DDP."""
        whole_model, whole_optimizer = self._build()
        checkpoint.load_into(whole_model, whole_optimizer)
        parts = self._parts()
        with torch.no_grad():
            for name, whole in whole_model.state_dict().items():
                parts[name].copy_(self.share(whole, name))
        state = self._convert(optimizer, whole_optimizer.state_dict(), self.share)
        optimizer.load_state_dict(state)

    def clip_parts(self, parts: Iterable[Tensor], same: Iterable[Tensor], max_norm: float) -> float:
        """Clip as `clip_grad_norm` does; return the joint norm of all processes' gradients.

        Args:
            parts: Weights of which each process holds a part.
            same: Weights that are the same on all processes, counted once.
            max_norm: The norm that is allowed.
        """
        parts, same = list(parts), list(same)
        of_parts, of_same = (float(clip_grad_norm(held, math.inf)) for held in (parts, same))
        norm = math.sqrt(self.world.sum([of_parts**2])[0] + of_same**2)
        if norm > max_norm:
            for parameter in (*parts, *same):
                assert parameter.grad is not None
                parameter.grad.mul_(max_norm / (norm + 1e-6))
        return norm

    def _parts(self) -> dict[str, Tensor]:
        """Return this process's part of each weight."""
        held = self.model.state_dict()
        return {n: t.to_local() if isinstance(t, DTensor) else t for n, t in held.items()}

    def _convert(
        self, optimizer: Optimizer, state: dict[str, Any], convert: Callable[[Tensor, str], Tensor]
    ) -> dict[str, Any]:
        """Convert the tensors of an optimizer's state, such as moments, to or from parts."""
        held = [part for group in optimizer.param_groups for part in group["params"]]
        per_weight = {
            number: {
                name: convert(value, self.name_of[id(held[number])])
                if isinstance(value, Tensor) and value.dim()
                else value
                for name, value in kept.items()
            }
            for number, kept in state["state"].items()
        }
        return {**state, "state": per_weight}


class _Saved:
    """A gathered state with the `state_dict` method that `save_checkpoint` calls."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def state_dict(self) -> dict[str, Any]:
        """Return the gathered state."""
        return self._state
