"""Finds what was handed in, one submission or a folder of them, and by whom."""

import re
import unicodedata
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from cs_grader.result import Adjustment
from cs_grader.results.adjustments import ADJUSTED, adjustments_in
from cs_grader.trusted.clean_copy import ADAPTERS, JUNK, normal

ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
"""Only zips can be read. The others are in the gradebook all the same, with a line that says so."""
OF_CLASS = ("batch.json", "gradebook.csv", "index.html")
"""Files about all, which lie beside the folders that are named after submissions."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One thing that was handed in."""

    name: str
    """What it is called in gradebook and folders; unique, short, printable."""
    source: Path
    handed_in_as: str = ""
    """The name of the file or folder, as it is."""
    people: str = ""
    addresses: str = ""
    adjustments: tuple[Adjustment, ...] = ()


def find_submissions(path: Path) -> tuple[list[Submission], bool]:
    """Find what there is to grade.

    Args:
        path: A zip, a submission's folder, or a folder of submissions.

    Returns:
        The submissions by name, and whether it is a folder of them.

    Raises:
        ValueError: There is nothing to grade, or a file about all submissions cannot be read.
    """
    if path.is_file():
        if not zipfile.is_zipfile(path):
            raise ValueError(f"{path} is neither a folder nor a zip")
        return [Submission(name_of(path), path.resolve(), path.name)], False
    if not path.is_dir():
        raise ValueError(f"{path} does not exist")
    if looks_like_a_submission(path):
        return [Submission(name_of(path), path.resolve(), path.name)], False
    found: dict[str, Submission] = {}
    people = people_of(path)
    for entry in sorted(path.iterdir()):
        if may_be_handed_in(entry):
            name = name_of(entry)
            while name.casefold() in (*found, *OF_CLASS):
                name += "-2"
            who, addresses = people.get(entry.name, ("", ""))
            one = Submission(name, handed_in(entry), entry.name, who, addresses)
            found[name.casefold()] = one
    if not found:
        raise ValueError(f"{path} holds no submission: neither folders nor zips")
    adjusted = adjustments_in(path, [submission.name for submission in found.values()])
    everyone = (replace(one, adjustments=adjusted[one.name]) for one in found.values())
    return sorted(everyone, key=lambda submission: submission.name), True


def passed_over(path: Path) -> list[str]:
    """Name what lies in a folder of submissions and is neither one nor about all of them."""
    others = [entry.name for entry in sorted(path.iterdir()) if not may_be_handed_in(entry)]
    return [name for name in others if name not in (EXPORTED, ADJUSTED)]


def may_be_handed_in(entry: Path) -> bool:
    """Whether it is a folder, an archive, or a link, of which grading says that it is one."""
    is_one = entry.is_symlink() or entry.is_dir() or entry.suffix.lower() in ARCHIVES
    return is_one and entry.name not in JUNK and entry.name[0] != "."


def handed_in(entry: Path) -> Path:
    """Return the zip that a folder holds alone, as the folders that Moodle makes; or the entry."""
    if entry.is_symlink():
        return entry
    try:
        inside = [path for path in entry.iterdir() if path.name not in JUNK]
    except OSError:  # No folder, or one that cannot be read, as grading it will say.
        return entry
    is_zip = len(inside) == 1 and inside[0].suffix.lower() == ".zip"
    # A link may lead to what another has handed in.
    return inside[0] if is_zip and not inside[0].is_symlink() else entry


def looks_like_a_submission(folder: Path) -> bool:
    """Whether a folder is one submission, not a folder of them."""
    if (folder / ADAPTERS).exists():
        return True
    if sum(map(may_be_one_of_many, folder.iterdir())) > 1:
        return False  # A README.md or a .git may lie beside them.
    marks = ("tests", "src", "pyproject.toml", "setup.py", ".git", "adapters.py", "README.md")
    return any((folder / mark).exists() for mark in marks) or any(folder.glob("*.py"))


def may_be_one_of_many(path: Path) -> bool:
    """Whether it is a zip, or a folder that has adapters, or whose one folder has."""
    if not path.is_dir():
        return path.suffix.lower() == ".zip"
    try:
        return (path / ADAPTERS).exists() or any(path.glob(f"*/{ADAPTERS}"))
    except OSError:  # It cannot be read, as grading it will say.
        return True


def name_of(path: Path) -> str:
    """Make a name for people, folders and tables out of a file's name.

    Where a table would change it, it is changed here: spaces in a row are one, and no name begins
    as a formula does, or as a text that a table has kept from being one.
    """
    stem = path.stem if path.suffix.lower() == ".zip" and not path.is_dir() else path.name
    # Composed, as macOS does not write accents; the marks of many scripts are no letters.
    name = "".join(
        letter
        if letter.isalnum() or letter in " ._-@+=,()'" or unicodedata.category(letter)[0] == "M"
        else "_"
        for letter in normal(stem)
    )
    name = " ".join(name.split()).strip(". ")[:80]
    return re.sub("^[-+=@']", "_", name) or "submission"


EXPORTED = "submission_metadata.yml"
"""Lies beside submission_1001/, submission_1002/, ... in an export from Gradescope."""


def people_of(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the names and addresses of those who handed in, by the name of their folder.

    Raises:
        ValueError: The file is not YAML, or not of Gradescope.
    """
    path = folder / EXPORTED
    if not path.is_file():
        return {}
    try:
        # Nodes, not values: what autograders printed stands there as well, in types of Ruby.
        with path.open(encoding="utf-8") as file:
            root = yaml.compose(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        handed_in = _fields(root)
        groups = {name: _fields(node)[":submitters"].value for name, node in handed_in.items()}
        return {
            name: (_all(group, ":name"), _all(group, ":email")) for name, group in groups.items()
        }
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not what Gradescope exports: {reason}") from None


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("it has no fields where some should be")
    return {key.value: value for key, value in node.value}


def _all(group: list[yaml.Node], field: str) -> str:
    """Join what each of a group has in a field."""
    return ", ".join(filter(None, (_fields(one)[field].value for one in group)))
