"""Changes of what a student wrote, as text: the lines before (-) and after (+), in places.

    == clip | nothing | optim.py
    -    return norm
    +    return None
    @ tests/adapters.py
    -...
    > ./my_model.py functional layers

A change goes on in another file after "@ FILE", a name without a folder being in cs_basics/. Each
"-" after a "+" begins another place. ">" moves modules into one file, from which they then import.
"""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Patch:
    """A change, the places of which are lists of file, old lines and new lines.

    Without old lines, the new ones are the names of modules that move into the file.
    """

    kind: str
    title: str
    places: list[list[str]] = field(default_factory=list)


def read(path: Path) -> list[Patch]:
    """Read the changes of a file."""
    patches: list[Patch] = []
    file, last = "", ""
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        sign = line[0]
        if sign == "=":
            kind, name, file = (word.strip() for word in line.removeprefix("==").split("|"))
            patches.append(Patch(kind, f"{kind}: {name}"))
        elif sign == "@":
            file = line[1:].strip()
        elif sign == ">":
            whole, modules = line[1:].split(maxsplit=1)
            patches[-1].places.append([whole, "", modules])
        else:
            if sign == "-" and last != "-":
                patches[-1].places.append([file, "", ""])
            patches[-1].places[-1][1 if sign == "-" else 2] += line[1:]
        last = sign
    return patches


def apply(places: list[list[str]], edition: Path) -> None:
    """Change files of an edition."""
    for file, old, new in places:
        path = edition / file if "/" in file else edition / "cs_basics" / file
        if not old:
            join(new.split(), path)
            continue
        source = path.read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{file} holds {old!r} {source.count(old)} times"
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
