"""Changes of what a student wrote, as text: the lines before (-) and after (+), in places.

    == clip | nothing | optim.py
    -    return norm
    +    return None
    @ functional.py
    -...

A change goes on in another file after "@ FILE". Each "-" after a "+" begins another place.
"""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Patch:
    """A change, the places of which are lists of file, old lines and new lines."""

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
        else:
            if sign == "-" and last != "-":
                patches[-1].places.append([file, "", ""])
            patches[-1].places[-1][1 if sign == "-" else 2] += line[1:]
        last = sign
    return patches
