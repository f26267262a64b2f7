"""The loop of the book: one update by hand, and what its arguments change."""

import math

import pytest
import torch

from cs_basics.optim import AdamW
from cs_basics.training import TrainingDivergedError, train
from cs_basics.transformer import TransformerLM

VOCAB_SIZE = 20


def make_model(seed=0):
    torch.manual_seed(seed)
    return TransformerLM(VOCAB_SIZE, 8, 16, 1, 2, 24, dtype=torch.float64)


def make_batches(count, rows=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randint(VOCAB_SIZE, (rows, 9), generator=generator) for _ in range(count)]
    return [(part[:, :-1], part[:, 1:]) for part in ids]


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("max_grad_norm", [0.1, 1e9])
def test_two_updates_are_those_written_out_by_hand(max_grad_norm):
    lrs, beta1, beta2, eps, decay = {1: 1e-2, 2: 3e-2}, 0.9, 0.95, 1e-8, 0.1
    model, by_hand, batches = make_model(), make_model(), make_batches(2)
    optimizer = AdamW(model.parameters(), betas=(beta1, beta2), eps=eps, weight_decay=decay)
    updates = []
    settings = {"max_grad_norm": max_grad_norm, "on_update": updates.append}
    train(model, optimizer, batches, lrs.__getitem__, **settings)

    ours = list(by_hand.parameters())
    m, v = ([torch.zeros_like(p) for p in ours] for _ in range(2))
    for step, (inputs, targets) in enumerate(batches, start=1):
        loss = -by_hand(inputs).log_softmax(-1).gather(-1, targets.unsqueeze(-1)).mean()
        gradients = torch.autograd.grad(loss, ours)
        norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
        assert (norm > max_grad_norm) == (max_grad_norm == 0.1)
        scale = max_grad_norm / (norm + 1e-6) if norm > max_grad_norm else 1.0
        with torch.no_grad():
            for i, p in enumerate(ours):
                g = gradients[i] * scale
                m[i] = beta1 * m[i] + (1 - beta1) * g
                v[i] = beta2 * v[i] + (1 - beta2) * g * g
                rate = lrs[step] * math.sqrt(1 - beta2**step) / (1 - beta1**step)
                p *= 1 - lrs[step] * decay
                p -= rate * m[i] / (v[i].sqrt() + eps)
        update = updates[step - 1]
        assert (update.step, update.lr) == (step, lrs[step])
        assert update.loss == pytest.approx(loss.item(), rel=1e-12)
        assert update.grad_norm == pytest.approx(norm, rel=1e-7)
    for one, other in zip(weights(model), weights(by_hand), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("diverged", ["loss", "gradient"])
def test_a_loss_or_gradient_that_is_not_finite_stops_before_the_update(diverged):
    model, seen = make_model(), []

    def spoil(_module, _inputs, logits):
        seen.append(weights(model))
        if len(seen) < 2:
            return logits
        # The square root has an infinite slope at 0, where its value is 0.
        return logits * math.nan if diverged == "loss" else logits + (0 * logits).sqrt()

    model.register_forward_hook(spoil)
    optimizer, updates = AdamW(model.parameters()), []
    with pytest.raises(TrainingDivergedError, match=r"step 2: loss .* the update was not made"):
        train(model, optimizer, make_batches(3), lambda _: 1e-2, on_update=updates.append)
    assert [update.step for update in updates] == [1]
    assert all(map(torch.equal, weights(model), seen[1]))
    assert not torch.equal(seen[0][0], seen[1][0])
    assert {state["step"] for state in optimizer.state.values()} == {1}
