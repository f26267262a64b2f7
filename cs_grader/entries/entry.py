"""What is handed in: a folder with entry.toml, a run folder and, if code was changed, that code.

    entry.toml           name, author, class, command, bits_per_byte, seed
    run/                 what scripts/train.py has left
    code/cs_basics/...   the files of cs_basics that differ from the repository's

The verifier works on a clean copy: regular files with known names and bounded sizes, no link
followed. An entry with anything else is not judged.
"""

import contextlib
import re
import shlex
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cs_grader.entries.refusal import RefusedError
from cs_grader.plain_text import plain
from cs_grader.trusted.copying import open_regular, walk

MAX_FILES = 500
MAX_DEPTH = 8
MAX_MEGABYTES = {".pt": 2048, ".bin": 512, ".txt": 512, ".py": 1, ".cpp": 1, ".toml": 1}
OTHER_MEGABYTES = 64
CHUNK = 2**20
NAMES = (
    *("entry.toml", "notes.md", "run/config.json", "run/metrics.jsonl", "run/microscope.jsonl"),
    *("run/microscope.png", "run/loss.png", "run/samples.md", "run/report.html", "run/page.html"),
    *("run/tokenizer/*.json", "run/tokenizer/merges.txt", "run/tokens/*.bin", "run/corpus/*.txt"),
    "run/checkpoints/best.json",
    *("code/cs_basics/*.py", "code/cs_basics/*.cpp"),
)
"""What is copied but for checkpoints; a star matches folders, too."""
STEP = re.compile(r"run/checkpoints/step-[^/]*\.pt")
NEEDED = (
    *("run/config.json", "run/metrics.jsonl", "run/tokens/train.bin", "run/tokenizer/merges.txt"),
    *("run/tokenizer/vocab.json", "run/tokenizer/special_tokens.json"),
)
CHECKPOINT = "run/checkpoints/newest.pt"
"""The only checkpoint in a clean copy: that of the highest step, which is the one that counts."""
OF_VERIFIER = frozenset(
    {
        *("run-dir", "train-text", "valid-text", "corpus-megabytes", "seed", "resume", "no-resume"),
        *("page", "no-page", "wandb", "device", "parallel", "help"),
    }
)
"""Flags of scripts/train.py that the verifier sets itself."""
KEYS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "author": str,
    "class": str,
    "command": str,
    "bits_per_byte": (int, float),
    "seed": int,
}


CLASSES = {"ten-minutes": 10.0, "one-hour": 60.0}
"""Minutes of each class."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is the same for all entries."""

    repository: Path
    tier: str
    threads: int = 2
    classes: Mapping[str, float] = field(default_factory=lambda: CLASSES)
    tolerance: float = 0.02
    """How many bits per byte worse than claimed a repeated run may be."""
    is_rerun: bool = True
    more_seeds: int = 0
    """Further runs, with the seeds that follow that of the entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """An entry, as its clean copy has it."""

    folder: Path
    """The clean copy."""
    name: str
    author: str
    contest: str
    """The class: ten-minutes or one-hour."""
    command: str
    """Arguments of scripts/train.py."""
    bits_per_byte: float
    """What is claimed."""
    seed: int

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / "run"

    @property
    def code(self) -> Path:
        """Changed files of cs_basics; need not exist."""
        return self.folder / "code" / "cs_basics"


def read_entry(source: Path, to: Path, classes: Mapping[str, float]) -> Entry:
    """Read an entry and make its clean copy.

    Args:
        source: What was handed in.
        to: A folder that does not exist.
        classes: The classes there are, with their minutes.

    Raises:
        ValueError: The folder holds no entry.toml, or one that does not say what it must; a file is
            missing, or is none that an entry may have.
        OSError: Something cannot be read.
    """
    if not (source / "entry.toml").is_file():
        raise ValueError(f"{source} holds no entry: there is no entry.toml in it")
    left_out = copy_clean(source, to)
    if not (to / "entry.toml").is_file():
        raise ValueError(f"{source / 'entry.toml'} is a link or too large: use an ordinary file")
    said = _read_toml(to / "entry.toml", classes)
    left_out += [f"{name}: missing" for name in (*NEEDED, CHECKPOINT) if not (to / name).is_file()]
    if left_out:
        more = f" (and {len(left_out) - 1} more)" if left_out[1:] else ""
        raise ValueError(f"{source} is no entry: {left_out[0]}{more}")
    said["bits_per_byte"] = float(said["bits_per_byte"])
    return Entry(folder=to, contest=said.pop("class"), **said)


def _read_toml(path: Path, classes: Mapping[str, float]) -> dict[str, Any]:
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from None
    if unknown := sorted(set(said) - set(KEYS)):
        raise ValueError(f"{path.name} has the unknown key {unknown[0]}: use {', '.join(KEYS)}")
    for key, kind in KEYS.items():
        if not isinstance(said.get(key), kind) or isinstance(said[key], bool):
            wanted = "text" if kind is str else "a number"
            raise ValueError(f"{path.name}: {key} = {said.get(key)!r} must be {wanted}")
        if isinstance(said[key], str) and not said[key].isprintable():
            raise ValueError(f"{path.name}: {key} = {said[key]!r} must be one line")
    if said["class"] not in classes:
        raise ValueError(f"{path.name}: class = {said['class']!r}: use one of {', '.join(classes)}")
    if not 0 <= said["seed"] < 2**31:
        raise ValueError(f"{path.name}: seed = {said['seed']} must be 0 or more, and below 2^31")
    if not 0 < said["bits_per_byte"] < 1000:
        raise ValueError(f"{path.name}: bits_per_byte must be positive, and below 1000")
    return said


def arguments_of(command: str) -> list[str]:
    """Split a command into the arguments of scripts/train.py: a preset, then flags and values.

    Raises:
        RefusedError: It says more than that, or sets what the verifier sets.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise RefusedError(f"{command!r} cannot be split into words: {error}") from None
    if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
        raise RefusedError("a command begins with a preset, such as: stories --max-minutes 10")
    for word in words[1:]:
        name = word.removeprefix("--").partition("=")[0].replace("_", "-")
        if word.startswith("--") and name in OF_VERIFIER:
            raise RefusedError(f"--{name} is set by the verifier: leave it out")
        if not re.fullmatch(r"(--[a-z][a-z0-9_-]*(=[\w.+-]+)?|[\w.+-]+)", word, re.ASCII):
            raise RefusedError(f"{word!r} is neither a flag nor a plain value")
    return words


