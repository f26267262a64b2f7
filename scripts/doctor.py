"""Why does training not work? Examine a preset with your code, a run, or a log of another program.

python scripts/doctor.py stories
python scripts/doctor.py stories --submission ../my-solution  # a cs_basics of your own
python scripts/doctor.py --run-dir runs/stories
python scripts/doctor.py --log losses.csv
"""

import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import tyro
from cli import run

import cs_basics
import cs_basics.run  # pyright: ignore[reportUnusedImport]
import cs_basics.stories  # pyright: ignore[reportUnusedImport]
import cs_basics.study.doctor.report  # pyright: ignore[reportUnusedImport]


def main(
    preset: tyro.conf.Positional[str] = "stories",
    submission: Path | None = None,
    run_dir: Path | None = None,
    log: Path | None = None,
) -> None:
    """Find what keeps training from working, in a minute or two; exit code 1 if there is a fault.

    Args:
        preset: The preset whose model and settings make six updates, always on the embedded corpus.
        submission: A folder that has a folder cs_basics: its modules replace those of this one.
        run_dir: A run: its losses are examined, and six updates made from its last weights.
        log: A CSV or JSON Lines file with a step and a loss, as other programs write them.
    """
    if submission is not None and (run_dir or log):
        raise ValueError("--run-dir and --log look at what is done: leave out --submission")
    if submission is not None:
        package = submission / "cs_basics"
        if not package.is_dir():
            raise ValueError(f"--submission {submission}: name the folder that holds cs_basics")
        # What lies beside the book's files is ours: it was imported above.
        cs_basics.__path__.insert(0, str(package))
    with line_of_error(submission):
        from cs_basics.settings.presets import preset_named
        from cs_basics.study.doctor.log import of_metrics, read_log
        from cs_basics.study.doctor.of_run import of_config, of_run
        from cs_basics.study.doctor.report import as_text

    if log is not None:
        found, could_not = of_metrics(read_log(log))
        print(as_text(found, [*could_not, "model, loss and batches: a log holds none of them"]))
    elif run_dir is not None:
        found = of_run(run_dir)
    else:
        found = of_config(preset_named(preset), is_fast=submission is None)
    sys.exit(bool(found))


@contextmanager
def line_of_error(folder: Path | None) -> Generator[None]:
    """Make one line, with file and line, of what a submission raises when it is imported."""
    try:
        yield
    except SyntaxError as error:
        raise ValueError(f"{error.filename}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if folder and Path(f.filename).is_relative_to(folder.resolve())]
        own += [f for f in frames if folder and Path(f.filename).is_relative_to(folder)]
        if not own or isinstance(error, NotImplementedError):
            raise
        at = own[-1]
        told = f"{at.filename}, line {at.lineno}: {type(error).__name__}: {error}"
        raise ValueError(told) from error


if __name__ == "__main__":
    run(main)
