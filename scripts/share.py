"""Make one HTML file in which a trained model writes, offline, and can be inspected.

python scripts/share.py runs/stories --out story-writer.html
"""

from pathlib import Path

import tyro
from cli import check_can_write, run

from cs_basics.interop.page_file import write_page
from cs_basics.run.folder import RunFolder, Which


def main(
    run_dir: tyro.conf.Positional[Path],
    out: Path,
    exact: bool = False,
    checkpoint: Which = "latest",
    with_code: bool = False,
    overwrite: bool = False,
) -> None:
    """Make one HTML file in which a trained model writes, offline, and can be inspected.

    Args:
        run_dir: The run folder.
        out: The file to write, such as story-writer.html.
        exact: Keep the weights in float32: four times the size, and the model to the last digit.
        checkpoint: latest, or best: the one with the lowest validation loss.
        with_code: Also show the Python code behind each view, to everybody who has the page.
        overwrite: Replace a file that exists.
    """
    check_can_write(out, overwrite)
    num_bytes = write_page(
        RunFolder(run_dir), out, is_exact=exact, which=checkpoint, with_code=with_code
    )
    print(f"{out}: {num_bytes / 1e6:.1f} MB; a double click opens it, no network is needed")
    held = "the Python that computes it" if with_code else "no Python (--with-code adds it)"
    print(f"It holds the weights, the tokenizer, a passage of the validation text, and {held}.")


if __name__ == "__main__":
    run(main)
