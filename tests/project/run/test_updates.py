"""The updates of a run are the book's, and what resuming, parts and groups change of them."""

import pytest
import torch
from small_models import batches_of_ids, book_model

from cs_basics.functional import cross_entropy
from cs_basics.optim import AdamW, clip_grad_norm, cosine_schedule
from cs_basics.run.updates import make_updates


def updates_of(model, optimizer, batches, **settings):
    updates = []
    make_updates(
        optimizer,
        batches,
        lambda step: cosine_schedule(step, 1e-2, 1e-3, 2, 6),
        lambda inputs, targets: cross_entropy(model(inputs), targets),
        lambda: float(clip_grad_norm(model.parameters(), 0.5)),
        on_update=updates.append,
        **settings,
    )
    return updates


def test_the_gradients_of_parts_add_up_to_those_of_the_batch():
    whole, model, sizes = book_model(), book_model(), []
    expected = updates_of(whole, AdamW(whole.parameters()), batches_of_ids(3))
    model.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    found = updates_of(model, AdamW(model.parameters()), batches_of_ids(3), num_parts=4)
    assert sizes == [1] * 3 * 4
    for one, other in zip(expected, found, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-12)
        assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-9)
    for one, other in zip(whole.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-8, atol=1e-10)


def test_a_group_multiplies_the_rate_by_its_ratio():
    model, rates = book_model(), []
    first, *others = model.parameters()
    optimizer = AdamW([{"params": others}, {"params": [first], "lr_ratio": 10.0}], lr=77.0)
    optimizer.register_step_post_hook(
        lambda *_: rates.append([group["lr"] for group in optimizer.param_groups])
    )
    updates = updates_of(model, optimizer, batches_of_ids(2))
    assert rates == [[update.lr, 10 * update.lr] for update in updates]
