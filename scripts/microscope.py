"""Look into a run: what its norms read, block by block, and how large its attention scores grow.

python scripts/microscope.py runs/stories  # writes runs/stories/microscope.png
"""

from collections.abc import Iterator
from pathlib import Path

import tyro
from cli import check_can_write, print_result, progress_printer, run

from cs_basics.run.atomic import write_atomically
from cs_basics.run.folder import RunFolder
from cs_basics.study.microscope.of_run import readings_of
from cs_basics.study.microscope.plot import plot_readings
from cs_basics.study.microscope.reading import Reading


def main(run_dir: tyro.conf.Positional[Path], out: Path | None = None) -> None:
    """Read the checkpoints of a run, finished or in progress, and draw what its norms read.

    The weights before the first update are drawn again from the run's seed.

    Args:
        run_dir: The run folder.
        out: The picture (PNG); none: microscope.png in the run folder.
    """
    picture = run_dir / "microscope.png" if out is None else out
    check_can_write(picture)
    readings = readings_of(RunFolder(run_dir), progress_printer())
    write_atomically(picture, plot_readings(readings, run_dir.name))
    for line in table(readings[-1]):
        print_result(line)
    print_result(f"{len(readings)} steps of {run_dir}, drawn in {picture}")


def table(reading: Reading) -> Iterator[str]:
    """A reading in a few lines."""
    chance = f"(a random vector's: {reading.chance_share:.3f})"
    yield f"step {reading.step:<5}      RMS   largest  share of the mean {chance}"
    columns = reading.norms, reading.rms, reading.largest, reading.mean_share
    for name, rms, largest, share in zip(*columns, strict=True):
        yield f"{name:<10} {rms:8.3f} {largest:9.2f} {share:8.3f}"


if __name__ == "__main__":
    run(main)
