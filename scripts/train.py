"""Train a language model: text in, stories out.

python scripts/train.py stories
python scripts/train.py stories --train-text FILE --valid-text FILE --max-minutes 10
python scripts/train.py --run-dir runs/stories --resume
"""

import logging
import os
import re
import sys
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from cli import IS_EDITION, command_line, log_to_stdout, names_in, progress_printer, run
from process import keep_freed_memory

from cs_basics.interop.page_file import write_page
from cs_basics.run.distributed import World, join, launch, num_restarts
from cs_basics.run.evaluation import Evaluation
from cs_basics.run.folder import RunFolder, step_of
from cs_basics.run.metrics import read_metrics
from cs_basics.run.run import train_run
from cs_basics.run.stopping import TrainingStoppedError
from cs_basics.run.writing import first_words
from cs_basics.settings.presets import PRESETS
from cs_basics.settings.run import FREE_ON_RESUME, SECTIONS, TrainConfig
from cs_basics.study.doctor.of_run import Examination

RUNS = Path("runs")
OVERFITTED = 0.97
"""A best loss below this share of the last one is more than chance, and said."""


@dataclass(frozen=True, kw_only=True)
class TrainCommand(TrainConfig):
    """The settings of a run, and the flags that only the command line has."""

    preset: tyro.conf.Suppress[str]
    resume: bool = False
    """Resume from the newest undamaged checkpoint of --run-dir (none: of the newest run of this
    preset)."""
    page: bool = True
    """Make page.html at the end, in which the model writes and can be looked into."""
    doctor: bool = True
    """Look for faults of model, loss and optimizer before the first update."""

    def config(self) -> TrainConfig:
        """Return the settings without the flags that only the command line has."""
        return TrainConfig(**{section: getattr(self, section) for section in SECTIONS})


if TYPE_CHECKING:
    Preset = TrainCommand
else:
    Preset = tyro.extras.subcommand_type_from_defaults(
        {
            name: TrainCommand(preset=name, **{key: getattr(c, key) for key in SECTIONS})
            for name, (_, c) in PRESETS.items()
        },
        {name: text for name, (text, _) in PRESETS.items()},
        prefix_names=False,
    )


def main(command: Preset) -> None:
    """Train a language model on stories and generate some with it.

    Args:
        command: The preset; flags change its settings.
    """
    keep_freed_memory()
    with join(command.run.device) as world:
        train_in(world, command)
    if world.size > 1:
        # Everything is written. Skip Python's shutdown, in which threads of PyTorch have aborted
        # finished runs of several processes, so that torchrun reported a failure.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def train_in(world: World, command: TrainCommand) -> None:
    """Train together with the other processes; only the first one logs and prints."""
    log_to_stdout(logging.INFO if world.is_first else logging.ERROR)
    config, folder, resume = settings_of(command, world)
    if IS_EDITION and world.is_first and not resume:
        from rehearse import check

        check()
    examination = Examination() if command.doctor else None
    on_progress = progress_printer() if world.is_first else None
    page = make_page if command.page else None
    go_on = command_line("train", "--run-dir", folder.path, "--resume")
    try:
        result = train_run(config, resume, on_progress, world, page, examination)
    except TrainingStoppedError as stopped:
        if world.is_first:
            print(f"{stopped}, and saved; go on by\n  {go_on}")
        # The exit code of a program that a signal ended: the run is not finished.
        sys.exit(128 + stopped.signal_number)
    except KeyboardInterrupt:
        if world.is_first and folder.config.exists():
            print(f"what is prepared is kept; go on by\n  {go_on}")
        raise
    if world.is_first:
        show_result(folder, result)
        if examination:
            print(f"doctor         {examination.verdict}")


def settings_of(command: TrainCommand, world: World) -> tuple[TrainConfig, RunFolder, bool]:
    """Return the settings of the run, its folder, and whether it is resumed.

    Raises:
        ValueError: Flags exclude each other, or must not change on resume.
    """
    config = command.config()
    if "text" in (names := names_in(sys.argv[1:])) and names & {"train_text", "valid_text"}:
        raise ValueError("--text is cut in two: leave out --train-text and --valid-text")
    if config.run.run_dir is None and (world.size > 1 or launch()):
        raise ValueError("torchrun's processes need --run-dir: where do they keep their run?")
    run_dir = config.run.run_dir or choose_run_dir(command.preset, command.resume)
    config, folder = config.replace(run_dir=run_dir), RunFolder(run_dir)
    # After a process has died, torchrun restarts all of them; the run that they began then resumes
    # by itself.
    is_begun = num_restarts() > 0 and folder.launch() == launch()
    resume = command.resume or bool(world.from_first(is_begun))
    if resume:
        config = resumed_config(folder.read_config(), config, command.preset, names)
    return config, folder, resume


