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

from cs_basics.run.hardware import matmul_rate, resolve_dtype
from cs_basics.study.accounting import utilisation_of

from .measuring import Row, compare
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
    "book, bfloat16, not compiled": replace(BOOK, is_compiled=False),
    "transformers, bfloat16": PEER,
    "transformers, bfloat16, same allocator": replace(PEER, is_tuned=True),
    "transformers, bfloat16, not compiled": replace(PEER, is_compiled=False),
    "transformers, float32": replace(PEER, dtype="float32"),
    "transformers, float32, same allocator": replace(PEER, dtype="float32", is_tuned=True),
    "built-in layers, bfloat16, same allocator": replace(
        PEER, kind="built-in layers", is_tuned=True
    ),
}
"""Compiled unless the name says otherwise."""

STEPS = {
    "the book, float32": replace(BOOK, is_compiled=False, dtype="float32", is_tuned=False),
    "+ bfloat16 products": replace(BOOK, is_compiled=False, is_tuned=False),
    "+ compiled": replace(BOOK, is_tuned=False),
    "+ freed memory is kept": BOOK,
    "+ fused gate and up": replace(BOOK, fast_parts=("SwiGLU",)),
    "+ fused QKV, tiles": replace(BOOK, fast_parts=("SwiGLU", "CausalSelfAttention")),
    "+ C++ attention, chunked loss, one-pass AdamW": OURS,
}
"""From the book's code to ours; each is compared with the one before."""
GROWTH: dict[str, dict[str, int]] = {
    "context 1,024, batch 4": {"context_length": 1024, "batch_size": 4},
    "vocabulary 32,000": {"vocab_size": 32_000},
    "batch 4": {"batch_size": 4},
    "width 512": {"d_model": 512, "d_ff": 1376, "num_heads": 16},
}


class Result(NamedTuple):
    """What a contender did."""

    tokens_per_s: float
    first_step_s: float
    peak_mb: float


def measure() -> Iterator[Row]:
    """Measure the main contenders, our steps one by one, and how the lead grows."""
    main = race(MAIN)
    peak = matmul_rate(torch.bfloat16, torch.device("cpu"))
    assert peak is not None
    yield from main_rows(main, peak)
    before = None
    for name, result in race(STEPS).items():  # The peer is the step before.
        yield Row(name, result.tokens_per_s, "tokens/s", before and before.tokens_per_s)
        yield Row("  its peak memory", result.peak_mb, "MB", before and before.peak_mb)
        before = result
    peer = main["transformers, bfloat16, same allocator"]
    lead = main["ours, bfloat16"].tokens_per_s / peer.tokens_per_s
    for name, sizes in GROWTH.items():
        pair = {"ours": OURS, "peer": replace(PEER, is_tuned=True)}
        mine, theirs = race({k: replace(c, sizes=sizes) for k, c in pair.items()}).values()
        # At a longer context and a larger vocabulary the lead has to be no smaller than before.
        at_least = round(lead, 2) if name.startswith(("context", "vocabulary")) else None
        yield compare(name, mine.tokens_per_s, theirs.tokens_per_s, "tokens/s", at_least=at_least)
        yield compare("  peak memory", mine.peak_mb, theirs.peak_mb, "MB")


def measure_quickly() -> Iterator[Row]:
    """Measure ours beside the peers with our allocator settings, in the machine's fastest dtype."""
    dtype = str(resolve_dtype("auto", torch.device("cpu"))).removeprefix("torch.")
    contenders = {
        "ours": replace(OURS, dtype=dtype),
        "transformers": replace(PEER, dtype=dtype, is_tuned=True),
        "built-in layers": replace(PEER, kind="built-in layers", dtype=dtype, is_tuned=True),
    }
    ours, *peers = race(contenders).items()
    for name, result in peers:
        of = f"{dtype} (peer: {name})"
        yield compare(f"speed, {of}", ours[1].tokens_per_s, result.tokens_per_s, "tokens/s")
        yield compare(f"peak memory, {of}", ours[1].peak_mb, result.peak_mb, "MB")


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

        def begin(name: str) -> float:
            tell(f"{name}: starts ({list(workers).index(name) + 1} of {len(workers)})")
            seconds = workers[name].ask("begin")
            tell(f"{name}: first step took {seconds:.1f} s")
            return seconds

        start = time.monotonic()

        # The first alone, since its time is shown; then some at once, since compiling hardly uses
        # a second core. Nothing is measured before all are ready.
        first, *others = workers
        first_step_s = {first: begin(first)}
        with ThreadPoolExecutor(STARTED_AT_ONCE) as pool:
            first_step_s |= dict(zip(others, pool.map(begin, others), strict=True))
        times: dict[str, list[float]] = {name: [] for name in workers}
        for turn in range(TURNS):
            for name, worker in workers.items():
                times[name].append(worker.ask("step"))
                speed = contenders[name].num_tokens / times[name][-1]
                tell(f"{name}: {speed:,.0f} tokens/s (turn {turn + 1} of {TURNS})")
        return {
            name: Result(
                contender.num_tokens / median(times[name]),
                first_step_s[name],
                workers[name].ask("peak"),
            )
            for name, contender in contenders.items()
        }


def _started(name: str, contender: Contender) -> Worker:
    # scripts/process.py has set it for this process and all that it starts.
    changes = {} if contender.is_tuned else {"GOMP_SPINCOUNT": None}
    return Worker(name, "training_worker", json.dumps(asdict(contender)), **changes)


def main_rows(results: Mapping[str, Result], peak: float) -> list[Row]:
    """Compare ours with the others, by speed, memory, and the share of the machine's peak."""
    ours, ours_float32 = results["ours, bfloat16"], results["ours, float32"]
    least_speed = {
        "transformers, bfloat16": 1.6,
        "transformers, bfloat16, same allocator": 1.25,
        "transformers, float32": 1.2,
    }
    speeds: list[Row] = []
    memory: list[Row] = []
    for name, other in results.items():
        if name.startswith("ours"):
            continue
        mine = ours_float32 if "float32" in name else ours
        speed = mine.tokens_per_s, other.tokens_per_s
        at_least = least_speed.get(name)
        speeds.append(compare(f"speed (peer: {name})", *speed, "tokens/s", at_least=at_least))
        at_most = 0.6 if name.startswith("transformers, bfloat16") else None
        peaks = mine.peak_mb, other.peak_mb
        memory.append(compare(f"peak memory (peer: {name})", *peaks, "MB", at_most=at_most))
    share = utilisation_of(OURS.config.model, ours.tokens_per_s, peak)
    first = ours.first_step_s
    return [
        Row("matrix products, bfloat16", peak / 1e9, "GFLOP/s"),
        *speeds,
        *memory,
        Row("share of the bfloat16 peak", share, "", None, "at least 0.65", share >= 0.65),
        Row("first step", first, "s", None, "below 90 (warm cache: 30)", first < 90),
    ]
