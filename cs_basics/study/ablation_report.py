"""The report of an ablation: curves, tables, and what is noise; ablation.html has the words."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib import colormaps
from matplotlib.figure import Figure

from cs_basics.run.atomic import write_atomically
from cs_basics.run.pages import render, to_svg
from cs_basics.settings.run import TrainConfig
from cs_basics.study import ablation_run
from cs_basics.study.ablation import changes
from cs_basics.study.ablation_run import NUM_WINDOWS, RunResult, loss_windows
from cs_basics.study.ablation_summary import Noise, Run, Summary, summarise

TEMPLATE = Path(__file__).with_name("ablation.html")

SETTLED = 0.15
"""The share of a run after which its losses decide the limits of the plot: with the fall from the
untrained loss, all later differences would be flat."""
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
    """Write report.html, from the runs that are done.

    Args:
        folder: Where it goes.
        suite: The name of the suite.
        base: The configuration that the variants change.
        runs: All runs of the suite, done or not.
    """
    summaries = summarise(runs)
    noise = Noise(summaries)
    page = render(
        TEMPLATE,
        title=f"Ablation: {suite}",
        base=base,
        num_done=sum(run.result is not None for run in runs),
        num_runs=len(runs),
        seeds=sorted({run.config.run.seed for run in runs}),
        curves=to_svg(plot_runs(summaries)),
        variants=_table_of_variants(base, summaries, noise),
        noise=noise,
        measured=ablation_run,
        settings=json.dumps(base.to_json(), indent=2),
    )
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
    behind = f"{summary.mean - best.mean:.4f}"
    return f"{behind} (noise)" if noise.explains(best, summary) else behind


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


def plot_runs(summaries: Sequence[Summary]) -> Figure:
    """Draw the training loss of each run, by update and by minute.

    Args:
        summaries: Each variant has a colour; the legend keeps this order.
    """
    figure = Figure(figsize=(13, max(5.0, 0.22 * len(summaries))), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    colors = colormaps["turbo"].resampled(len(summaries))
    for index, summary in enumerate(summaries):
        for run in summary.runs:
            rows = [row for row in run.rows if "train/loss" in row]
            windows = loss_windows([row["train/loss"] for row in rows]) if rows else []
            losses = [loss for _, loss in windows]
            for panel, key, scale in zip(panels, ("step", "elapsed_s"), (1, 60), strict=True):
                places = [rows[step - 1][key] / scale for step, _ in windows]
                panel.plot(places, losses, color=colors(index), linewidth=1.1)
        panels[1].plot([], [], color=colors(index), label=summary.variant)
    panels[0].set(xlabel="step", ylabel=f"training loss (nats, mean of 1/{NUM_WINDOWS} of the run)")
    panels[1].set(xlabel="minutes")
    panels[0].set_ylim(*_limits([run for summary in summaries for run in summary.runs]))
    panels[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    return figure


def _limits(runs: Iterable[Run]) -> tuple[float, float]:
    """Return limits around the losses after SETTLED of each run that did not diverge."""
    settled: list[float] = []
    for run in runs:
        if run.score is not None:
            losses = [row["train/loss"] for row in run.rows if "train/loss" in row]
            settled += losses[int(SETTLED * len(losses)) :]
    return (min(settled) - 0.1, max(settled) + 0.1) if settled else (0.0, 10.0)
