"""Epochs: every place of a text once, whoever reads it and wherever a run goes on."""

import numpy as np
import pytest
import torch

from cs_basics.run.batches import draw_batch, epoch_batch
from cs_basics.run.distributed import World
from cs_basics.settings.presets import PRESETS

TOKENS = np.arange(1, 1 + 7 * 12 + 5, dtype=np.uint16)


def starts_of(step, seed=0, num_processes=1):
    """Return where the windows of a batch begin, which processes share out."""
    config = PRESETS["debug"][1].replace(order="epochs", batch_size=4, context_length=7, seed=seed)
    starts = []
    for rank in range(num_processes):
        rows = World(rank, num_processes).share(4)
        inputs, targets = draw_batch(TOKENS, config, step, rows, torch.device("cpu"))
        assert torch.equal(targets, inputs + 1)
        assert inputs.shape[1] == 7
        starts += (inputs[:, 0] - 1).tolist()
    return starts


def test_an_epoch_reads_each_token_once_and_the_next_one_elsewhere_in_another_order():
    starts = [start for step in range(176) for start in starts_of(step)]
    epochs = [starts[11 * epoch : 11 * epoch + 11] for epoch in range(64)]
    for epoch in epochs:
        first = min(epoch)
        # Windows of 7 tokens, one after the other, of the 12 and a bit that the text has.
        assert first in range(12)
        assert sorted(epoch) == [first + 7 * window for window in range(11)]
    orders = {tuple((start - min(epoch)) // 7 for start in epoch) for epoch in epochs}
    assert len(orders) == len(epochs)
    assert {min(epoch) for epoch in epochs} > {0, 11}, "windows begin at the same places each time"
    assert epochs[0] != [start for step in range(3) for start in starts_of(step, seed=1)][:11]


@pytest.mark.parametrize("num_tokens", [8, 14, 15, 30])
def test_a_short_text_is_read_to_both_ends(num_tokens):
    tokens = np.arange(num_tokens, dtype=np.uint16)
    read = set()
    for step in range(200):
        inputs, targets = epoch_batch(tokens, 1, 7, step, seed=0)
        read |= {*inputs.flatten().tolist(), *targets.flatten().tolist()}
    assert read == set(range(num_tokens))


def test_processes_share_each_batch_so_that_each_position_is_read_by_one():
    for step in range(4):
        assert starts_of(step, num_processes=2) == starts_of(step)
