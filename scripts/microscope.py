"""Look into a run: what its norms read, block by block, and how large its attention scores grow.

python scripts/microscope.py runs/stories           # writes runs/stories/microscope.png
python scripts/microscope.py runs/stories --follow  # ... again at each new checkpoint
"""

import time
from collections.abc import Iterator
from pathlib import Path

import tyro
from cli import check_can_write, print_result, progress_printer, run

from cs_basics.run.atomic import write_atomically
from cs_basics.run.folder import RunFolder
from cs_basics.study.microscope.history import History
from cs_basics.study.microscope.plot import plot_readings
from cs_basics.study.microscope.reading import Reading

LOOK_EVERY_S = 2.0


def main(
    run_dir: tyro.conf.Positional[Path],
    num_windows: int = 8,
    follow: bool = False,
    out: Path | None = None,
) -> None:
    """Read the checkpoints of a run, finished or in progress, and draw what its norms read.

    Each reading is kept in microscope.jsonl in the run folder, so that those of checkpoints that
    the run has deleted since remain. The weights before the first update are drawn again from the
    run's seed.

    Args:
        run_dir: The run folder.
        num_windows: Windows of the validation text that the model reads.
        follow: Draw again after each new checkpoint, until the run has written its samples. After a
            run that was stopped, press Ctrl-C.
        out: The picture (PNG); none: microscope.png in the run folder.
    """
    if num_windows < 1:
        raise ValueError(f"--num-windows {num_windows}: use at least 1")
    picture = run_dir / "microscope.png" if out is None else out
    check_can_write(picture)
    look(History(RunFolder(run_dir), num_windows), picture, follow=follow)


def look(history: History, picture: Path, *, follow: bool) -> None:
    """Draw all that can be read, and with follow again until the run has ended."""
    show = progress_printer()
    while True:
        has_ended = history.is_over()
        if (history.update(show) or not picture.exists()) and history.readings:
            write_atomically(picture, plot_readings(history.in_order(), history.folder.path.name))
            if follow and not has_ended:
                print_result(f"step {history.in_order()[-1].step:,}: drawn in {picture}")
        if not follow or has_ended:
            break
        time.sleep(LOOK_EVERY_S)
    if not history.readings:
        path = history.folder.path
        raise ValueError(f"{path} holds no checkpoint yet: add --follow to wait for the first")
    newest = history.in_order()[-1]
    for line in table(newest):
        print_result(line)
    print_result(f"{len(history.readings)} steps of {history.folder.path}, drawn in {picture}")


def table(reading: Reading) -> Iterator[str]:
    """A reading in a few lines."""
    chance = f"(a random vector's: {reading.chance_share:.3f})"
    yield f"step {reading.step:<5}      RMS   largest  share of the mean {chance}"
    columns = reading.norms, reading.rms, reading.largest, reading.mean_share
    for name, rms, largest, share in zip(*columns, strict=True):
        yield f"{name:<10} {rms:8.3f} {largest:9.2f} {share:8.3f}"


if __name__ == "__main__":
    run(main)
