"""clusters.toml: what an instructor calls the mistakes that the examination has no name for.

The file lies in the folder of the results, beside index.html. It has an entry for each name:

    [[cluster]]
    problem = "rmsnorm"
    like = "student-17"
    name = "the gain is squared"
    hint = "Multiply by the gain once, after the division."

`like` is any submission of the cluster: whoever answers like it has made this mistake. Name and
hint then stand on the class page and on the page of each of them, as if the examination had known.
"""

import dataclasses
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cs_grader.plain_text import one_line
from cs_grader.result import Item, Result
from cs_grader.results.clusters import Cluster, unexplained

FILE = "clusters.toml"
MAX_CHARS = {"problem": 100, "like": 100, "name": 100, "hint": 1000}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterName:
    """An entry of the file."""

    problem: str
    like: str
    name: str
    hint: str = ""


def read_names(folder: Path) -> list[ClusterName]:
    """Read the file in the folder of the results; without one there are no names.

    Raises:
        ValueError: Something in it is not as it should be; says which entry and what.
    """
    path = folder / FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: {one_line(str(error))}") from None
    entries = content.pop("cluster", [])
    if content:
        raise ValueError(f"{path}: {next(iter(content))!r} is unknown: begin each with [[cluster]]")
    if not isinstance(entries, list):
        raise ValueError(f"{path}: cluster is not a list: begin each with [[cluster]]")
    names = [_entry(entry, f"{path}, entry {n}") for n, entry in enumerate(entries, 1)]
    known: set[tuple[str, str]] = set()
    for number, name in enumerate(names, 1):
        if (name.problem, name.like) in known:
            place = f"{path}, entry {number}"
            raise ValueError(f"{place}: {name.like} has a name in {name.problem} already")
        known.add((name.problem, name.like))
    return names


def _entry(entry: Any, place: str) -> ClusterName:  # noqa: ANN401  whatever TOML holds
    if not isinstance(entry, dict):
        raise ValueError(f"{place}: begin each with [[cluster]]")
    for key in ("problem", "like", "name"):
        if key not in entry:
            raise ValueError(f"{place}: {key} is missing")
    for key, value in entry.items():
        if key not in MAX_CHARS:
            raise ValueError(f"{place}: {key!r} is unknown: use {', '.join(MAX_CHARS)}")
        if not isinstance(value, str) or (not value.strip() and key != "hint"):
            raise ValueError(f"{place}: {key} = {value!r} has to be a text")
        if len(value) > MAX_CHARS[key]:
            raise ValueError(f"{place}: {key} is longer than {MAX_CHARS[key]} characters")
    return ClusterName(**entry)


Named = tuple[Cluster, ClusterName | None]


def name_clusters(
    clusters: Sequence[Cluster], names: Sequence[ClusterName]
) -> tuple[list[Named], list[str]]:
    """Give each cluster the first name that fits.

    Returns:
        Each cluster and its name, and a line for each name that fits none.
    """
    used: set[ClusterName] = set()
    named: list[Named] = []
    for cluster in clusters:
        fitting = [n for n in names if n.problem == cluster.problem and n.like in cluster.members]
        used.update(fitting)
        named.append((cluster, fitting[0] if fitting else None))
    unused = [
        f"{FILE}: {one.like} has no unexplained failure in {one.problem}, so that nothing is called"
        f" {one.name!r}"
        for one in names
        if one not in used
    ]
    return named, unused


def explain(result: Result, named: Sequence[Named]) -> Result:
    """Return a result in which the failures of a named cluster have its name for a diagnosis."""
    names = {
        cluster.problem: name
        for cluster, name in named
        if name is not None and result.submission in cluster.members
    }
    if not names:
        return result
    wrong = unexplained(result)

    def explained(item: Item) -> Item:
        name = names.get(item.problem)
        if name is None or item.item not in wrong[item.problem] or item.is_hidden:
            return item
        words = f"  This looks like a mistake that others have made, too: {name.name}."
        message = "\n".join(filter(None, [item.message, words, name.hint and f"  {name.hint}"]))
        return dataclasses.replace(item, diagnosis=name.name, message=message)

    return dataclasses.replace(result, items=tuple(map(explained, result.items)))
