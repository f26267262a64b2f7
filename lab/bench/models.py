"""The models that are compared (ours, transformers', PyTorch's layers), and an update of ours."""

import importlib
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.optim import clip_grad_norm
from cs_basics.run.evaluation import LossFunction
from cs_basics.run.updates import make_updates
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import TrainConfig
from cs_basics.training import Batch
from cs_basics.transformer import TransformerLM
from cs_basics.variants.model import Transformer

functional = nn.functional
linear = partial(nn.Linear, bias=False)

SHAPE = ModelConfig(
    vocab_size=10_000, context_length=256, d_model=256, d_ff=688, num_layers=4, num_heads=8
)
"""A model that a laptop trains in a night."""


def ours() -> TransformerLM:
    """Return the book's model, always with the same weights."""
    torch.manual_seed(0)
    return Transformer(SHAPE)


def llama(shape: ModelConfig = SHAPE, dtype: torch.dtype = torch.float32) -> Any:  # noqa: ANN401
    """Return LlamaForCausalLM of the same shape: SDPA attention, untied head.

    Raises:
        ValueError: transformers is not installed.
    """
    try:
        package = importlib.import_module("transformers")
    except ImportError as error:
        raise ValueError(f"the peer needs transformers: pip install transformers ({error})") from (
            None
        )
    config = package.LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.d_model,
        intermediate_size=shape.d_ff,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        max_position_embeddings=shape.context_length,
        rms_norm_eps=1e-5,
        tie_word_embeddings=shape.tie_embeddings,
        attn_implementation="sdpa",
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    return package.LlamaForCausalLM(config).to(dtype)


class BuiltInBlock(nn.Module):
    """Pre-norm block of PyTorch's layers: scaled_dot_product_attention, gated feed-forward part.

    Args:
        shape: The sizes.
    """

    def __init__(self, shape: ModelConfig) -> None:
        super().__init__()
        d_model, d_ff = shape.d_model, shape.d_ff
        self.num_heads = shape.num_heads
        self.ln1 = nn.RMSNorm(d_model)
        self.qkv = linear(d_model, 3 * d_model)
        self.out = linear(d_model, d_model)
        self.ln2 = nn.RMSNorm(d_model)
        self.gate = linear(d_model, d_ff)
        self.up = linear(d_model, d_ff)
        self.down = linear(d_ff, d_model)

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
    """A language model of PyTorch's layers, with learned positions; called as transformers' is.

    Args:
        shape: The sizes.
    """

    def __init__(self, shape: ModelConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocab_size, shape.d_model)
        self.places = nn.Embedding(shape.context_length, shape.d_model)
        self.blocks = nn.ModuleList(BuiltInBlock(shape) for _ in range(shape.num_layers))
        self.norm = nn.RMSNorm(shape.d_model)
        self.head = linear(shape.d_model, shape.vocab_size)

    def forward(self, input_ids: Tensor, labels: Tensor) -> SimpleNamespace:
        """Return the loss of predicting each label."""
        places = torch.arange(input_ids.shape[-1], device=input_ids.device)
        x = self.tokens(input_ids) + self.places(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return SimpleNamespace(loss=loss)


def random_batch(config: TrainConfig) -> Batch:
    """Return inputs and targets of a configuration's sizes, the ids drawn at random."""
    shape = (config.data.batch_size, config.model.context_length + 1)
    ids = torch.randint(config.model.vocab_size, shape)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def training_step(
    model: nn.Module, optimizer: Optimizer, loss_of: LossFunction, batch: Batch
) -> Callable[[], None]:
    """Return a function that makes one update by the book's loop, always with the same batch."""
    return lambda: make_updates(
        optimizer,
        [batch],
        lambda _: 1e-3,
        loss_of,
        lambda: float(clip_grad_norm(model.parameters(), 1.0)),
    )
