"""A model of PyTorch's built-in layers, as many people write it; of the shape of ours."""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from cs_basics.run.config import TrainConfig

functional = nn.functional  # noqa: TID251 (a peer)


class BuiltInBlock(nn.Module):
    """Pre-norm, scaled_dot_product_attention, a gated feed-forward part; positions are learned.

    Args:
        config: The sizes.
    """

    def __init__(self, config: TrainConfig) -> None:
        super().__init__()
        d_model, d_ff = config.d_model, config.d_ff
        self.num_heads = config.num_heads
        self.ln1 = nn.RMSNorm(d_model)  # noqa: TID251 (a peer)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)  # noqa: TID251 (a peer)
        self.out = nn.Linear(d_model, d_model, bias=False)  # noqa: TID251 (a peer)
        self.ln2 = nn.RMSNorm(d_model)  # noqa: TID251 (a peer)
        self.gate = nn.Linear(d_model, d_ff, bias=False)  # noqa: TID251 (a peer)
        self.up = nn.Linear(d_model, d_ff, bias=False)  # noqa: TID251 (a peer)
        self.down = nn.Linear(d_ff, d_model, bias=False)  # noqa: TID251 (a peer)

    def forward(self, x: Tensor) -> Tensor:
        """Return the new residual stream."""
        batch, seq, d_model = x.shape
        q, k, v = (
            part.view(batch, seq, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).chunk(3, dim=-1)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, seq, d_model))
        y = self.ln2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class BuiltInLM(nn.Module):
    """Embeddings of tokens and positions, blocks, a head; returns the loss where transformers does.

    Args:
        config: The sizes.
    """

    def __init__(self, config: TrainConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)  # noqa: TID251 (a peer)
        self.places = nn.Embedding(config.context_length, config.d_model)  # noqa: TID251 (a peer)
        self.blocks = nn.ModuleList(BuiltInBlock(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.d_model)  # noqa: TID251 (a peer)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)  # noqa: TID251

    def forward(self, input_ids: Tensor, labels: Tensor) -> SimpleNamespace:
        """Return the loss of predicting each label."""
        places = torch.arange(input_ids.shape[-1], device=input_ids.device)
        x = self.tokens(input_ids) + self.places(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return SimpleNamespace(loss=loss)
