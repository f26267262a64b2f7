"""Sampling for a compiler draws what the definition draws."""

import pytest
import torch

from cs_basics.fast.sampling import SamplingTensors, draw_fast, largest, sample_fast
from cs_basics.generate import Sampling, sample


def test_drawing_never_leaves_the_tokens_that_have_weight():
    weights = torch.tensor([[0.0, 0.7, 0.0, 1e-30, 0.3, 0.0]])
    for uniform in (0.0, 0.5, 1 - 2**-24):
        assert weights[0, draw_fast(weights, torch.tensor([uniform]))] > 0
    totals = torch.rand(1000, 1, generator=torch.Generator().manual_seed(0)) * 4
    weights = totals * torch.tensor([[1.0, 2.0, 0.0]])
    drawn = draw_fast(weights, torch.full((1000,), 1 - 2**-24))
    assert (drawn == 1).all()


@pytest.mark.parametrize("num_largest", [1, 3, 20, 64])
def test_the_largest_are_found_in_blocks(num_largest):
    generator = torch.Generator().manual_seed(0)
    # Ten values for a thousand places: ties within blocks and between them.
    weights = torch.randint(10, (50, 1001), generator=generator).float()
    weights[0] = 0.0
    expected = weights.sort(dim=-1, descending=True).values[:, :num_largest]
    assert torch.equal(largest(weights, num_largest), expected)


@pytest.mark.parametrize("top_k", [None, 1, 7, 400, 9999])
@pytest.mark.parametrize("top_p", [None, 1e-6, 0.3, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 5.0])
def test_fast_sampling_draws_what_the_definition_draws(top_k, top_p, sharpness):
    generator = torch.Generator().manual_seed(0)
    logits = sharpness * torch.randn(64, 500, generator=generator)
    uniform = torch.cat([torch.rand(1, generator=of_row(row)) for row in range(64)])
    sampling = Sampling(temperature=0.8, top_k=top_k, top_p=top_p)
    tensors = SamplingTensors.of(sampling, logits.device)
    expected = [sample(logits[row], sampling, of_row(row)) for row in range(64)]
    assert sample_fast(logits, tensors, uniform).tolist() == expected


def of_row(row):
    return torch.Generator().manual_seed(row)
