"""Training steps against the transformers package, and a model of PyTorch's built-in layers.

Every contender lives in a process of its own (training_worker.py) and makes one update at a time,
in turns with the others, so that all share what else the machine does. docs/performance.md says
where the time goes and what each of our steps gained.
"""

import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cs_basics.run.hardware import matmul_rate
from cs_basics.study import accounting

from .contender import Contender
from .measuring import Report, Row, compare
from .training_plot import draw

SCRIPTS = Path(__file__).parents[1]
TURNS = 5
STARTED_AT_ONCE = 2
OURS = Contender(kind="ours")
PEER = Contender(kind="transformers", is_tuned=False)
MAIN = {
    "ours, bfloat16": OURS,
    "ours, float32": replace(OURS, dtype="float32"),
    "ours, bfloat16, not compiled": replace(OURS, is_compiled=False),
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

PLAIN = replace(
    OURS,
    merge_projections=False,
    chunk_loss=False,
    tile_attention=False,
)
STEPS = {
    "as the definitions stand": replace(PLAIN, is_compiled=False, dtype="float32", is_tuned=False),
    "+ bfloat16 products": replace(PLAIN, is_compiled=False, is_tuned=False),
    "+ compiled": replace(PLAIN, is_tuned=False),
    "+ freed memory is kept": PLAIN,
    "+ merged projections": replace(PLAIN, merge_projections=True),
    "+ attention in tiles": replace(OURS, chunk_loss=False, attention_kernel=False),
    "+ loss in chunks": replace(OURS, attention_kernel=False),
    "+ attention in C++": OURS,
}
GROWTH: dict[str, dict[str, Any]] = {
    "context 1,024, batch 4": {"context_length": 1024, "batch_size": 4},
    "vocabulary 32,000": {"vocab_size": 32_000},
    "batch 4": {"batch_size": 4},
    "width 512": {"d_model": 512},
}


class Result(NamedTuple):
    """What a contender did."""

    tokens_per_s: float
    first_step_s: float
    peak_mb: float


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
        ValueError: One of them died; its name and last words.
    """
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(_started(contender)) for name, contender in contenders.items()
        }
        first_step_s = _started_up(workers)
        times: dict[str, list[float]] = {name: [] for name in workers}
        for _ in range(TURNS):
            for name, worker in workers.items():
                times[name].append(_answer(name, worker, "step\n"))
        peaks: dict[str, float] = {}
        for name, worker in workers.items():
            assert worker.stdin is not None
            worker.stdin.close()
            peaks[name] = _answer(name, worker, None)
    return {
        name: Result(
            contender.num_tokens / statistics.median(times[name]), first_step_s[name], peaks[name]
        )
        for name, contender in contenders.items()
    }


def _started_up(workers: dict[str, subprocess.Popen[str]]) -> dict[str, float]:
    """Let every worker make its first update; return the seconds that took.

    The first one alone, since its time is shown; then some at once, since compiling hardly uses a
    second core. Nothing is measured before all are ready.
    """

    def begin(name: str) -> float:
        print(f"starting: {name}", file=sys.stderr)
        return _answer(name, workers[name], "")

    first, *others = workers
    first_step_s = {first: begin(first)}
    with ThreadPoolExecutor(STARTED_AT_ONCE) as pool:
        return first_step_s | dict(zip(others, pool.map(begin, others), strict=True))


def _started(contender: Contender) -> subprocess.Popen[str]:
    places = [str(SCRIPTS), str(SCRIPTS.parent), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    if not contender.is_tuned:
        # scripts/process.py sets it, for this process and all that it starts.
        environment.pop("GOMP_SPINCOUNT", None)
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.training_worker", contender.to_json()],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _answer(name: str, worker: subprocess.Popen[str], question: str | None) -> float:
    """Ask a worker and return the number that it says; "": begin; None: only listen."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    if question is not None:
        worker.stdin.write(question or "begin\n")
        worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise ValueError(f"{name}: the process ended early, see above")
    return float(line)


def main_rows(results: dict[str, Result], peak: float) -> list[Row]:
    """Compare ours with the peers, by speed, memory, and the share of the machine's peak."""
    ours, ours_float32 = results["ours, bfloat16"], results["ours, float32"]
    rows = [Row("matrix products, bfloat16", peak / 1e9, "GFLOP/s")]
    for name, result in results.items():
        goal = {
            "transformers, bfloat16": 1.6,
            "transformers, bfloat16, same allocator": 1.25,
            "transformers, float32": 1.2,
        }.get(name)
        mine = ours_float32 if "float32" in name else ours
        if not name.startswith("ours"):
            row = compare(
                f"speed (peer: {name})",
                mine.tokens_per_s,
                result.tokens_per_s,
                "tokens/s",
                at_least=goal,
            )
            rows.append(row)
    for name, result in results.items():
        if not name.startswith("ours"):
            mine = ours_float32 if "float32" in name else ours
            goal = 0.6 if name.startswith("transformers, bfloat16") else None
            row = compare(
                f"peak memory (peer: {name})", mine.peak_mb, result.peak_mb, "MB", at_most=goal
            )
            rows.append(row)
    share = accounting.utilisation_of(accounting.shape_of(OURS.config), ours.tokens_per_s, peak)
    rows.append(Row("share of the bfloat16 peak", share, "", None, "at least 0.65", share >= 0.65))
    first = ours.first_step_s
    rows.append(Row("first step", first, "s", None, "below 90 (warm cache: 30)", first < 90))
    rows.append(
        Row("not compiled", results["ours, bfloat16, not compiled"].tokens_per_s, "tokens/s")
    )
    return rows


def step_rows(results: dict[str, Result]) -> list[Row]:
    """Show what each step gained; the peer is the step before."""
    rows: list[Row] = []
    before = None
    for name, result in results.items():
        rows.append(Row(name, result.tokens_per_s, "tokens/s", before and before.tokens_per_s))
        rows.append(Row("  its peak memory", result.peak_mb, "MB", before and before.peak_mb))
        before = result
    return rows


def growth_rows(growth: dict[str, dict[str, Result]], main: dict[str, Result]) -> list[Row]:
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