def copy_clean(source: Path, to: Path, prefix: str = "") -> list[str]:
    """Copy known files of bounded size; return name and reason of each that was left out.

    Of checkpoints only the newest is copied, as CHECKPOINT.

    Args:
        source: The folder, written by others.
        to: A folder that does not exist.
        prefix: What the names of its files begin with in an entry, such as "run/".
    """
    to.mkdir(parents=True)
    left_out: list[str] = []
    checkpoints: list[str] = []

    def leave_out(name: str, reason: str) -> None:
        left_out.append(f"{plain(prefix + name, 100)}: {reason}")

    for path, about in walk(source, leave_out, MAX_FILES, MAX_DEPTH):
        name, mode = path.as_posix(), about.st_mode
        megabytes = MAX_MEGABYTES.get(Path(name).suffix, OTHER_MEGABYTES)
        is_checkpoint = STEP.fullmatch(prefix + name) is not None
        if not stat.S_ISREG(mode):
            reason = "a link" if stat.S_ISLNK(mode) else "not a file"
        elif not is_checkpoint and not any(fnmatchcase(prefix + name, one) for one in NAMES):
            is_code = (prefix + name).startswith("code/")
            reason = f"no {'.py or .cpp file of cs_basics' if is_code else 'file of a run folder'}"
        elif about.st_size > megabytes * 2**20:
            reason = f"larger than {megabytes} MB"
        elif is_checkpoint:
            checkpoints.append(name)
            continue
        else:
            _copy(source / name, to / prefix / name, megabytes * 2**20)
            continue
        leave_out(name, reason)
    for name in sorted(checkpoints)[-1:]:
        _copy(source / name, to / CHECKPOINT, MAX_MEGABYTES[".pt"] * 2**20)
    return left_out


def newest_checkpoint(run: Path) -> Path | None:
    """Return the checkpoint of a run folder that `copy_clean` copies."""
    found: list[Path] = []
    for path in run.glob("checkpoints/step-*.pt"):
        with contextlib.suppress(OSError):  # An old one may be deleted at this moment.
            if stat.S_ISREG(path.lstat().st_mode):
                found.append(path)
    return max(found, default=None)


def _copy(source: Path, to: Path, max_bytes: int) -> None:
    """Copy a regular file, but at most `max_bytes` of it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with open_regular(source) as file, to.open("wb") as copy:
        while (left := max_bytes - copy.tell()) > 0 and (chunk := file.read(min(left, CHUNK))):
            copy.write(chunk)
