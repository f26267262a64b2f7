"""Checks of several processes: different data, equal weights."""

import json
import zlib
from datetime import timedelta
from typing import Any

from torch import distributed

from cs_basics.study.doctor.loop import Loop
from cs_basics.study.doctor.report import Finding, Findings

AT = 3
"""The step after which processes are compared; what makes them drift apart has by then."""


def note(s: Loop, *_: Any) -> None:  # noqa: ANN401
    """Leave what this process has seen after a step where the others find it.

    It uses the store of keys that the processes have met by, so that nobody waits for anybody.
    """
    if s.step == AT and not s.is_off and distributed.is_initialized():
        total = sum(p.detach().double().abs().sum().item() for p in s.bare.parameters())
        data = zlib.crc32(b"".join(inputs.tobytes() for inputs, _ in s.rows))
        _store().set(f"doctor/{s.rank}", json.dumps([data, total]))


def equal_processes(s: Loop) -> Findings:
    """Compare this process with the others."""
    keys, seen = [f"doctor/{rank}" for rank in range(s.world_size)], None
    if s.step < AT or len(keys) < 2 or not distributed.is_initialized():
        return
    _store().wait(keys, timedelta(seconds=5))
    data, totals = zip(*(json.loads(_store().get(key)) for key in keys), strict=True)
    if len(set(data)) < len(keys):
        seen = f"processes: {len(keys)}; different sequences of batches: {len(set(data))}"
    elif max(totals) - min(totals) > 1e-6 * max(totals):
        seen = f"the weights differ between processes: sums of |w| are {totals[0]:.6g} and "
        seen += f"{totals[1]:.6g}"
    if seen:
        yield Finding("ranks", seen, s.place)


def _store() -> Any:  # noqa: ANN401
    return distributed.distributed_c10d._get_default_store()  # pyright: ignore[reportPrivateUsage]
