"""Checks of several processes: different data, equal weights."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from torch import distributed

from cs_basics.study.doctor.finding import Finding
from cs_basics.study.doctor.subject import Subject
from cs_basics.study.doctor.watch import Watch

FIRST = 3


class Ranks:
    """Leaves what a process has seen where the others find it.

    It uses the store of keys that the processes have met by, so that nobody waits for anybody.
    """

    def __init__(self, s: Subject, watch: Watch) -> None:
        self.s, self.watch = s, watch
        self.size: int = s.options.get("world_size", 1)
        self.rank: int = s.options.get("rank", 0)
        self.seen: list[list[float]] = []
        if self.size > 1:
            s.optimizer.register_step_post_hook(self._note)

    def _note(self, *_: Any) -> None:  # noqa: ANN401
        if len(self.seen) >= FIRST or self.watch.is_off or not distributed.is_initialized():
            return
        total = sum(p.detach().double().abs().sum().item() for p in self.s.bare.parameters())
        self.seen.append([float(sum(self.watch.hashes) % 2**32), total])
        if len(self.seen) == FIRST:
            _store().set(f"doctor/{self.rank}", json.dumps(self.seen))

    def check(self) -> Iterator[Finding]:
        """Compare this process with the others."""
        if len(self.seen) < FIRST or not distributed.is_initialized():
            return
        keys = [f"doctor/{rank}" for rank in range(self.size)]
        _store().wait(keys, timedelta(seconds=5))
        all_seen = [json.loads(_store().get(key)) for key in keys]
        data, totals = zip(*(zip(*seen, strict=True) for seen in all_seen), strict=True)
        seen = None
        if len(set(data)) < self.size:
            seen = f"of {self.size} processes {len(set(data))} have different batches"
        elif any(max(t) - min(t) > 1e-6 * max(t) for t in zip(*totals, strict=True)):
            seen = (
                f"the weights differ between processes: their sizes add up to {totals[0][-1]:.6g} "
            )
            seen += f"and {totals[1][-1]:.6g}"
        if seen:
            yield Finding(
                "ranks",
                seen,
                "different batches, equal weights: gradients are averaged, and all begin alike",
                "print(rank, inputs[0, :6], sum(p.sum() for p in model.parameters()))",
                self.watch.updates[-1].place,
            )


def _store() -> Any:  # noqa: ANN401
    return distributed.distributed_c10d._get_default_store()  # pyright: ignore[reportPrivateUsage]