def make_page(folder: RunFolder) -> None:
    """Write the page of a run beside its report."""
    write_page(folder, folder.page, with_code=True)


def show_result(folder: RunFolder, result: Evaluation) -> None:
    """Print the result of a run and its files."""
    print(f"\n{folder.samples.read_text(encoding='utf-8')}")
    print(
        f"loss {result.loss:.4f} nats per token, {result.bits_per_byte:.4f} bits per byte, on the"
    )
    print(f"whole validation text ({result.num_tokens:,} tokens)\n")
    best, best_loss = folder.read_best()
    # Both on the same part of the text.
    losses = [row["val/loss"] for row in read_metrics(folder.metrics) if "val/loss" in row]
    if best and best_loss is not None and losses and best_loss < OVERFITTED * losses[-1]:
        step = f"{step_of(best):,}"
        print(f"The run has overfitted: at step {step} the loss was {best_loss:.4f} on part of")
        print("that text. --checkpoint best takes the model of that step.\n")
    print(f"everything     {folder.path}")
    print(f"report         {folder.report}")
    if folder.page.exists():
        print(f"page           {folder.page}: a double click, and the model writes there")
        print("               (it shows your code; scripts/share.py makes one without it)")
    print(f"samples        {folder.samples}")
    prompt = first_words(folder)
    print(f"write more     {command_line('generate', folder.path, '--prompt', prompt)}")
    print(f"measure        {command_line('evaluate', folder.path, '--text', 'FILE')}")


def choose_run_dir(preset: str, resume: bool) -> Path:
    """Return the newest run folder of a preset, or the next one that is free."""
    runs = [path for path in RUNS.glob("*") if re.fullmatch(rf"{preset}(-\d+)?", path.name)]
    begun = [path for path in runs if RunFolder(path).config.exists()]
    if resume and begun:
        return max(begun, key=lambda path: RunFolder(path).config.stat().st_mtime)
    names = chain([preset], (f"{preset}-{number}" for number in count(2)))
    return next(path for path in (RUNS / name for name in names) if path not in begun)


def resumed_config(
    stored: TrainConfig, given: TrainConfig, preset: str, names: set[str]
) -> TrainConfig:
    """Return the settings of a resumed run: the stored ones, changed by those of the command line.

    Args:
        stored: The settings that the run was started with.
        given: The settings of this command line.
        preset: Preset of the command line; a setting that differs from it was given.
        names: Settings whose flags are on the command line.

    Raises:
        ValueError: A setting was given that must not change on resume.
    """
    changes: dict[str, object] = {}
    was, of_preset = stored.settings(), PRESETS[preset][1].settings()
    for name, value in given.settings().items():
        is_given = value != of_preset[name] or name in names
        if name == "dtype" and value == "auto":
            is_given = False  # It was settled when the run was started.
        # The text may have had fewer pairs to merge than the run was started with.
        is_kept = value == was[name] or (name == "vocab_size" and value > was[name])
        if is_kept or not is_given:
            if value != was[name] and name in names:
                logging.info("%s=%s: the run keeps its tokenizer, of %s", name, value, was[name])
            continue
        if name not in FREE_ON_RESUME:
            raise ValueError(
                f"{name}={value}, but the run in {given.run.run_dir} was started with "
                f"{name}={was[name]}: leave the option out, or start another run"
            )
        changes[name] = value
    return stored.replace(**changes)


def with_preset(arguments: list[str]) -> list[str]:
    """Name some preset where none is needed: the settings of a resumed run are in its folder."""
    if "--resume" in arguments and "run_dir" in names_in(arguments) and arguments[0][:1] == "-":
        return [next(iter(PRESETS)), *arguments]
    return arguments


if __name__ == "__main__":
    sys.argv[1:] = with_preset(sys.argv[1:])
    run(main)
