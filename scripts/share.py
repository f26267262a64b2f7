"""Make one HTML file in which a trained model writes, offline, and can be looked into.

python scripts/share.py runs/stories --out story-writer.html
"""

from pathlib import Path
from typing import Annotated, Literal

import tyro
from cli import check_can_write, run

from cs_basics.interop.page_file import write_page
from cs_basics.run.folder import RunFolder


def main(
    run_dir: Annotated[Path, tyro.conf.Positional],
    out: Path,
    exact: bool = False,
    checkpoint: Literal["latest", "best"] = "latest",
) -> None:
    """Make one HTML file in which a trained model writes, offline, and can be looked into.

    Args:
        run_dir: The run folder.
        out: The file to write, such as story-writer.html.
        exact: Keep the weights in float32: four times the size, and the model to the last digit.
        checkpoint: latest, or best: the one with the lowest validation loss.
    """
    check_can_write(out)
    num_bytes = write_page(RunFolder(run_dir), out, is_exact=exact, which=checkpoint)
    print(f"{out}: {num_bytes / 1e6:.1f} MB; a double click opens it, no network is needed")


if __name__ == "__main__":
    run(main)
