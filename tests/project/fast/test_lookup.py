"""Looking up rows is indexing, and adding up their gradients repeats itself bit for bit."""

import pytest
import torch

from cs_basics.fast.native.lookup import OrderedEmbedding


def test_the_gradient_of_a_lookup_has_the_same_bits_for_any_number_of_threads():
    torch.manual_seed(0)
    embedding = OrderedEmbedding(300, 256)
    ids = torch.randint(300, (16, 256))
    weights = torch.randn(16, 256, 256) * torch.logspace(-6, 6, 256)
    num_threads, found = torch.get_num_threads(), []
    try:
        for number in (1, 2, 2, 2, 5):
            torch.set_num_threads(number)
            embedding.zero_grad()
            (embedding(ids) * weights).sum().backward()
            found.append(embedding.weight.grad.clone())
    finally:
        torch.set_num_threads(num_threads)
    assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.filterwarnings("ignore")  # torch's own, about its internals
def test_the_operator_of_lookup_says_of_itself_what_is_true():
    torch.library.opcheck(
        torch.ops.cs_basics.sum_rows.default,
        (torch.randn(5, 3), torch.randint(4, (5,)), 4),
    )
