"""The loop of the book: one update by hand, and what its arguments change."""

import math

import pytest
import torch

from cs_basics.functional import cross_entropy
from cs_basics.layers import Linear
from cs_basics.optim import AdamW, clip_grad_norm, cosine_schedule
from cs_basics.training import TrainingDivergedError, Update, train
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


def train_and_watch(model, optimizer, batches, lr_at, **settings):
    updates = []
    train(model, optimizer, batches, lr_at, on_update=updates.append, **settings)
    return updates


@pytest.mark.parametrize("max_grad_norm", [0.1, 1e9])
def test_two_updates_are_those_written_out_by_hand(max_grad_norm):
    lrs, beta1, beta2, eps, decay = {1: 1e-2, 2: 3e-2}, 0.9, 0.95, 1e-8, 0.1
    model, by_hand, batches = make_model(), make_model(), make_batches(2)
    optimizer = AdamW(model.parameters(), betas=(beta1, beta2), eps=eps, weight_decay=decay)
    updates = train_and_watch(
        model, optimizer, batches, lrs.__getitem__, max_grad_norm=max_grad_norm
    )

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


@pytest.mark.parametrize("grad_accum_steps", [2, 4])
def test_the_gradients_of_parts_add_up_to_those_of_the_batch(grad_accum_steps):
    found = []
    for parts in (1, grad_accum_steps):
        model, sizes = make_model(), []
        model.register_forward_pre_hook(lambda _, args, sizes=sizes: sizes.append(len(args[0])))
        optimizer = AdamW(model.parameters())
        updates = train_and_watch(
            model, optimizer, make_batches(3), lambda _: 1e-2, grad_accum_steps=parts
        )
        assert sizes == [4 // parts] * 3 * parts
        found.append((updates, weights(model)))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-12)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-9)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("diverged", ["loss", "gradient"])
def test_a_loss_or_gradient_that_is_not_finite_stops_before_the_update(diverged):
    model, batches = make_model(), make_batches(3)
    optimizer = AdamW(model.parameters())
    seen, updates = [], []

    def loss_of(inputs, targets):
        loss = cross_entropy(model(inputs), targets)
        seen.append(weights(model))
        if len(seen) < 2:
            return loss
        # The square root has an infinite slope at 0, where its value is 0.
        return loss * math.nan if diverged == "loss" else loss + (0 * loss).sqrt()

    with pytest.raises(TrainingDivergedError, match=r"step 8: loss .* the update was not made"):
        train(
            model, optimizer, batches, lambda _: 1e-2,
            loss_of=loss_of, first_step=7, on_update=updates.append,
        )  # fmt: skip
    assert [update.step for update in updates] == [7]
    assert all(map(torch.equal, weights(model), seen[1]))
    assert not torch.equal(seen[0][0], seen[1][0])
    assert {state["step"] for state in optimizer.state.values()} == {1}


def test_a_group_multiplies_the_rate_by_its_ratio():
    layer = Linear(3, 3)
    other = torch.nn.Parameter(torch.ones(3))
    groups = [{"params": layer.parameters()}, {"params": [other], "lr_ratio": 10.0}]
    optimizer, rates = AdamW(groups, lr=77.0), []

    def loss_of(inputs, targets):
        return (layer(inputs) * other - targets).square().mean()

    def keep_rates(update):
        rates.append([update.lr, *(group["lr"] for group in optimizer.param_groups)])

    batch = (torch.randn(4, 3), torch.randn(4, 3))
    rate_of = {1: 0.1, 2: 0.05}.__getitem__
    train(layer, optimizer, [batch] * 2, rate_of, loss_of=loss_of, on_update=keep_rates)
    assert rates == [[0.1, 0.1, 1.0], [0.05, 0.05, 0.5]]


def test_a_run_goes_on_with_the_number_of_its_first_step():
    def lr_at(step):
        return cosine_schedule(step, 1e-2, 1e-3, 2, 6)

    batches = make_batches(6)
    whole, parts = make_model(), make_model()
    expected = train_and_watch(whole, AdamW(whole.parameters()), batches, lr_at)
    optimizer = AdamW(parts.parameters())
    found = train_and_watch(parts, optimizer, batches[:2], lr_at)
    found += train_and_watch(parts, optimizer, batches[2:], lr_at, first_step=3)
    assert found == expected
    assert [update.step for update in found] == [1, 2, 3, 4, 5, 6]
    assert all(map(torch.equal, weights(parts), weights(whole)))


def test_another_way_to_clip_replaces_the_books():
    model = make_model()
    calls = []

    def clip():
        calls.append(1)
        return 0.5 * float(clip_grad_norm(model.parameters(), 1e-3))

    optimizer = AdamW(model.parameters())
    (update,) = train_and_watch(model, optimizer, make_batches(1), lambda _: 1e-2, clip=clip)
    assert calls == [1]
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
    assert norm == pytest.approx(1e-3, rel=1e-3)
    assert update.grad_norm > 10 * norm


def test_without_batches_nothing_happens():
    model = make_model()
    before = weights(model)
    assert train_and_watch(model, AdamW(model.parameters()), [], lambda _: 1.0) == []
    assert all(map(torch.equal, weights(model), before))


def test_it_learns_a_batch_by_heart():
    model = make_model()
    updates = train_and_watch(
        model, AdamW(model.parameters()), make_batches(1) * 60, lambda _: 2e-2
    )
    assert isinstance(updates[0], Update)
    assert updates[0].loss > 2.5
    assert updates[-1].loss < 0.5
