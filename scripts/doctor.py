"""Why does training not work? Examine a preset with your code, or what a run has logged.

python scripts/doctor.py stories
python scripts/doctor.py stories --submission ../my-solution  # a cs_basics of your own
python scripts/doctor.py --run-dir runs/stories
"""

import sys
from pathlib import Path

import tyro
from cli import run

import cs_basics
import cs_basics.run  # pyright: ignore[reportUnusedImport]
import cs_basics.stories  # pyright: ignore[reportUnusedImport]
import cs_basics.study.doctor.finding  # pyright: ignore[reportUnusedImport]


def main(
    preset: tyro.conf.Positional[str] = "stories",
    submission: Path | None = None,
    run_dir: Path | None = None,
) -> None:
    """Find what keeps training from working, in a minute or two; exit code 1 if there is a fault.

    Args:
        preset: The preset whose model and settings make six updates, always on the embedded corpus.
        submission: A folder that has a folder cs_basics: its modules replace those of this one.
        run_dir: A run: its logged losses and samples are examined, and nothing is trained.
    """
    if submission is not None and run_dir is not None:
        raise ValueError("--run-dir reads a log and runs no code: leave out --submission")
    if submission is not None:
        package = submission / "cs_basics"
        if not package.is_dir():
            raise ValueError(f"--submission {submission}: name the folder that holds cs_basics")
        # What lies beside the book's files is ours: it was imported above.
        cs_basics.__path__.insert(0, str(package))
    from cs_basics.run.folder import RunFolder
    from cs_basics.run.metrics import read_metrics, read_samples
    from cs_basics.run.report import counted
    from cs_basics.settings.presets import PRESETS
    from cs_basics.study.doctor.doctor import as_text
    from cs_basics.study.doctor.of_run import of_config, of_metrics

    if run_dir is not None:
        folder = RunFolder(run_dir)
        folder.read_config()
        log = folder.metrics
        found = of_metrics(read_metrics(log), read_samples(log), counted(folder))
        print(as_text(found))
    elif preset in PRESETS:
        found = of_config(PRESETS[preset][1], is_fast=submission is None)
    else:
        raise ValueError(f"there is no preset {preset}: use one of {', '.join(PRESETS)}")
    sys.exit(bool(found))


if __name__ == "__main__":
    run(main)
