"""Epochs: every place of a text once, whoever reads it and wherever a run goes on."""

import numpy as np
import pytest
import torch

from cs_basics.run.distributed import World
from cs_basics.run.epochs import epoch_batch
from cs_basics.run.evaluation import Evaluation
from cs_basics.run.training_run import train_run

TOKENS = np.arange(1, 1 + 7 * 12 + 5, dtype=np.uint16)


def starts_of(step, rows=None, seed=0, batch_size=4):
    inputs, targets = epoch_batch(TOKENS, batch_size, 7, "cpu", step, seed, rows)
    assert torch.equal(targets, inputs + 1)
    assert inputs.shape[1] == 7
    return (inputs[:, 0] - 1).tolist()


def test_an_epoch_covers_every_position_once_and_the_next_one_in_another_order():
    epochs = [[start for step in range(3 * e, 3 * e + 3) for start in starts_of(step)]
              for e in range(2)]  # fmt: skip
    for starts in epochs:
        assert sorted(starts) == [7 * window for window in range(12)]
    assert epochs[0] != epochs[1]
    assert epochs[0] != [start for step in range(3) for start in starts_of(step, seed=1)]


def test_a_batch_may_reach_into_the_next_epoch():
    starts = [start for step in range(12) for start in starts_of(step, batch_size=5)]
    for epoch in range(5):
        assert sorted(starts[12 * epoch : 12 * epoch + 12]) == [7 * window for window in range(12)]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_processes_share_each_batch_so_that_each_position_is_read_by_one(size):
    for step in range(4):
        shares = [starts_of(step, World(rank, size).share(4)) for rank in range(size)]
        assert [start for share in shares for start in share] == starts_of(step)


def test_a_run_reads_in_epochs(tiny_config):
    config = tiny_config.replace(order="epochs", num_samples=0)
    assert isinstance(train_run(config), Evaluation)
