"""Training steps against the transformers package, and a model of PyTorch's built-in layers.

Every contender makes one update at a time, in turns with the others (training_worker.py).
docs/performance.md says where the time goes and what each of our steps gained.
"""

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.hardware import matmul_rate
from cs_basics.study.accounting import utilisation_of

from .measuring import Report, Row, compare
from .training_worker import Contender
from .worker import Worker, command_of, environment_of

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
GROWTH: dict[str, dict[str, Any]] = {
    "context 1,024, batch 4": {"context_length": 1024, "batch_size": 4},
    "vocabulary 32,000": {"vocab_size": 32_000},
    "batch 4": {"batch_size": 4},
    "width 512": {"d_model": 512},
}
COLORS = {"ours": "#c44e52", "peer": "#4c72b0"}


class Result(NamedTuple):
    """What a contender did."""

    tokens_per_s: float
    first_step_s: float
    peak_mb: float


Results = Mapping[str, Result]


def measure() -> Report:
    """Measure the main contenders, our steps one by one, and how the lead grows."""
    main = race(MAIN)
    steps = race(STEPS)
    growth = {
        name: race({"ours": replace(OURS, **sizes), "peer": replace(PEER, **sizes, is_tuned=True)})
        for name, sizes in GROWTH.items()
    }
    peak = matmul_rate(torch.bfloat16, torch.device("cpu"))
    rows = [*main_rows(main, peak), *step_rows(steps), *growth_rows(growth, main)]
    details = {
        part: {name: result._asdict() for name, result in results.items()}
        for part, results in {"main": main, "steps": steps, **growth}.items()
    }
    return Report(rows, details=details, draw=lambda path: draw(main, steps, growth, path))


def race(contenders: dict[str, Contender]) -> dict[str, Result]:
    """Let contenders make updates in turns; return the medians.

    Raises:
        ValueError: A contender died; the message names it.
    """
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(_started(name, contenders[name])) for name in contenders
        }

        def begin(name: str) -> float:
            print(f"starting: {name}", file=sys.stderr)
            return workers[name].ask("begin")

        # The first alone, since its time is shown; then some at once, since compiling hardly uses
        # a second core. Nothing is measured before all are ready.
        first, *others = workers
        first_step_s = {first: begin(first)}
        with ThreadPoolExecutor(STARTED_AT_ONCE) as pool:
            first_step_s |= dict(zip(others, pool.map(begin, others), strict=True))
        times: dict[str, list[float]] = {name: [] for name in workers}
        for _ in range(TURNS):
            for name, worker in workers.items():
                times[name].append(worker.ask("step"))
        return {
            name: Result(
                contender.num_tokens / median(times[name]),
                first_step_s[name],
                workers[name].ask("peak"),
            )
            for name, contender in contenders.items()
        }


def _started(name: str, contender: Contender) -> Worker:
    command = command_of("training_worker", contender.to_json())
    # scripts/process.py has set it for this process and all that it starts.
    environment = environment_of() if contender.is_tuned else environment_of(GOMP_SPINCOUNT=None)
    return Worker(name, command, environment)


def main_rows(results: Results, peak: float) -> list[Row]:
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


def step_rows(results: Results) -> list[Row]:
    """Show what each step gained; the peer is the step before."""
    rows: list[Row] = []
    before = None
    for name, result in results.items():
        rows.append(Row(name, result.tokens_per_s, "tokens/s", before and before.tokens_per_s))
        rows.append(Row("  its peak memory", result.peak_mb, "MB", before and before.peak_mb))
        before = result
    return rows


def growth_rows(growth: Mapping[str, Results], main: Results) -> list[Row]:
    """Compare with transformers at other sizes, with the same allocator settings.

    At a longer context and a larger vocabulary the lead has to be no smaller than before.
    """
    peer = main["transformers, bfloat16, same allocator"]
    lead = main["ours, bfloat16"].tokens_per_s / peer.tokens_per_s
    rows: list[Row] = []
    for name, results in growth.items():
        at_least = round(lead, 2) if name.startswith(("context", "vocabulary")) else None
        mine, theirs = results["ours"], results["peer"]
        rows.append(
            compare(name, mine.tokens_per_s, theirs.tokens_per_s, "tokens/s", at_least=at_least)
        )
        rows.append(compare("  peak memory", mine.peak_mb, theirs.peak_mb, "MB"))
    return rows


def draw(main: Results, steps: Results, growth: Mapping[str, Results], path: Path) -> None:
    """Draw speed and memory of the contenders, of our steps, and at other sizes, into a PNG."""
    figure = Figure(figsize=(13, 9), layout="constrained")
    other_sizes = {
        f"{name}: {who}": result
        for name, results in growth.items()
        for who, result in results.items()
    }
    parts = {"contenders": main, "what each step gained": steps, "other sizes": other_sizes}
    for (left, right), (title, results) in zip(figure.subplots(3, 2), parts.items(), strict=True):
        _draw_bars(left, {name: result.tokens_per_s for name, result in results.items()})
        _draw_bars(right, {name: result.peak_mb for name, result in results.items()})
        left.set_title(f"{title}: tokens/s")
        right.set_title(f"{title}: peak memory, MB")
        right.set_yticklabels([])
    with atomic_writer(path) as file:
        figure.savefig(file, dpi=110, format="png")


def _draw_bars(panel: Axes, values: Mapping[str, float]) -> None:
    peers = ("transformers", "built-in", "peer")
    colors = [COLORS["peer" if any(p in name for p in peers) else "ours"] for name in values]
    bars = panel.barh(list(values), list(values.values()), color=colors)
    panel.bar_label(bars, fmt="{:,.0f}", fontsize=8, padding=2)
    panel.invert_yaxis()
    panel.tick_params(labelsize=8)
    panel.margins(x=0.15)
