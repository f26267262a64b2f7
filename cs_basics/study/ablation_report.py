"""The report of an ablation: curves, tables, and what is noise; ablation.html has the words."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean

from cs_basics.run.atomic import write_atomically
from cs_basics.run.pages import render, to_png, to_svg
from cs_basics.settings.run import TrainConfig
from cs_basics.study import ablation_run
from cs_basics.study.ablation import changes
from cs_basics.study.ablation_plot import plot_runs
from cs_basics.study.ablation_run import RunResult
from cs_basics.study.ablation_summary import ERRATIC_SPREAD, Noise, Run, Summary, summarise
from cs_basics.study.student_t import quantile_95

TEMPLATE = Path(__file__).with_name("ablation.html")

_NOT_COMPARED = ("seed", "run_dir", "vocab_size", "device", "dtype")
"""Settings that are not part of what a suite varies."""

_Columns = Sequence[tuple[str, str, Callable[[Iterable[float]], float], str]]
"""Columns of a table: title, field of RunResult, how a variant combines its runs, format."""

_BITS: _Columns = [("bits per byte", "bits_per_byte", fmean, ".4f")]
_LOSS: _Columns = [("validation loss", "loss", fmean, ".4f")]
_MEASURED: _Columns = [
    ("tokens/s", "tokens_per_s", fmean, ",.0f"),
    ("steps", "steps", fmean, ",.0f"),
    ("minutes", "minutes", fmean, ".2f"),
    ("memory MB", "peak_memory_mb", max, ",.0f"),
    ("largest activation", "largest_activation", max, ".3g"),
    ("largest gradient", "largest_grad_norm", max, ".3g"),
    ("parameters", "num_parameters", max, ",.0f"),
]


def write_report(folder: Path, suite: str, base: TrainConfig, runs: Sequence[Run]) -> None:
    """Write report.html and the plot, from the runs that are done.

    Args:
        folder: Where they go.
        suite: The name of the suite.
        base: The configuration that the variants change.
        runs: All runs of the suite, done or not.
    """
    summaries = summarise(runs)
    noise = Noise(summaries)
    figure = plot_runs(summaries)
    configs = {"base": base} | {_name(r): r.config for s in summaries for r in s.runs}
    page = render(
        TEMPLATE,
        title=f"Ablation: {suite}",
        base=base,
        num_done=sum(run.result is not None for run in runs),
        num_runs=len(runs),
        seeds=sorted({run.config.run.seed for run in runs}),
        curves=to_svg(figure),
        variants=_table_of_variants(base, summaries, noise),
        noise=noise,
        quantile=quantile_95(noise.degrees_of_freedom),
        erratic_spread=ERRATIC_SPREAD,
        runs=_table_of_runs(summaries),
        measured=ablation_run,
        settings=[(name, json.dumps(c.to_json(), indent=2)) for name, c in configs.items()],
    )
    write_atomically(folder / "loss.png", to_png(figure))
    write_atomically(folder / "report.html", page.encode())


def _table_of_variants(
    base: TrainConfig, summaries: Sequence[Summary], noise: Noise
) -> list[list[str]]:
    """Rank the variants, and compare each with the best."""
    best = summaries[0]
    rows = [
        [
            *("variant", *_titles(_BITS), "largest - smallest", f"behind {best.variant}"),
            *(*_titles(_LOSS), *_titles(_MEASURED), "changed", "status"),
        ]
    ]
    for summary in summaries:
        results = [run.result for run in summary.runs if run.result is not None]
        sound = [result for result in results if result.diverged_at is None]
        scores = summary.scores
        rows.append(
            [
                summary.variant,
                *_cells(sound, _BITS),
                f"{max(scores) - min(scores):.4f}" if len(scores) > 1 else "-",
                _behind(best, summary, noise),
                *_cells(sound, _LOSS),
                *_cells(results, _MEASURED),
                _changes(base, summary) or "nothing",
                _status(summary),
            ]
        )
    return rows


def _table_of_runs(summaries: Sequence[Summary]) -> list[list[str]]:
    columns = [*_BITS, *_LOSS, *_MEASURED]
    runs = [run for summary in summaries for run in summary.runs]
    return [["run", *_titles(columns), "status"]] + [
        [_name(run), *_cells([run.result] if run.result else [], columns), run.status]
        for run in runs
    ]


def _titles(columns: _Columns) -> list[str]:
    return [title for title, *_ in columns]


def _cells(results: Sequence[RunResult], columns: _Columns) -> list[str]:
    """Combine some runs in each column; what none of them has is a dash."""
    cells: list[str] = []
    for _, field, combine, form in columns:
        values = [getattr(result, field) for result in results]
        known = [value for value in values if value is not None]
        cells.append(format(combine(known), form) if known else "-")
    return cells


def _behind(best: Summary, summary: Summary, noise: Noise) -> str:
    if not summary.is_sound or summary is best:
        return "-"
    difference = noise.difference(best, summary)
    return f"{difference.bits_per_byte:.4f}{' (noise)' if difference.is_noise else ''}"


def _status(summary: Summary) -> str:
    if len({run.status for run in summary.runs}) == 1:
        return summary.runs[0].status
    return "; ".join(f"seed {run.config.run.seed}: {run.status or 'sound'}" for run in summary.runs)


def _changes(base: TrainConfig, summary: Summary) -> str:
    changed = changes(base, summary.runs[0].config)
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in changed.items()
        if name not in _NOT_COMPARED
    )


def _name(run: Run) -> str:
    return f"{run.variant}, seed {run.config.run.seed}"
