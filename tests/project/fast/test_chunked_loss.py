"""The loss without logits: its memory and its edges (values: test_fast_training.py)."""

import pytest
import torch

from cs_basics.fast import chunked_loss
from cs_basics.fast.chunked_loss import linear_cross_entropy
from cs_basics.functional import cross_entropy


def case(num_tokens=(3, 7), d_model=8, vocab_size=11):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(*num_tokens, d_model, generator=generator)
    weight = torch.randn(vocab_size, d_model, generator=generator)
    targets = torch.randint(vocab_size, num_tokens, generator=generator)
    return hidden.requires_grad_(), weight.requires_grad_(), targets


@pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
def test_large_scores_do_not_overflow(shift):
    hidden, weight, targets = case()
    hidden = torch.cat([hidden.detach(), torch.ones(3, 7, 1)], dim=-1).requires_grad_()
    weight = torch.cat([weight.detach(), torch.full((11, 1), shift)], dim=-1).requires_grad_()
    loss = linear_cross_entropy(hidden, weight, targets)
    torch.testing.assert_close(loss, cross_entropy(hidden @ weight.T, targets), rtol=1e-3, atol=0)
    loss.backward()
    assert hidden.grad.isfinite().all()


def test_no_tensor_is_as_large_as_the_logits_and_without_gradients_none_are_computed(monkeypatch):
    monkeypatch.setattr(chunked_loss, "CHUNK_TOKENS", 16)
    hidden, weight, targets = case((256,), 4, 1000)
    largest = num_products = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest, num_products
            result = function(*args, **(kwargs or {}))
            num_products += "mm" in str(function)
            if isinstance(result, torch.Tensor):
                largest = max(largest, result.numel())
            return result

    with Watch():
        linear_cross_entropy(hidden, weight, targets).backward()
    assert largest == 16 * 1000
    assert num_products == 3 * 16
    num_products = 0
    with Watch(), torch.no_grad():
        assert not linear_cross_entropy(hidden, weight, targets).requires_grad
    assert num_products == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": torch.zeros(3, 6, dtype=torch.long)}, r"\(3, 7\), not \(3, 6\)"),
        ({"hidden": torch.zeros(0, 8), "targets": torch.zeros(0).long()}, "empty"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    hidden, weight, targets = case()
    arguments = {"hidden": hidden, "weight": weight, "targets": targets} | change
    with pytest.raises(ValueError, match=message):
        linear_cross_entropy(**arguments)
