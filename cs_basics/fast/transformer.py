"""TransformerLM with access to the hidden states before the output head."""

from jaxtyping import Float, Int
from torch import Tensor

from cs_basics.transformer import TransformerLM


class FastTransformerLM(TransformerLM):
    """TransformerLM with a method `hidden`, which chunked_loss.py and cached.py need."""

    def hidden(self, token_ids: Int[Tensor, "... seq"]) -> Float[Tensor, "... seq d_model"]:
        """Return the input of the output head: the residual stream after the final norm."""
        x = self.token_embeddings(token_ids)
        for block in self.layers:
            x = block(x)
        return self.ln_final(x)
