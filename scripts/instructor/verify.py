"""Verify an entry of the contest in bits per byte, by running its command again.

python scripts/instructor/verify.py ENTRY --train-text train.txt --valid-text valid.txt --seeds 5

An entry is a folder with

    entry.toml           name, author, class (ten-minutes or one-hour), command (the arguments of
                         scripts/train.py, without texts, folder and seed)
    code/cs_basics/...   if code was changed: the files of cs_basics that differ from the repository

The exit code is 0 if the entry has a figure, 1 if it is refused, 2 if there is no entry to judge.
"""

import hashlib
import secrets
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import tyro

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))  # for cli.py

from cli import print_result, progress_printer, run

from cs_basics.run.look import look_at_text
from cs_grader.entries import sandboxed
from cs_grader.entries.answers import asked
from cs_grader.entries.entry import CLASSES, Entry, read_entry
from cs_grader.entries.evaluation import bits_per_byte
from cs_grader.entries.rerun import START_S, run_again
from cs_grader.results.markdown import code, escape
from cs_grader.trusted.clean_copy import RefusedError
from cs_grader.trusted.isolation import why_not

MAX_SEEDS = 11


def main(
    entry: tyro.conf.Positional[Path],
    *,
    train_text: Path,
    valid_text: Path,
    seeds: int = 1,
    require_isolation: Literal["bubblewrap", "process"] = "bubblewrap",
) -> None:
    """Verify an entry: one line for each run, then the row for docs/leaderboard.md.

    Args:
        entry: The folder of the entry.
        train_text: Text that is trained on.
        valid_text: Text on which the figure is measured; no run sees it.
        seeds: Number of runs, each with a seed that is drawn now.
        require_isolation: The sandbox for the entry's code; "process" is hardly one: use it only
            for entries that you trust.
    """
    if not 1 <= seeds <= MAX_SEEDS:
        raise ValueError(f"--seeds {seeds}: use 1 to {MAX_SEEDS}")
    handed_in = read_entry(entry)
    look_at_text(train_text)
    look_at_text(valid_text, train=train_text)
    train, valid = train_text.read_bytes(), valid_text.read_bytes()
    if reason := why_not(require_isolation):
        hint = ", or take --require-isolation process for entries that you trust"
        raise ValueError(f"no isolation of {require_isolation} works here ({reason}){hint}")
    figures: list[float] = []
    for _ in range(seeds):
        seed = secrets.randbelow(2**31)
        with tempfile.TemporaryDirectory(prefix="cs_grader-") as folder:
            stage = sandboxed.build_stage(Path(folder), ROOT, handed_in.code)
            try:
                run_folder = run_again(
                    require_isolation,
                    stage,
                    [*handed_in.arguments, "--seed", str(seed)],
                    train,
                    60 * CLASSES[handed_in.contest] + START_S,
                    progress_printer(),
                )
                ask = partial(asked, require_isolation, stage, run=run_folder)
                figure, told = bits_per_byte(ask, valid, progress_printer())
            except RefusedError as error:
                print_result(f"seed {seed}: refused: {error}")
                sys.exit(1)
        figures.append(figure)
        print_result(f"seed {seed}: {figure:.4f} bits per byte; {told}")
    print_result(row(handed_in, hashlib.sha256(valid).hexdigest(), figures))


def row(entry: Entry, text: str, figures: Sequence[float]) -> str:
    """Write the row of an entry. Whoever hands it in has chosen its words."""
    cells = [entry.contest, text[:12], f"{sum(figures) / len(figures):.4f}"]
    cells += [", ".join(f"{figure:.4f}" for figure in figures), escape(entry.name)]
    cells += [escape(entry.author), datetime.now(UTC).date().isoformat()]
    return f"| {' | '.join([*cells, code(' '.join(entry.arguments))])} |"


if __name__ == "__main__":
    run(main)
