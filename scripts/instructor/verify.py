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
import secrets
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

import tyro

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))  # for cli.py

from cli import check_can_write, print_result, progress_printer, run

from cs_basics.run import look
from cs_basics.stories.grammar import VALID_BYTES, VALID_SEED_OFFSET, write_stories
from cs_grader.entries.case import CLASSES, Case, Terms, Texts
from cs_grader.entries.checks import is_accepted, judge
from cs_grader.entries.entry import Entry, read_entry
from cs_grader.entries.leaderboard import Verified, add, compared, read_leaderboard
from cs_grader.entries.refusal import RefusedError
from cs_grader.entries.run_files import MAX_TEXT_BYTES, RunFiles
from cs_grader.entries.statistics import MAX_RUNS
from cs_grader.outside.tiers import why_not


def main(
    entry: Annotated[Path, tyro.conf.Positional],
    train_text: Path | None = None,
    valid_text: Path | None = None,
    fresh_text: Path | None = None,
    rerun: bool = True,
    seeds: int = 0,
    tolerance: float = 0.02,
    leaderboard: Path = ROOT / "docs" / "leaderboard.jsonl",
    record: bool = False,
    require_isolation: Literal["bubblewrap", "process"] = "bubblewrap",
    warn: bool = True,
) -> None:
    """Verify an entry: one line for each check, then whether the entry is accepted.

    Args:
        entry: The folder of the entry.
        train_text: Text that was trained on; none: the embedded corpus of the entry's seed.
        valid_text: Text on which the figure is measured; none: that of the embedded corpus.
        fresh_text: Text from the source of the validation text that nobody else has; for the
            embedded corpus it is written anew.
        rerun: Run the command again. Without it nothing is verified, and the exit code is 1.
        seeds: Number of further runs, with the seeds that follow that of the entry.
        tolerance: How much worse the repeated run may be, in bits per byte: no two runs that end by
            the clock are the same, even with the same seed.
        leaderboard: File of verified entries that this one is compared with.
        record: Add the entry to that file if it is accepted, and write the page beside it.
        require_isolation: The wall around the entry's code; "process" is hardly one: use it only
            for entries that you trust.
        warn: Say what is odd about the texts.
    """
    if not 0 <= seeds < MAX_RUNS:
        raise ValueError(f"--seeds {seeds}: use 0 to {MAX_RUNS - 1}")
    if not 0 <= tolerance < 1:
        raise ValueError(f"--tolerance {tolerance:g}: use bits per byte, at least 0 and below 1")
    if record:
        if leaderboard.suffix == ".md":
            raise ValueError(f"--leaderboard {leaderboard}: the page takes that name, use another")
        check_can_write(leaderboard)
    look.logger.disabled = not warn
    before = read_leaderboard(leaderboard)
    terms = Terms(
        repository=ROOT,
        tier=require_isolation,
        tolerance=tolerance,
        is_rerun=rerun,
        more_seeds=seeds,
    )
    with tempfile.TemporaryDirectory(prefix="cs_grader-") as folder:
        handed_in = read_entry(entry, Path(folder) / "entry", CLASSES)
        given = train_text, valid_text, fresh_text
        texts = read_texts(given, handed_in, Path(folder))
        if reason := why_not(require_isolation):
            hint = ", or take --require-isolation process for entries that you trust"
            raise ValueError(f"no isolation of {require_isolation} works here ({reason}){hint}")
        case = Case(handed_in, texts, terms, Path(folder), teller())
        is_good = examine(case)
        if is_good:
            verified = result_of(case)
            print_result(f"\naccepted: {compared(verified, before)}")
            if record:
                add(leaderboard, verified)
                print_result(f"recorded in {leaderboard} and {leaderboard.with_suffix('.md')}")
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
    return is_accepted(found)


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


def read_texts(
    given: tuple[Path | None, Path | None, Path | None], entry: Entry, scratch: Path
) -> Texts:
    """Read the texts, or write those of the embedded corpus.

    Raises:
        ValueError: Only one of two texts is given, one stands in another, a text is empty, in
            UTF-16 or too large, or the corpus is.
        OSError: A text is missing or cannot be read.
    """
    train, valid, fresh = given
    if (train is None) != (valid is None):
        raise ValueError("--train-text and --valid-text go together: give both or neither")
    paths = [path for path in given if path is not None]
    for path in paths:
        look.look_at_text(path)
        if not path.is_file():
            raise ValueError(f"{path} is not a file")
        if (size := path.stat().st_size) > MAX_TEXT_BYTES:
            raise ValueError(f"{path} has {size:,} bytes: use at most {MAX_TEXT_BYTES:,}")
    for text, other in combinations(reversed(paths), 2):
        if told := look.told_of_shared(text, other):
            raise ValueError(f"{text}: {told}, so that what an entry knows of it cannot be told")
    if train is not None and valid is not None:
        read = [path.read_bytes() for path in paths]
        return Texts(train=read[0], valid=read[1], fresh=read[2] if len(read) > 2 else None)
    megabytes = corpus_megabytes(entry)
    # Nobody knows the seed of the fresh text: it cannot be written ahead.
    seeds = (entry.seed, entry.seed + VALID_SEED_OFFSET, 2**32 + secrets.randbits(31))
    written = []
    sizes = (round(megabytes * 1e6), VALID_BYTES, VALID_BYTES)
    for seed, num_bytes in zip(seeds, sizes, strict=True):
        path = scratch / "stories.txt"
        write_stories(path, num_bytes, seed)
        written.append(path.read_bytes())
    if fresh is not None:
        written[2] = fresh.read_bytes()
    return Texts(train=written[0], valid=written[1], fresh=written[2])


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
