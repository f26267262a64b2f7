"""Verify an entry of the contest in bits per byte: is its figure true, and how was it reached?

python scripts/instructor/verify.py ENTRY --train-text train.txt --valid-text valid.txt
python scripts/instructor/verify.py ENTRY --train-text ... --valid-text ... --seeds 4 --record
python scripts/instructor/verify.py ENTRY --no-rerun     # a look at what was handed in, in a minute

An entry is a folder with

    entry.toml           name, author, class (ten-minutes or one-hour), command (the arguments of
                         scripts/train.py, without texts, folder and seed), bits_per_byte, seed
    run/                 the run folder that this command has left
    code/cs_basics/...   if code was changed: the files of cs_basics that differ from the repository

The exit code is 0 if the entry is accepted, 1 if it is refused or was not verified, 2 if there is
no entry to judge.
"""

import hashlib
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import tyro

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))  # for cli.py

from cli import check_can_write, print_result, progress_printer, run

from cs_basics.run import look
from cs_basics.stories.grammar import VALID_BYTES, VALID_SEED_OFFSET, write_stories
from cs_grader.entries.case import Case, Texts
from cs_grader.entries.checks import is_accepted, judge
from cs_grader.entries.entry import CLASSES, Entry, Terms, read_entry
from cs_grader.entries.leaderboard import Verified, add
from cs_grader.entries.refusal import RefusedError
from cs_grader.entries.run_files import MAX_TEXT_BYTES, RunFiles
from cs_grader.trusted.tiers import why_not

MAX_SEEDS = 11


def main(
    entry: tyro.conf.Positional[Path],
    train_text: Path | None = None,
    valid_text: Path | None = None,
    rerun: bool = True,
    seeds: int = 0,
    tolerance: float = 0.02,
    leaderboard: Path = ROOT / "docs" / "leaderboard.md",
    record: bool = False,
    require_isolation: Literal["bubblewrap", "process"] = "bubblewrap",
    warn: bool = True,
) -> None:
    """Verify an entry: one line for each check, then whether the entry is accepted.

    Args:
        entry: The folder of the entry.
        train_text: Text that was trained on; none: the embedded corpus of the entry's seed.
        valid_text: Text on which the figure is measured; none: that of the embedded corpus.
        rerun: Run the command again. Without it nothing is verified, and the exit code is 1.
        seeds: Number of further runs, with the seeds that follow that of the entry.
        tolerance: How much worse the repeated run may be, in bits per byte: no two runs that end by
            the clock are the same, even with the same seed.
        leaderboard: The page with the table of verified entries.
        record: Add the entry to that table if it is accepted.
        require_isolation: The wall around the entry's code; "process" is hardly one: use it only
            for entries that you trust.
        warn: Say what is odd about the texts.
    """
    if not 0 <= seeds <= MAX_SEEDS:
        raise ValueError(f"--seeds {seeds}: use 0 to {MAX_SEEDS}")
    if not 0 <= tolerance < 1:
        raise ValueError(f"--tolerance {tolerance:g}: use bits per byte, at least 0 and below 1")
    if record:
        check_can_write(leaderboard)
    look.logger.disabled = not warn
    terms = Terms(
        repository=ROOT,
        tier=require_isolation,
        tolerance=tolerance,
        is_rerun=rerun,
        more_seeds=seeds,
    )
    with tempfile.TemporaryDirectory(prefix="cs_grader-") as folder:
        handed_in = read_entry(entry, Path(folder) / "entry", CLASSES)
        texts = read_texts(train_text, valid_text, handed_in, Path(folder))
        if reason := why_not(require_isolation):
            hint = ", or take --require-isolation process for entries that you trust"
            raise ValueError(f"no isolation of {require_isolation} works here ({reason}){hint}")
        case = Case(handed_in, texts, terms, Path(folder), teller())
        is_good = examine(case)
        if is_good:
            verified = result_of(case)
            runs = f"the mean of {len(verified.bits_per_byte)} runs" if seeds > 1 else "one run"
            print_result(f"\naccepted: {verified.mean:.4f} bits per byte, {runs}")
            if record:
                add(leaderboard, verified)
                print_result(f"recorded in {leaderboard}")
    if not is_good:
        sys.exit(1)


def examine(case: Case) -> bool:
    """Print what each check found, and say whether the entry is accepted."""
    found = []
    for finding in judge(case):
        print_result(f"{finding.verdict:10}  {finding.check:16}  {finding.reason}")
        found.append(finding)
    refused = [finding for finding in found if finding.verdict == "refused"]
    if refused:
        print_result(f"\nrefused: {refused[0].check}: {refused[0].reason}")
    elif not case.terms.is_rerun:
        print_result("\nnot verified: nothing was run again")
    if not is_accepted(found):
        return False
    try:
        _ = case.figures
    except RefusedError as error:
        print_result(f"\nrefused: {error}")
        return False
    return True


def result_of(case: Case) -> Verified:
    """Return what the leaderboard keeps."""
    return Verified(
        name=case.entry.name,
        author=case.entry.author,
        contest=case.entry.contest,
        command=case.entry.command,
        text=hashlib.sha256(case.texts.valid).hexdigest(),
        bits_per_byte=[round(figure, 5) for figure in case.figures],
        seconds=round(case.rerun.weights_s or 0.0, 1),
        date=datetime.now(UTC).date().isoformat(),
    )


def read_texts(train: Path | None, valid: Path | None, entry: Entry, scratch: Path) -> Texts:
    """Read the texts, or write those of the embedded corpus.

    Raises:
        ValueError: Only one of two texts is given, one stands in another, a text is empty, in
            UTF-16 or too large, or the corpus is.
        OSError: A text is missing or cannot be read.
    """
    if (train is None) != (valid is None):
        raise ValueError("--train-text and --valid-text go together: give both or neither")
    if train is None or valid is None:
        train, valid = scratch / "train.txt", scratch / "valid.txt"
        write_stories(train, round(corpus_megabytes(entry) * 1e6), entry.seed)
        write_stories(valid, VALID_BYTES, entry.seed + VALID_SEED_OFFSET)
    else:
        for path in (train, valid):
            look.look_at_text(path)
        if told := look.told_of_shared(valid, train):
            raise ValueError(f"{valid}: {told}, so that what an entry knows of it cannot be told")
    for path in (train, valid):
        if not path.is_file():
            raise ValueError(f"{path} is not a file")
        if (size := path.stat().st_size) > MAX_TEXT_BYTES:
            raise ValueError(f"{path} has {size:,} bytes: use at most {MAX_TEXT_BYTES:,}")
    return Texts(train=train.read_bytes(), valid=valid.read_bytes())


def corpus_megabytes(entry: Entry) -> float:
    """Return the size of the embedded corpus that an entry was trained on."""
    try:
        megabytes = float(RunFiles(entry.folder).settings["data"]["corpus_megabytes"])
    except (RefusedError, KeyError, TypeError, ValueError):
        raise ValueError(
            "config.json does not say how large the corpus was: give --train-text and --valid-text"
        ) from None
    if not 0 < megabytes <= (most := MAX_TEXT_BYTES // 10**6):
        raise ValueError(f"corpus_megabytes={megabytes:g} in config.json: use at most {most}")
    return megabytes


def teller() -> Callable[[str, int, int], None]:
    """Return a function that shows progress."""
    show = progress_printer()

    def tell(name: str, done: int, total: int) -> None:
        unit = "s" if name.endswith("seconds") else "tokens"
        show(name.removesuffix(", seconds"), unit, done, total)

    return tell


if __name__ == "__main__":
    run(main)
