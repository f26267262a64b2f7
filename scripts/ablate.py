"""Compare variants of a model under equal budgets: python scripts/ablate.py lr.

python scripts/ablate.py batch --minutes-per-run 2 --train-text FILE --valid-text FILE
python scripts/ablate.py lr --max-steps 200 --seeds 0 1 2

Run again after a stop, it continues; once every run is done, it only writes the report.
"""

import dataclasses
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from process import keep_freed_memory  # isort: split

import tyro
from cli import check_can_write, log_to_stdout, progress_printer, run

from cs_basics.run.corpus import Corpus, prepare_corpus
from cs_basics.run.folder import RunFolder
from cs_basics.run.hardware import resolve_device, resolve_dtype
from cs_basics.run.metrics import Row, format_duration, read_metrics
from cs_basics.run.model import check_rooms
from cs_basics.settings.presets import PRESETS
from cs_basics.settings.run import TrainConfig
from cs_basics.study.ablation import SUITES, changes, variants_of
from cs_basics.study.ablation_report import write_report
from cs_basics.study.ablation_run import read_result
from cs_basics.study.ablation_summary import Run, summarise

RUNS = Path("runs")
DEFAULT_MINUTES = 2.0
RUN_SCRIPT = Path(__file__).with_name("ablation_run.py")

Suite = Annotated[Literal[*SUITES], tyro.conf.Positional]


def main(
    suite: Suite,  # pyright: ignore[reportUnknownParameterType]
    minutes_per_run: float | None = None,
    max_steps: int | None = None,
    train_text: Path | None = None,
    valid_text: Path | None = None,
    seeds: tuple[int, ...] = (0, 1),
    out: Path | None = None,
    preset: Literal[*PRESETS] = "stories",  # pyright: ignore[reportUnknownParameterType]
) -> None:
    """Train every variant of a suite equally long, and report which differences are real.

    Args:
        suite: What to vary; all: everything that any suite varies.
        minutes_per_run: Minutes of updates for each run; preparing and evaluating come on top
            (none: 2, or as long as max_steps takes).
        max_steps: Give each run this many updates; with minutes_per_run too, whichever ends first.
        train_text: Text to train on (none: the preset's, or stories from the grammar).
        valid_text: Text to validate on; goes with train_text.
        seeds: Every variant is trained once with each of these seeds.
        out: Folder for runs and report (none: runs/ablate-SUITE); finished runs there are kept.
        preset: The configuration that the variants change.
    """
    log_to_stdout()
    keep_freed_memory()
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ValueError(f"seeds={seeds}: give one or more of 0 and above, each once")
    if (train_text is None) != (valid_text is None):
        raise ValueError("--train-text and --valid-text go together: give both or neither")
    if minutes_per_run is None and max_steps is None:
        minutes_per_run = DEFAULT_MINUTES
    _, preset_config = PRESETS[preset]
    given = preset_config.replace(
        max_minutes=minutes_per_run,
        max_steps=max_steps,
        train_text=train_text or preset_config.data.train_text,
        valid_text=valid_text or preset_config.data.valid_text,
    )
    for config in variants_of(suite, given).values():
        check_rooms(config)
    folder = out or RUNS / f"ablate-{suite}"
    check_can_write(folder / "report.html")
    with RunFolder(folder).claim():
        shared = RunFolder(folder / "shared")
        base = shared_settings(given, folder, shared)
        runs = [
            find_run(name, config, folder / "runs" / f"{name}-seed{seed}", seed)
            for seed in seeds
            for name, config in variants_of(suite, base).items()
        ]
        finish_runs(suite, base, runs, folder, shared)
    for summary in summarise(runs):
        score = f"{summary.mean:.4f}" if summary.scores else "-"
        states = "; ".join(sorted({run.status for run in summary.runs if run.status}))
        print(f"{summary.variant:<24} {score:>8} bits per byte  {states}".rstrip())
    print(f"\nreport  {folder / 'report.html'}")
    if any(run.crash for run in runs):
        raise ValueError(f"a run crashed: see log.txt in its folder under {folder / 'runs'}")


