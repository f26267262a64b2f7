"""The random generators that a run depends on, seeded, saved and put back together."""

import random
from typing import Any

import numpy as np
import torch


def seed_all(seed: int) -> None:
    """Seed every generator of the CPU, and those of the GPUs, whose states are not saved."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  a student's get_batch may use it
    random.seed(seed)


def random_states() -> dict[str, Any]:
    """Return the states of these generators, as a checkpoint can hold them."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "numpy": [name, torch.from_numpy(np.asarray(keys, np.int64)), *rest],
        "python": random.getstate(),
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Put back what `random_states` returned."""
    torch.set_rng_state(states["torch"])
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    random.setstate(states["python"])
