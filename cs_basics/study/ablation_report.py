"""The report of an ablation: curves, tables, what is noise, and how it was measured."""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from cs_basics.run.atomic import write_atomically
from cs_basics.run.pages import render, to_png, to_svg
from cs_basics.settings.run import TrainConfig
from cs_basics.study.ablation import changes
from cs_basics.study.ablation_plot import plot_runs
from cs_basics.study.ablation_run import (
    ACTIVATION_SEQUENCES,
    DIVERGED_BY_NATS,
    EVAL_TOKENS,
    NUM_WINDOWS,
    RunResult,
)
from cs_basics.study.ablation_summary import (
    ERRATIC_SPREAD,
    Difference,
    Noise,
    Run,
    Summary,
    summarise,
)
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
    """Write report.html, report.md and the plot, from the runs that are done.

    Args:
        folder: Where they go.
        suite: The name of the suite.
        base: The configuration that the variants change.
        runs: All runs of the suite, done or not.
    """
    summaries = summarise(runs)
    noise = Noise(summaries)
    figure = plot_runs(summaries)
    num_done = sum(run.result is not None for run in runs)
    progress = "" if num_done == len(runs) else f" ({num_done} of {len(runs)} runs are done)"
    seeds = ", ".join(map(str, sorted({run.config.run.seed for run in runs})))
    configs = {"base": base} | {_name(r): r.config for s in summaries for r in s.runs}
    content = {
        "title": f"Ablation: {suite}",
        "intro": f"{len(summaries)} variants, each trained for {_budget(base)} with every seed of "
        f"{seeds}{progress}. Losses and bits per byte: lower is better.",
        "curves": to_svg(figure),
        "variants": _table_of_variants(base, summaries, noise),
        "noise_rule": _noise_rule(noise),
        "sentences": _sentences(summaries, noise),
        "runs": _table_of_runs(summaries),
        "method": _method(base),
        "settings": [(name, json.dumps(c.to_json(), indent=2)) for name, c in configs.items()],
    }
    write_atomically(folder / "loss.png", to_png(figure))
    for name, template in (
        ("report.html", TEMPLATE),
        ("report.md", TEMPLATE.with_suffix(".markdown")),
    ):
        write_atomically(folder / name, render(template, **content).encode())


def _table_of_variants(
    base: TrainConfig, summaries: Sequence[Summary], noise: Noise
) -> list[list[str]]:
    reference = _reference(base, summaries)
    name = "base" if reference is None else reference.variant
    rows = [
        [
            *("variant", *_titles(_BITS), "largest - smallest", f"to {name}"),
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
                _to_reference(summary, reference, noise),
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


def _sentences(summaries: Sequence[Summary], noise: Noise) -> list[str]:
    """Compare each variant with the next in the ranking, and name those that are not ranked."""
    sound = [summary for summary in summaries if summary.is_sound]
    sentences = [_sentence(noise.difference(one, other)) for one, other in pairwise(sound)]
    sentences += [
        f"{summary.variant} is not ranked: {_status(summary)}."
        for summary in summaries
        if not summary.is_sound
    ]
    return sentences or ["Only one variant has a score: there is nothing to compare."]


def _sentence(difference: Difference) -> str:
    gap = (
        f"{difference.ahead} is {difference.bits_per_byte:.4f} bits per byte ahead of "
        f"{difference.behind}"
    )
    if difference.standard_error is None:
        return f"{gap}."
    verdict = "within noise" if difference.is_noise else "more than noise"
    return f"{gap}: {verdict} (standard error {difference.standard_error:.4f})."


def _noise_rule(noise: Noise) -> str:
    if noise.pooled is None:
        return "No variant has scores of two seeds: nobody can tell which differences are noise."
    text = (
        f"Between seeds a run varies by {noise.pooled**0.5:.4f} bits per byte (standard "
        f"deviation, pooled over the variants, {noise.degrees_of_freedom} degrees of freedom). A "
        f"difference of two means below {quantile_95(noise.degrees_of_freedom):.1f} of its "
        "standard errors is within noise: chance exceeds that in one case of 20 (Student's t)."
    )
    if noise.erratic:
        text += (
            f" Judged by their own spread, which is over {ERRATIC_SPREAD:g} times the median: "
            f"{', '.join(sorted(noise.erratic))}."
        )
    return text + (
        " Each variant is compared with the next one only: several small steps, each within noise,"
        " can add up to a real difference."
    )


def _method(base: TrainConfig) -> list[str]:
    text = base.data.train_text or "stories from the grammar"
    return [
        f"Text: {text}. All runs share one tokenizer and one token file. Runs of the same seed and "
        "batch size draw the same batches. Runs follow one another, each in its own process.",
        f"Budget: {_budget(base)}; preparing, compiling and evaluating are not counted. "
        f"The learning rate falls ({base.optim.schedule}) until the budget ends.",
        f"Validation loss and bits per byte: after the last update, on the first "
        f"{EVAL_TOKENS:,} tokens of the validation text, or on all if it is shorter.",
        "tokens/s: of the update of median duration. Memory: the most that the process held while "
        "training (on a GPU: the most that was allocated there). Of several seeds the table shows "
        "mean speed and duration, and the largest of the other columns.",
        f"Largest activation: largest absolute value in the residual stream after any block, over "
        f"the first {ACTIVATION_SEQUENCES} sequences of the validation text, after the last "
        "update. Largest gradient: largest joint L2 norm before clipping.",
        f"Diverged: the loss or the gradient was not finite, or the run ended more than "
        f"{DIVERGED_BY_NATS:g} nat above its own best window (training loss; the run is cut into "
        f"{NUM_WINDOWS} windows). The step is the first without a finite loss, or the first after "
        "the best window. In the picture an x marks the end of the line.",
        "No better than token frequencies: the validation loss is not below the entropy of the "
        "validation tokens, the lowest loss that is possible without any context.",
    ]


def _to_reference(summary: Summary, reference: Summary | None, noise: Noise) -> str:
    if reference is None or not summary.is_sound or summary is reference:
        return "-"
    difference = noise.difference(summary, reference)
    sign = "-" if difference.ahead == summary.variant else "+"
    remark = " (noise)" if difference.is_noise else ""
    return f"{sign}{difference.bits_per_byte:.4f}{remark}"


def _status(summary: Summary) -> str:
    if len({run.status for run in summary.runs}) == 1:
        return summary.runs[0].status
    return "; ".join(f"seed {run.config.run.seed}: {run.status or 'sound'}" for run in summary.runs)


def _reference(base: TrainConfig, summaries: Sequence[Summary]) -> Summary | None:
    """Return the sound variant that changes only what all variants change, if there is one."""
    changed = [set(_changes(base, summary).split(", ")) - {""} for summary in summaries]
    by_all = set[str].intersection(*changed) if len(changed) > 1 else set[str]()
    pairs = zip(summaries, changed, strict=True)
    return next((s for s, own in pairs if own == by_all and s.is_sound), None)


def _changes(base: TrainConfig, summary: Summary) -> str:
    changed = changes(base, summary.runs[0].config)
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in changed.items()
        if name not in _NOT_COMPARED
    )


def _budget(base: TrainConfig) -> str:
    minutes, steps = base.run.max_minutes, base.run.max_steps
    limits = [] if minutes is None else [f"{minutes:g} minutes"]
    limits += [] if steps is None else [f"{steps:,} updates of {base.data.batch_size} sequences"]
    return " or ".join(limits)


def _name(run: Run) -> str:
    return f"{run.variant}, seed {run.config.run.seed}"