def shared_settings(given: TrainConfig, folder: Path, shared: RunFolder) -> TrainConfig:
    """Return the settings of all runs, fully resolved, and prepare what the runs share.

    Args:
        given: The settings of this command line.
        folder: Folder of the whole ablation.
        shared: Folder for tokenizer and token files; its config.json says that they are complete.

    Raises:
        ValueError: The folder was begun with other settings, or is not of an ablation.
    """
    if shared.config.exists():
        stored = shared.read_config()
        # Settings that the text and the machine decided when the folder was begun.
        resolved = {
            "vocab_size": stored.model.vocab_size,
            "device": stored.run.device,
            "dtype": stored.run.dtype,
        }
        check_same(stored, given.replace(**resolved), folder)
        return stored
    if {path.name for path in folder.iterdir()} - {"shared", "lock"}:
        raise ValueError(f"{folder} is not empty and holds no ablation: choose another --out")
    # A preparation that was killed may have left incomplete files.
    shutil.rmtree(shared.path, ignore_errors=True)
    device = resolve_device(given.run.device)
    base = given.replace(
        vocab_size=prepare(given, shared).tokenizer.vocab_size,
        device=device.type,
        dtype=str(resolve_dtype(given.run.dtype, device)).removeprefix("torch."),
    )
    shared.write_config(base)
    return base


def prepare(config: TrainConfig, shared: RunFolder) -> Corpus:
    """Return the texts of all runs as token files; what is missing is made first."""
    is_fast = config.run.fast == "auto"
    return prepare_corpus(config, shared, progress_printer(), is_fast=is_fast)


def check_same(stored: TrainConfig, wanted: TrainConfig, folder: Path) -> None:
    """Refuse to go on with a folder that was made with other settings.

    Raises:
        ValueError: A setting differs; the message names it.
    """
    was = stored.settings()
    for name, value in changes(stored, wanted).items():
        if name != "run_dir":
            raise ValueError(
                f"{folder} was made with {name}={was[name]}, not {value}: give the same options, "
                "or another --out"
            )


def find_run(variant: str, config: TrainConfig, run_dir: Path, seed: int) -> Run:
    """Return a run, with its result if it is done.

    Raises:
        ValueError: It was made with other settings, or its files are damaged.
    """
    config = config.replace(seed=seed, run_dir=run_dir)
    folder = RunFolder(run_dir)
    result = read_result(folder)
    rows: list[Row] = []
    if result is not None:
        check_same(folder.read_config(), config, run_dir)
        rows = read_metrics(folder.metrics)
    return Run(variant=variant, config=config, result=result, rows=rows)


def finish_runs(
    suite: str, base: TrainConfig, runs: list[Run], folder: Path, shared: RunFolder
) -> None:
    """Make the runs that are not done, one after the other, and write the report after each.

    Each run that is made replaces its entry in the list.
    """
    missing = [index for index, run in enumerate(runs) if run.result is None]
    if missing:
        prepare(base, shared)
    else:
        print("every run is done; writing the report anew")
    walls_s: list[float] = []
    for done, index in enumerate(missing):
        run = runs[index]
        left = seconds_left(base, walls_s, len(missing) - done)
        print(
            f"[{index + 1:>2}/{len(runs)}] {run.variant}, seed {run.config.run.seed}"
            + (f"  ({format_duration(left)} left)" if left is not None else ""),
            flush=True,
        )
        start = time.monotonic()
        runs[index] = make_run(run, shared)
        walls_s.append(time.monotonic() - start)
        print(f"        {outcome(runs[index])}", flush=True)
        write_report(folder, suite, base, runs)
    write_report(folder, suite, base, runs)


def make_run(run: Run, shared: RunFolder) -> Run:
    """Train from the start in a new process, so that runs share neither memory nor crashes."""
    assert run.config.run.run_dir is not None
    folder = RunFolder(run.config.run.run_dir)
    shutil.rmtree(folder.path, ignore_errors=True)
    folder.write_config(run.config)
    command = [sys.executable, RUN_SCRIPT, folder.path, "--shared", shared.path]
    log = folder.path / "log.txt"
    with (
        log.open("wb") as output,
        # The pipe closes when this process ends, in whatever way, and then the other one ends.
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        code = process.wait()
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = [line for line in lines if line.startswith("error: ")] or lines or ["no output"]
        crash = f"crashed (exit code {code}): {said[-1]}"
        return dataclasses.replace(run, crash=crash)
    return find_run(run.variant, run.config, folder.path, run.config.run.seed)


def seconds_left(base: TrainConfig, walls_s: Sequence[float], num_runs: int) -> float | None:
    """Estimate the time of the remaining runs, from those made so far or, at first, the budget."""
    if walls_s:
        return sum(walls_s) / len(walls_s) * num_runs
    return base.run.max_minutes and 60 * base.run.max_minutes * num_runs


def outcome(run: Run) -> str:
    """Describe in one line how a run ended."""
    parts, result = [run.status] if run.status else [], run.result
    if result and result.bits_per_byte is not None:
        parts.append(f"{result.bits_per_byte:.4f} bits per byte")
    if result and result.tokens_per_s is not None:
        parts.append(f"{result.tokens_per_s:,.0f} tokens/s")
    return ", ".join(parts)


if __name__ == "__main__":
    run(main)
