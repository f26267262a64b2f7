"""The format that plots.txt and words.txt share: titled sections of blocks of lines."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text file, and the lines that continue it, with its place for messages."""

    path: Path
    number: int
    text: str

    def error(self, complaint: str) -> ValueError:
        """Return an error that names the file and the line."""
        return ValueError(f"{self.path}, line {self.number}: {complaint}")


def read_sections(path: Path) -> list[tuple[Line, list[list[Line]]]]:
    """Read the sections of a file; comments are left out and continued lines are joined.

    Returns:
        For each section its title, such as "child / lost outside", and its blocks of lines, which
        blank lines separate.

    Raises:
        ValueError: A line is not ASCII, stands before the first title, or continues no line.
    """
    sections: list[tuple[Line, list[list[Line]]]] = []
    block: list[Line] = []  # the block that the next line belongs to
    for number, text in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1):
        line = Line(path, number, text.strip())
        if not text.isascii():
            raise line.error("only ASCII characters are allowed")
        if text.startswith("#"):
            continue
        if text.startswith("=="):
            sections.append((Line(path, number, text[2:].strip()), []))
            block = []
        elif not line.text:
            block = []
        elif not sections:
            raise line.error('text before the first title, such as "== color"')
        elif not text[0].isspace():
            if not block:
                sections[-1][1].append(block)
            block.append(line)
        elif block:
            block[-1] = Line(path, block[-1].number, f"{block[-1].text} {line.text}")
        else:
            raise line.error("an indented line continues the line above, but there is none")
    return sections
