"""One run of an ablation in its own process, which scripts/ablate.py starts.

It ends when its standard input is closed, so that it never outlives the script that started it.
"""

import os
import sys
import threading
from pathlib import Path

from process import keep_freed_memory  # isort: split

import tyro
from cli import log_to_stdout, run

from cs_basics.run.folder import RunFolder
from cs_basics.study.ablation_run import run_variant


def main(run_dir: tyro.conf.Positional[Path], shared: Path) -> None:
    """Train one variant for its budget and write result.json into its folder.

    Args:
        run_dir: Folder of the run; its config.json says what to train.
        shared: Folder with the tokenizer and the token files of all runs.
    """
    threading.Thread(target=_end_with_input, daemon=True).start()
    log_to_stdout()
    keep_freed_memory()
    config = RunFolder(run_dir).read_config().replace(run_dir=run_dir)
    run_variant(config, RunFolder(shared))


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    run(main)
