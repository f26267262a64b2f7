"""The report of an ablation: curves, a table, what is noise, and how it was measured.

Tested by `make test ARGS=tests/project/test_ablation_report.py`.
"""

import io
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_basics.run.atomic import atomic_writer
from cs_basics.run.config import TrainConfig
from cs_basics.run.document import (
    Block,
    Details,
    Heading,
    Items,
    Paragraph,
    Picture,
    Table,
    to_html,
    to_markdown,
)
from cs_basics.study.ablation import changes
from cs_basics.study.ablation_run import (
    ACTIVATION_WINDOWS,
    DIVERGED_BY_NATS,
    NUM_WINDOWS,
    RunResult,
    loss_windows,
)
from cs_basics.study.ablation_summary import (
    ERRATIC_SPREAD,
    STANDARD_ERRORS,
    Difference,
    Noise,
    Run,
    Summary,
    summarise,
)

PLOT = "loss.png"
# Of a run: after so much of it the fall from the untrained loss no longer presses the rest flat.
_SETTLED = 0.15
# Where every run diverged: a little above the loss of guessing among 10,000 tokens.
_TOP_OF_EMPTY_PLOT = 10.0
_FEW_COLORS = 10
_COLORS_OF_MAP = 20
_LINE_STYLES = ("-", "--", ":")


def write_report(folder: Path, suite: str, base: TrainConfig, runs: Sequence[Run]) -> None:
    """Write report.html, report.md and the plot, from whatever runs are done.

    Args:
        folder: Where they go.
        suite: Its name.
        base: The settings that the variants change.
        runs: Every run of the suite, done or not.
    """
    summaries = summarise(runs)
    png = plot_runs(summaries)
    title = f"Ablation: {suite}"
    blocks = _blocks(base, runs, summaries, png)
    for name, content in (
        (PLOT, png),
        ("report.md", to_markdown(title, blocks).encode()),
        ("report.html", to_html(title, blocks).encode()),
    ):
        with atomic_writer(folder / name) as file:
            file.write(content)


def plot_runs(summaries: Sequence[Summary]) -> bytes:
    """Draw the training loss of all runs by update and by minute; return a PNG.

    Args:
        summaries: One colour each, a line for each run; in this order in the legend.
    """
    height = max(5.0, 0.22 * len(summaries))
    figure = Figure(figsize=(13, height), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    limits = _limits_of_plot([run for summary in summaries for run in summary.runs])
    for panel, key, label, scale in (
        (panels[0], "step", "step", 1.0),
        (panels[1], "elapsed_s", "minutes", 60.0),
    ):
        panel.set_ylim(limits)
        for index, summary in enumerate(summaries):
            style = _style(index, len(summaries))
            for run in summary.runs:
                _draw_run(panel, run, key, scale, limits[1], style)
            panel.plot([], [], label=summary.variant, **style)
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"training loss (nats per token, mean of 1/{NUM_WINDOWS} of the run)")
    panels[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, format="png")
    return buffer.getvalue()


