"""Checks of several processes: different data, equal weights."""

import json
from datetime import timedelta
from typing import Any

from torch import distributed

from cs_basics.study.doctor.finding import Finding, Findings
from cs_basics.study.doctor.watch import Watch

FIRST = 3


class Ranks:
    """Leaves what a process has seen where the others find it.

    It uses the store of keys that the processes have met by, so that nobody waits for anybody.
    """

    def __init__(self, s: Watch) -> None:
        self.s, self.seen = s, list[list[float]]()
        if (s.world_size or 1) > 1:
            s.optimizer.register_step_post_hook(self._note)

    def _note(self, *_: Any) -> None:  # noqa: ANN401
        if len(self.seen) >= FIRST or self.s.is_off or not distributed.is_initialized():
            return
        total = sum(p.detach().double().abs().sum().item() for p in self.s.bare.parameters())
        self.seen.append([float(sum(self.s.hashes) % 2**32), total])
        if len(self.seen) == FIRST:
            _store().set(f"doctor/{self.s.rank or 0}", json.dumps(self.seen))

    def check(self, s: Watch) -> Findings:
        """Compare this process with the others."""
        if len(self.seen) < FIRST or not distributed.is_initialized():
            return
        keys, seen = [f"doctor/{rank}" for rank in range(s.world_size)], None
        _store().wait(keys, timedelta(seconds=5))
        all_seen = [json.loads(_store().get(key)) for key in keys]
        data, totals = zip(*(zip(*seen, strict=True) for seen in all_seen), strict=True)
        if len(set(data)) < len(keys):
            seen = f"of {len(keys)} processes {len(set(data))} have different batches"
        elif any(max(t) - min(t) > 1e-6 * max(t) for t in zip(*totals, strict=True)):
            one, other = (f"{total[-1]:.6g}" for total in totals[:2])
            seen = f"the weights differ between processes: their sizes add up to {one} and {other}"
        if seen:
            yield Finding(
                "ranks",
                seen,
                "different batches, equal weights: gradients are averaged, and all begin alike",
                "print(rank, inputs[0, :6], sum(p.sum() for p in model.parameters()))",
                s.updates[-1].place,
            )


def _store() -> Any:  # noqa: ANN401
    return distributed.distributed_c10d._get_default_store()  # pyright: ignore[reportPrivateUsage]
