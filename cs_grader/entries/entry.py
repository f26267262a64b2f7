"""What is handed in: a folder that says how a model is trained, and with which code.

    entry.toml           name, author, class, command (the arguments of scripts/train.py)
    code/cs_basics/...   the files of cs_basics that differ from the repository's

Anything else in the folder is not read: the figure that counts is that of the repeated run.
"""

import re
import shlex
import shutil
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path

from cs_grader.plain_text import one_line
from cs_grader.trusted.copying import open_regular, walk

CLASSES = {"ten-minutes": 10.0, "one-hour": 60.0}
"""Minutes of each class."""
KEYS = ("name", "author", "class", "command")
SET_BY_VERIFIER = frozenset(
    {
        *("run-dir", "text", "train-text", "valid-text", "corpus-megabytes", "seed", "resume"),
        *("no-resume", "page", "no-page", "wandb", "device", "parallel", "help"),
    }
)
"""Flags of scripts/train.py that an entry's command may not have."""
CODE_SUFFIXES = (".py", ".cpp")
MAX_CODE_BYTES = 2**20
MAX_FILES, MAX_DEPTH = 1000, 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What entry.toml says."""

    name: str
    author: str
    contest: str
    """The class, a key of CLASSES."""
    arguments: list[str]
    """Those of scripts/train.py."""
    code: Path
    """Changed files of cs_basics; need not exist."""


def read_entry(folder: Path) -> Entry:
    """Read entry.toml.

    Raises:
        ValueError: The folder has none, or it does not say what it must.
    """
    path = folder / "entry.toml"
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{folder} holds no entry: there is no file entry.toml in it")
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    for key in sorted(set(said) ^ set(KEYS)):
        raise ValueError(f"{path}: {key} is missing or unknown: it has {', '.join(KEYS)}")
    for key in KEYS:
        if not isinstance(said[key], str) or not said[key].isprintable():
            raise ValueError(f"{path}: {key} = {said[key]!r} must be text on one line")
    if said["class"] not in CLASSES:
        raise ValueError(f"{path}: class = {said['class']!r}: use one of {', '.join(CLASSES)}")
    return Entry(
        name=said["name"],
        author=said["author"],
        contest=said["class"],
        arguments=arguments_of(said["command"]),
        code=folder / "code" / "cs_basics",
    )


def arguments_of(command: str) -> list[str]:
    """Split a command into the arguments of scripts/train.py: a preset, then flags and values.

    Raises:
        ValueError: It says more than that, or sets what the verifier sets.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{command!r} cannot be split into words: {error}") from None
    if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
        raise ValueError("a command begins with a preset, such as: stories --max-minutes 10")
    for word in words[1:]:
        name = word.removeprefix("--").partition("=")[0].replace("_", "-")
        if word.startswith("--") and name in SET_BY_VERIFIER:
            raise ValueError(f"--{name} is set by the verifier: leave it out")
        if not re.fullmatch(r"(--[a-z][a-z0-9_-]*(=[\w.+-]+)?|[\w.+-]+)", word, re.ASCII):
            raise ValueError(f"{word!r} is neither a flag nor a plain value")
    return words


def copy_code(source: Path, to: Path) -> None:
    """Copy changed files of cs_basics over the repository's; no link is followed.

    Raises:
        ValueError: There is something else than source of bounded size.
    """

    def refuse(name: str, reason: str) -> None:
        raise ValueError(f"code/cs_basics/{one_line(name)}: {reason}")

    for path, about in walk(source, refuse, MAX_FILES, MAX_DEPTH) if source.is_dir() else ():
        if not stat.S_ISREG(about.st_mode) or path.suffix not in CODE_SUFFIXES:
            refuse(str(path), f"use ordinary files that end in {' or '.join(CODE_SUFFIXES)}")
        if about.st_size > MAX_CODE_BYTES:
            refuse(str(path), f"{about.st_size:,} bytes, at most {MAX_CODE_BYTES:,} are allowed")
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        with open_regular(source / path) as file, (to / path).open("wb") as copy:
            shutil.copyfileobj(file, copy)