def _style(index: int, num_variants: int) -> dict[str, Any]:
    """Return how the lines of a variant look; unlike those of any other up to sixty."""
    line_style = _LINE_STYLES[index // _COLORS_OF_MAP % len(_LINE_STYLES)]
    is_few = num_variants <= _FEW_COLORS
    color = f"C{index}" if is_few else colormaps["tab20"](index % _COLORS_OF_MAP)
    return {"color": color, "linestyle": line_style, "linewidth": 1.1}


def _draw_run(
    panel: Axes, run: Run, key: str, scale: float, top: float, style: dict[str, Any]
) -> None:
    points = _curve(run, key, scale)
    if not points:
        return
    panel.plot(*zip(*points, strict=True), **style)
    if run.result is not None and run.result.diverged_at is not None:
        x, y = points[-1]
        mark: dict[str, Any] = {
            "marker": "x",
            "markersize": 9,
            "markeredgewidth": 2.5,
            "color": style["color"],
        }
        panel.plot([x], [min(y, top)], clip_on=False, zorder=3, **mark)


def _curve(run: Run, key: str, scale: float) -> list[tuple[float, float]]:
    """Return where the windows of a run end, on the axis of `key`, and their mean losses."""
    rows = [row for row in run.rows if "train/loss" in row]
    if not rows:
        return []
    windows = loss_windows([row["train/loss"] for row in rows])
    return [(rows[step - 1][key] / scale, loss) for step, loss in windows]


def _limits_of_plot(runs: Sequence[Run]) -> tuple[float, float]:
    """Return the losses that are worth their room: those of sound runs once they have settled."""
    settled: list[float] = []
    for run in runs:
        if run.result is not None and run.result.diverged_at is None:
            losses = [loss for _, loss in _curve(run, "step", 1.0)]
            settled += losses[int(_SETTLED * len(losses)) :]
    if not settled:
        return 0.0, _TOP_OF_EMPTY_PLOT
    return min(settled) - 0.1, max(settled) + 0.1


def _blocks(
    base: TrainConfig, runs: Sequence[Run], summaries: Sequence[Summary], png: bytes
) -> list[Block]:
    noise = Noise(summaries)
    num_done = sum(run.result is not None for run in runs)
    seeds = sorted({run.config.seed for run in runs})
    progress = "" if num_done == len(runs) else f" ({num_done} of {len(runs)} runs are done)"
    return [
        Paragraph(
            f"{len(summaries)} variants, each trained for {_budget(base)} with every seed of "
            f"{', '.join(map(str, seeds))}{progress}. Losses and bits per byte: lower is better."
        ),
        Picture(PLOT, "Training loss of every run by step and by minute", png),
        Heading("Variants"),
        _table_of_variants(base, summaries, noise),
        Heading("Which differences are noise"),
        Paragraph(_noise_rule(noise)),
        Items(_sentences(summaries, noise)),
        Heading("Runs"),
        _table_of_runs(summaries),
        Heading("How it was measured"),
        Items(_method(base)),
        Heading("Settings"),
        Details("base", _settings(base)),
        *(Details(_name(run), _settings(run.config)) for s in summaries for run in s.runs),
    ]


def _table_of_variants(base: TrainConfig, summaries: Sequence[Summary], noise: Noise) -> Table:
    reference = next((s for s in summaries if _changes(base, s) == "" and s.is_sound), None)
    header = [
        *("variant", "bits per byte", "largest - smallest", f"to {_variant(reference)}"),
        *("validation loss", "tokens/s", "steps", "memory MB", "largest activation"),
        *("largest gradient", "parameters", "changed", "status"),
    ]
    rows: list[list[str]] = []
    for summary in summaries:
        results = [run.result for run in summary.runs if run.result is not None]
        is_scored = [r for r in results if r.diverged_at is None and r.bits_per_byte is not None]
        speeds = [r.tokens_per_s for r in results if r.tokens_per_s is not None]
        rows.append(
            [
                summary.variant,
                _mean([r.bits_per_byte for r in is_scored], ".4f"),
                f"{max(summary.scores) - min(summary.scores):.4f}"
                if len(summary.scores) > 1
                else "-",
                _to_reference(summary, reference, noise),
                _mean([r.loss for r in is_scored], ".4f"),
                _mean(speeds, ",.0f"),
                _mean([r.steps for r in results], ",.0f"),
                _largest([r.peak_memory_mb for r in results], ",.0f"),
                _largest([r.largest_activation for r in results], ".3g"),
                _largest([r.largest_grad_norm for r in results], ".3g"),
                _largest([r.num_parameters for r in results], ","),
                _changes(base, summary) or "nothing",
                _status(summary),
            ]
        )
    return Table(header, rows)


def _table_of_runs(summaries: Sequence[Summary]) -> Table:
    header = [
        *("run", "bits per byte", "validation loss", "tokens/s", "steps", "minutes"),
        *("memory MB", "largest activation", "largest gradient", "status"),
    ]
    rows = [[_name(run), *_numbers(run.result), run.status] for s in summaries for run in s.runs]
    return Table(header, rows)


def _numbers(result: RunResult | None) -> list[str]:
    if result is None:
        return ["-"] * 8
    return [
        _number(result.bits_per_byte, ".4f"),
        _number(result.loss, ".4f"),
        _number(result.tokens_per_s, ",.0f"),
        _number(result.steps, ","),
        _number(result.minutes, ".2f"),
        _number(result.peak_memory_mb, ",.0f"),
        _number(result.largest_activation, ".3g"),
        _number(result.largest_grad_norm, ".3g"),
    ]


def _sentences(summaries: Sequence[Summary], noise: Noise) -> list[str]:
    """Compare each variant with the next in the ranking, and name those that are in none."""
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
        return "No variant has two seeds with a score: nobody can tell which differences are noise."
    text = (
        f"A run strays by {noise.pooled**0.5:.4f} bits per byte from seed to seed (standard "
        f"deviation, pooled over the variants, {noise.degrees_of_freedom} degrees of freedom). A "
        f"difference of two means below {STANDARD_ERRORS:g} of its standard errors is within noise."
    )
    if noise.erratic:
        text += (
            f" Judged by their own spread, being over {ERRATIC_SPREAD:g} times the median one: "
            f"{', '.join(sorted(noise.erratic))}."
        )
    return text + (
        " Each variant is compared with the next one only: several small steps, each within noise,"
        " can add up to a real difference."
    )


def _method(base: TrainConfig) -> list[str]:
    text = "stories from the grammar" if base.train_text is None else str(base.train_text)
    return [
        f"Text: {text}. All runs share one tokenizer and one token file; runs of the same seed "
        "draw the same batches (as long as their batch size is the same) and start from the same "
        "seed for their weights. Runs follow one another, each in a process of its own.",
        f"Budget: {_budget(base)}. Preparing, compiling and evaluating are not counted. "
        "The cosine of the learning rate ends with the budget.",
        f"Validation loss and bits per byte: on the first {base.eval_tokens:,} tokens of the "
        "validation text, or all of it if it is shorter, after the last update.",
        "tokens/s: from the update of median length. Memory: the most that the process held while "
        "training (on a GPU: the most that was allocated there).",
        f"Largest activation: largest absolute value in the residual stream after any block, over "
        f"the first {ACTIVATION_WINDOWS} windows of the validation text, after the last update. "
        "Largest gradient: largest joint L2 norm before clipping.",
        f"Diverged: the loss or the gradient was not finite, or the run ended more than "
        f"{DIVERGED_BY_NATS:g} nat above its own best window (training loss; the run is cut into "
        f"{NUM_WINDOWS} windows). The step named is the first without a finite loss, or the first "
        "after the best window. An x marks the end of the line.",
        "No better than token frequencies: the validation loss is not below the entropy of the "
        "validation tokens, which is the best that a guess without any context can reach.",
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
    return "; ".join(f"seed {run.config.seed}: {run.status or 'sound'}" for run in summary.runs)


def _changes(base: TrainConfig, summary: Summary) -> str:
    changed = changes(base, summary.runs[0].config)
    own = {"seed", "run_dir", "vocab_size", "device", "dtype"}
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in changed.items()
        if name not in own
    )


def _budget(base: TrainConfig) -> str:
    limits: list[str] = []
    if base.max_minutes is not None:
        limits.append(f"{base.max_minutes:g} minutes")
    if base.max_steps is not None:
        limits.append(f"{base.max_steps:,} updates")
    return " or ".join(limits)


def _settings(config: TrainConfig) -> str:
    return json.dumps(config.to_json(), indent=2)


def _name(run: Run) -> str:
    return f"{run.variant}, seed {run.config.seed}"


def _variant(summary: Summary | None) -> str:
    return "base" if summary is None else summary.variant


def _mean(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return _number(sum(known) / len(known) if known else None, form)


def _largest(values: Sequence[float | None], form: str) -> str:
    return _number(max((value for value in values if value is not None), default=None), form)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
