"""Transformer made of fast twins, with access to the hidden states before the output head."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from cs_basics.fast import accelerate
from cs_basics.variants.model import Transformer


class FastTransformer(Transformer):
    """Transformer of fast twins, with a method `hidden`, which chunked_loss.py needs."""

    def kind(self, part: Any) -> Any:  # noqa: ANN401  a class
        """Return the fast twin of a class of the book."""
        return accelerate(part)

    def forward(
        self, token_ids: Int[Tensor, "... seq"]
    ) -> Float[Tensor, "... seq {self.vocab_size}"]:
        """Return the logits of the next token at every position, as TransformerLM does."""
        return self.lm_head(self.hidden(token_ids))

    def hidden(self, token_ids: Int[Tensor, "... seq"]) -> Float[Tensor, "... seq d_model"]:
        """Return the input of the output head: the residual stream after the final norm.

        Raises:
            ValueError: The sequence is longer than context_length.
        """
        if token_ids.shape[-1] > self.context_length:
            raise ValueError(
                f"a sequence of {token_ids.shape[-1]} tokens is longer than "
                f"context_length={self.context_length}"
            )
        x = self.token_embeddings(token_ids)
        for block in self.layers:
            x = block(x)
        return self.ln_final(x)
