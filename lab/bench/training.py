"""Training steps against the transformers package, and a model of PyTorch's built-in layers.

Every contender makes one update at a time, in turns with the others (training_worker.py).
docs/performance.md says where the time goes and what each of our steps gained.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from statistics import median
from typing import NamedTuple

import torch

from cs_basics.run.hardware import matmul_rate
from cs_basics.study.accounting import utilisation_of

from .measuring import Row
from .training_worker import Contender
from .worker import Worker

TURNS = 5
STARTED_AT_ONCE = 2
OURS = Contender(kind="ours")
BOOK = Contender(kind="book")
PEER = Contender(kind="transformers", is_tuned=False)
MAIN = {
    "ours, bfloat16": OURS,
    "ours, float32": replace(OURS, dtype="float32"),
    "book, bfloat16": BOOK,
    "transformers, bfloat16": PEER,
    "transformers, bfloat16, same allocator": replace(PEER, is_tuned=True),
    "transformers, float32": replace(PEER, dtype="float32"),
    "built-in layers, bfloat16, same allocator": replace(
        PEER, kind="built-in layers", is_tuned=True
    ),
}
MEMORY_OF = (
    "book, bfloat16",
    "transformers, bfloat16",
    "built-in layers, bfloat16, same allocator",
)
"""The peers whose memory is shown."""
STEPS = {
    "the book, float32": replace(BOOK, is_compiled=False, dtype="float32", is_tuned=False),
    "+ bfloat16 products": replace(BOOK, is_compiled=False, is_tuned=False),
    "+ compiled": replace(BOOK, is_tuned=False),
    "+ freed memory is kept": BOOK,
    "+ fused gate and up": replace(BOOK, fast_parts=("SwiGLU",)),
    "+ fused QKV, half-split RoPE": replace(BOOK, fast_parts=("SwiGLU", "CausalSelfAttention")),
    "+ C++ attention, chunked loss, one-pass AdamW": OURS,
}
"""From the book's code to ours; each is compared with the one before."""
GROWTH: dict[str, dict[str, int]] = {
    "context 1,024, batch 4": {"context_length": 1024, "batch_size": 4},
    "vocabulary 32,000": {"vocab_size": 32_000},
    "width 512": {"d_model": 512, "d_ff": 1376, "num_heads": 16},
}


class Result(NamedTuple):
    """What a contender did."""

    tokens_per_s: float
    peak_mb: float


def measure() -> Iterator[Row]:
    """Measure the main contenders, our steps one by one, and how the lead grows."""
    peak = matmul_rate(torch.bfloat16, torch.device("cpu"))
    assert peak is not None
    yield from main_rows(race(MAIN), peak)
    before = None
    for name, result in race(STEPS).items():  # The peer is the step before.
        if before:
            yield Row(name, result.tokens_per_s, "tokens/s", before.tokens_per_s)
        before = result
    for name, sizes in GROWTH.items():
        pair = {"ours": OURS, "peer": replace(PEER, is_tuned=True)}
        mine, theirs = race({k: replace(c, sizes=sizes) for k, c in pair.items()}).values()
        yield Row(name, mine.tokens_per_s, "tokens/s", theirs.tokens_per_s)


def race(contenders: dict[str, Contender]) -> dict[str, Result]:
    """Let contenders make updates in turns; return the medians.

    Raises:
        ValueError: A contender died; the message names it.
    """
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(_started(name, contenders[name])) for name in contenders
        }

        def tell(words: str) -> None:
            print(f"{time.monotonic() - start:5.0f} s  {words}", file=sys.stderr, flush=True)

        def begin(name: str) -> None:
            tell(f"{name}: starts ({list(workers).index(name) + 1} of {len(workers)})")
            tell(f"{name}: first step took {workers[name].ask('begin'):.1f} s")

        start = time.monotonic()

        # Some at once, since compiling hardly uses a second core. Nothing is measured before all
        # are ready.
        with ThreadPoolExecutor(STARTED_AT_ONCE) as pool:
            list(pool.map(begin, workers))
        times: dict[str, list[float]] = {name: [] for name in workers}
        for turn in range(TURNS):
            for name, worker in workers.items():
                times[name].append(worker.ask("step"))
                speed = contenders[name].num_tokens / times[name][-1]
                tell(f"{name}: {speed:,.0f} tokens/s (turn {turn + 1} of {TURNS})")
        return {
            name: Result(contender.num_tokens / median(times[name]), workers[name].ask("peak"))
            for name, contender in contenders.items()
        }


def _started(name: str, contender: Contender) -> Worker:
    # scripts/process.py has set it for this process and all that it starts.
    changes = {} if contender.is_tuned else {"GOMP_SPINCOUNT": None}
    return Worker(name, "training_worker", json.dumps(asdict(contender)), **changes)


def main_rows(results: Mapping[str, Result], peak: float) -> list[Row]:
    """Compare ours with the others, by speed, memory, and the share of the machine's peak."""
    ours, ours_float32 = results["ours, bfloat16"], results["ours, float32"]
    peers = {name: other for name, other in results.items() if not name.startswith("ours")}
    speeds = [
        Row(
            f"speed (peer: {name})",
            (ours_float32 if "float32" in name else ours).tokens_per_s,
            "tokens/s",
            other.tokens_per_s,
        )
        for name, other in peers.items()
    ]
    memory = [
        Row(f"peak memory (peer: {name})", ours.peak_mb, "MB", peers[name].peak_mb)
        for name in MEMORY_OF
    ]
    share = utilisation_of(OURS.config.model, ours.tokens_per_s, peak)
    return [*speeds, *memory, Row("share of the bfloat16 peak", share, "")]
