"""Whether the code at hand computes what the book does: other conventions need other weights."""

import torch

from cs_basics.run.model import build_model
from cs_basics.run.model_config import ModelConfig

# No two sizes are equal, and a head has two pairs of coordinates.
SIZES = ModelConfig(
    vocab_size=5, context_length=3, num_layers=1, d_model=8, num_heads=2, d_ff=6, rope_theta=10.0
)
LOGITS = (-0.4490, -0.1080, 0.4804, -0.0318, -0.4711)
"""What the book's model of these sizes answers, with weights that are sines."""


def check_conventions() -> None:
    """Refuse to carry weights elsewhere that mean something else there.

    Raises:
        ValueError: A model of the book's sizes and weights does not answer as the book's does.
    """
    model = build_model(SIZES)
    names = sorted(model.state_dict())
    model.load_state_dict(
        {
            name: (torch.arange(1.0, weight.numel() + 1) + 7 * names.index(name))
            .sin()
            .reshape(weight.shape)
            for name, weight in model.state_dict().items()
        }
    )
    with torch.no_grad():
        logits = model(torch.tensor([[3, 1, 4]]))[0, -1]
    if not torch.allclose(logits.float(), torch.tensor(LOGITS), atol=1e-3):
        raise ValueError(
            "this model's code takes the pairs of RoPE, the gain of RMSNorm or the gate of SwiGLU"
            " otherwise than export and page do, as a class's contract may ask: train, generate and"
            " evaluate with it here"
        )
