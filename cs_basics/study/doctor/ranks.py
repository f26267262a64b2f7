"""Checks of several processes: different data, equal weights."""

import json
from datetime import timedelta
from typing import Any

from torch import distributed

from cs_basics.study.doctor.finding import Finding, Findings
from cs_basics.study.doctor.loop import Loop

FIRST = 3


def note(s: Loop) -> None:
    """Leave what this process has seen after a step where the others find it.

    It uses the store of keys that the processes have met by, so that nobody waits for anybody.
    """
    if len(s.sums) >= FIRST or not distributed.is_initialized():
        return
    total = sum(p.detach().double().abs().sum().item() for p in s.bare.parameters())
    s.sums.append([float(sum(s.hashes) % 2**32), total])
    if len(s.sums) == FIRST:
        _store().set(f"doctor/{s.rank}", json.dumps(s.sums))


def equal(s: Loop) -> Findings:
    """Compare this process with the others."""
    keys, seen = [f"doctor/{rank}" for rank in range(s.world_size)], None
    if len(s.sums) < FIRST or len(keys) < 2 or not distributed.is_initialized():
        return
    _store().wait(keys, timedelta(seconds=5))
    sums = [json.loads(_store().get(key)) for key in keys]
    data, totals = zip(*(zip(*some, strict=True) for some in sums), strict=True)
    if len(set(data)) < len(keys):
        seen = f"processes: {len(keys)}; different sequences of batches: {len(set(data))}"
    elif any(max(t) - min(t) > 1e-6 * max(t) for t in zip(*totals, strict=True)):
        one, other = (f"{total[-1]:.6g}" for total in totals[:2])
        seen = f"the weights differ between processes: sums of |w| are {one} and {other}"
    if seen:
        yield Finding("ranks", seen, s.place)


def _store() -> Any:  # noqa: ANN401
    return distributed.distributed_c10d._get_default_store()  # pyright: ignore[reportPrivateUsage]
