"""An ensemble: several models of the same sizes, whose mean probability is the prediction.

Lakshminarayanan et al. 2017, sec. 2.4 (https://arxiv.org/abs/1612.01474). Each member learns by
itself, from the loss of its own predictions, but gradients are clipped by their joint norm; members
differ in their first weights and in what dropout hides from them. Each learns other details of a
small text by heart, and in the mean each detail weighs less.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cs_basics.functional import softmax
from cs_basics.transformer import TransformerLM
from cs_basics.variants.config import ModelConfig
from cs_basics.variants.model import build_model

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""The mean loss of a batch, of inputs and targets."""


class Ensemble(nn.Module):
    """Predict with the mean of the probabilities of several models.

    Args:
        members: The models, at least one, of the same vocabulary and context length.
    """

    def __init__(self, members: Iterable[TransformerLM]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        first = self.members[0]
        self.vocab_size, self.context_length = first.vocab_size, first.context_length

    def forward(
        self, token_ids: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq {self.vocab_size}"]:
        """Return the logarithm of the mean probability of every possible next token.

        These are logits whose softmax is that mean: shapes and errors as in TransformerLM, in at
        least float32.
        """
        each = [member(token_ids) for member in self.members]
        wide = torch.promote_types(each[0].dtype, torch.float32)
        mean = torch.stack([softmax(logits.to(wide), dim=-1) for logits in each]).mean(dim=0)
        # A probability that has become 0 counts as the smallest number, or the loss is infinite.
        return mean.clamp_min(torch.finfo(wide).tiny).log()


def build_models(
    config: ModelConfig,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> TransformerLM | Ensemble:
    """Return a freshly initialised model, or an ensemble of num_models of them."""
    one = config.of_member()
    if config.num_models == 1:
        return build_model(one, device, dtype)
    return Ensemble(build_model(one, device, dtype) for _ in range(config.num_models))


def mean_of(losses: Sequence[LossFunction]) -> LossFunction:
    """Return the mean of the losses of the members: what an ensemble is trained with."""

    def loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
        return torch.stack([one(inputs, targets) for one in losses]).mean()

    return loss_of if len(losses) > 1 else losses[0]


def members_of(model: nn.Module) -> list[TransformerLM]:
    """Return the members of an ensemble, or the model itself if it is not one."""
    return list(model.members) if isinstance(model, Ensemble) else [model]  # pyright: ignore[reportReturnType]
