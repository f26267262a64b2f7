"""Changes of a whole implementation, as text: the lines before (-) and after (+), in places.

    == rmsnorm | eps is missing | norms.py | eps is missing
    -        normalised = x32 * torch.rsqrt(mean_square + self.eps)
    +        normalised = x32 * torch.rsqrt(mean_square)
    @ tests/adapters.py
    -...
    > ./my_model.py functional layers

The first line has what is changed, in what way, the file, and what the reader of the text asks for.
A change goes on in another file after "@ FILE", a name without a folder being in cs_basics/. Each
"-" after a "+" or an "@" begins another place. ">" moves modules into one file, from which they
then import. A file of the independent implementation is named as independent/norms.py; any other
is of the book.
"""

import ast
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
STYLES = ("book", "independent")


@dataclass
class Patch:
    """A change, the places of which are lists of file, old lines and new lines.

    Without old lines, the new ones are the names of modules that move into the file.
    """

    kind: str
    name: str
    style: str = "book"
    more: list[str] = field(default_factory=list)
    """What follows in the first line after the file."""
    places: list[list[str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.kind}: {self.name}" + f" ({self.style})" * (self.style != "book")


def read(path: Path) -> list[Patch]:
    """Read the changes of a file."""
    patches: list[Patch] = []
    file, last = "", ""
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        sign = line[0]
        if sign == "=":
            kind, name, file, *more = (word.strip() for word in line.removeprefix("==").split("|"))
            style, file = located(file)
            patches.append(Patch(kind, name, style, more))
        elif sign == "@":
            _, file = located(line[1:].strip())
        elif sign == ">":
            whole, modules = line[1:].split(maxsplit=1)
            patches[-1].places.append([whole, "", modules])
        else:
            if sign == "-" and last != "-":
                patches[-1].places.append([file, "", ""])
            patches[-1].places[-1][1 if sign == "-" else 2] += line[1:]
        last = sign
    return patches


def located(file: str) -> tuple[str, str]:
    """Return a file's style, and where it is in a repository of that style."""
    if file.startswith("independent/"):
        return "independent", file.removeprefix("independent/")
    return "book", file


def write_repository(patch: Patch, place: Path) -> Path:
    """Write the implementation with the change in it, and the adapters to it; return the place."""
    (place / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "adapters.py", place / "tests")
    (place / "cs_basics").mkdir()
    folders = [ROOT / "cs_basics"]
    if patch.style == "independent":
        folders.append(HERE / "independent")
    for folder in folders:
        for file in folder.glob("*.py"):
            shutil.copy(file, place / "cs_basics")
    apply(patch.places, place)
    return place


def apply(places: list[list[str]], repository: Path) -> None:
    """Change files of a repository.

    Raises:
        ValueError: The old lines are not in the file, or more than once.
    """
    for file, old, new in places:
        path = repository / file if "/" in file else repository / "cs_basics" / file
        if not old:
            join(new.split(), path)
            continue
        source = path.read_text(encoding="utf-8")
        if source.count(old) != 1:
            raise ValueError(f"{file} holds {old!r} {source.count(old)} times")
        path.write_text(source.replace(old, new), encoding="utf-8")


def join(modules: list[str], whole: Path) -> None:
    """Move modules into one file, from which each of them then imports what it held."""
    own = rf"(?m)^from cs_basics\.({'|'.join(modules)}) import .*\n"
    texts: list[str] = []
    for module in modules:
        path = whole.parent / "cs_basics" / f"{module}.py"
        texts.append(path.read_text(encoding="utf-8"))
        defined = (getattr(node, "name", "_") for node in ast.parse(texts[-1]).body)
        names = ", ".join(name for name in defined if name[0] != "_")
        path.write_text(f"from {whole.stem} import {names}\n", encoding="utf-8")
    whole.write_text(re.sub(own, "", "\n".join(texts)), encoding="utf-8")
