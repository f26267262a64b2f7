"""What takes part in the training benchmark: a model, and how it is trained. No torch here."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from cs_basics.run.config import TrainConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """A model, and how it is trained."""

    kind: Literal["ours", "transformers", "built-in layers"]
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    is_compiled: bool = True
    is_tuned: bool = True
    """glibc keeps the blocks that are freed, idle threads spin for less (scripts/process.py)."""
    batch_size: int = 16
    context_length: int = 256
    vocab_size: int = 10_000
    d_model: int = 256
    merge_projections: bool = True
    chunk_loss: bool = True
    tile_attention: bool = True
    attention_kernel: bool = True

    @property
    def config(self) -> TrainConfig:
        """The model's sizes as a configuration; heads are 32 wide."""
        return TrainConfig(
            batch_size=self.batch_size,
            context_length=self.context_length,
            vocab_size=self.vocab_size,
            d_model=self.d_model,
            d_ff=43 * self.d_model // 16,
            num_heads=self.d_model // 32,
            num_layers=4,
            merge_projections=self.merge_projections,
            chunk_loss=self.chunk_loss,
            tile_attention=self.tile_attention,
            attention_kernel=self.attention_kernel,
            dtype=self.dtype,
            max_steps=1,
        )

    @property
    def num_tokens(self) -> int:
        """Tokens of an update."""
        return self.batch_size * self.context_length

    def to_json(self) -> str:
        """Return the fields as one line."""
        return json.dumps(asdict(self))
