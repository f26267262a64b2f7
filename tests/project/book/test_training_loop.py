"""The loop of the book: its updates call by call, and what stops it."""

import math

import pytest
import torch
from small_models import batches_of_ids, book_model

from cs_basics.functional import cross_entropy
from cs_basics.optim import AdamW, clip_grad_norm
from cs_basics.training import TrainingDivergedError, Update, train


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("max_grad_norm", [0.1, 1e9])
def test_two_updates_are_the_calls_of_the_parts_that_are_examined(max_grad_norm):
    lrs, batches, updates = {1: 1e-2, 2: 3e-2}, batches_of_ids(2), []
    model, by_hand = book_model(), book_model()
    optimizer, other = (AdamW(one.parameters(), weight_decay=0.1) for one in (model, by_hand))
    settings = {"max_grad_norm": max_grad_norm, "on_update": updates.append}
    train(model, optimizer, batches, lrs.__getitem__, **settings)
    for step, (inputs, targets) in enumerate(batches, start=1):
        by_hand.zero_grad()
        loss = cross_entropy(by_hand(inputs), targets)
        loss.backward()
        norm = clip_grad_norm(by_hand.parameters(), max_grad_norm)
        assert (norm > max_grad_norm) == (max_grad_norm == 0.1)
        other.param_groups[0]["lr"] = lrs[step]
        other.step()
        assert updates[step - 1] == Update(step, loss.item(), norm.item(), lrs[step])
    assert all(map(torch.equal, weights(model), weights(by_hand)))


@pytest.mark.parametrize("diverged", ["loss", "gradient"])
def test_a_loss_or_gradient_that_is_not_finite_stops_before_the_update(diverged):
    model, seen = book_model(), []

    def spoil(_module, _inputs, logits):
        seen.append(weights(model))
        if len(seen) < 2:
            return logits
        # The square root has an infinite slope at 0, where its value is 0.
        return logits * math.nan if diverged == "loss" else logits + (0 * logits).sqrt()

    model.register_forward_hook(spoil)
    optimizer, updates = AdamW(model.parameters()), []
    with pytest.raises(TrainingDivergedError, match=r"step 2: loss .* the update was not made"):
        train(model, optimizer, batches_of_ids(3), lambda _: 1e-2, on_update=updates.append)
    assert [update.step for update in updates] == [1]
    assert all(map(torch.equal, weights(model), seen[1]))
    assert not torch.equal(seen[0][0], seen[1][0])
    assert {state["step"] for state in optimizer.state.values()} == {1}
