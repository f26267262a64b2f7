"""AdamW in pieces is AdamW: the same weights, means and steps, bit for bit."""

import pytest
import torch
from torch import nn

from cs_basics import piecewise_adamw
from cs_basics.optim import AdamW
from cs_basics.piecewise_adamw import PiecewiseAdamW


def run(optimizer_class, shapes, steps=5, strided=False):
    generator = torch.Generator().manual_seed(0)
    parameters = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    unused = nn.Parameter(torch.ones(3))
    groups = [
        {"params": parameters[:1], "weight_decay": 0.3},
        {"params": [*parameters[1:], unused]},
    ]
    optimizer = optimizer_class(groups, lr=0.02, betas=(0.8, 0.9))
    for _ in range(steps):
        for parameter in parameters:
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = gradient.T.contiguous().T if strided else gradient
        optimizer.step()
    return parameters, optimizer


@pytest.mark.parametrize("strided", [False, True])
def test_the_same_bits_as_the_clear_form(monkeypatch, strided):
    monkeypatch.setattr(piecewise_adamw, "PIECE", 7)
    shapes = [(5, 6), (7, 1), (2, 14), (1, 1)]
    ours, our_optimizer = run(PiecewiseAdamW, shapes, strided=strided)
    theirs, their_optimizer = run(AdamW, shapes, strided=strided)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)
        state, expected = our_optimizer.state[one], their_optimizer.state[other]
        assert state.keys() == expected.keys()
        assert state["step"] == expected["step"] == 5
        assert torch.equal(state["m"], expected["m"])
        assert torch.equal(state["v"], expected["v"])


def test_a_state_of_the_clear_form_goes_on_in_pieces():
    shapes = [(3, 4), (5, 2)]
    _, clear = run(AdamW, shapes)
    ours, pieces = run(PiecewiseAdamW, shapes, steps=1)
    pieces.load_state_dict(clear.state_dict())
    pieces.step()
    assert pieces.state[ours[0]]["step"] == 6


def test_every_piece_fits_and_none_is_left_out(monkeypatch):
    monkeypatch.setattr(piecewise_adamw, "PIECE", 10)
    tensors = [torch.arange(34).view(2, 17) + 100 * i for i in range(4)]
    pieces = list(piecewise_adamw.pieces_of(*tensors))
    assert [piece[0].numel() for piece in pieces] == [10, 10, 10, 4]
    for i, tensor in enumerate(tensors):
        assert torch.equal(torch.cat([piece[i] for piece in pieces]), tensor.flatten())
