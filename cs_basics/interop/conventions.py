"""Whether the code at hand computes what the book does: other conventions need other weights."""

from collections.abc import Collection

import torch

from cs_basics.run.model import build_model
from cs_basics.settings.model import ModelConfig

# No two sizes are equal, and a head has two pairs of coordinates.
SIZES = ModelConfig(
    vocab_size=5, context_length=3, num_layers=1, d_model=8, num_heads=2, d_ff=6, rope_theta=10.0
)
LOGITS = (-0.4490, -0.1080, 0.4804, -0.0318, -0.4711)
"""What the book's model of these sizes answers, with weights that are sines."""


def check_conventions(names: Collection[str]) -> None:
    """Refuse to carry weights elsewhere that mean something else there.

    Args:
        names: The weights of a model of these SIZES; what else it saves (a mask) stays as it is.

    Raises:
        ValueError: A model of the book's sizes and weights does not answer as the book's does.
    """
    model = build_model(SIZES)
    state = model.state_dict()
    for place, name in enumerate(sorted(names)):
        numbers = torch.arange(1.0, state[name].numel() + 1) + 7 * place
        state[name] = numbers.sin().reshape(state[name].shape)
    model.load_state_dict(state)
    with torch.no_grad():
        logits = model(torch.tensor([[3, 1, 4]]))[0, -1]
    if not torch.allclose(logits.float(), torch.tensor(LOGITS), atol=1e-3):
        raise ValueError(
            "this model's code takes the pairs of RoPE, the gain of RMSNorm or the gate of SwiGLU"
            " otherwise than export and page do, as a class's contract may ask: train, generate and"
            " evaluate with it here"
        )
