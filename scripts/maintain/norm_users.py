"""Write the table of who uses which norm into docs/norms.md, from cs_basics/study/norm_users.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for cli.py

from cli import run

from cs_basics.run.atomic import write_atomically
from cs_basics.study.norm_users import with_table

DOCUMENT = Path(__file__).parents[2] / "docs" / "norms.md"


def main(document: Path = DOCUMENT) -> None:
    """Write the table of who uses which norm into docs/norms.md.

    Args:
        document: the text whose table is written again.
    """
    text = with_table(document.read_text(encoding="utf-8"))
    write_atomically(document, text.encode())
    print(f"{document}: the table is that of cs_basics/study/norm_users.py")


if __name__ == "__main__":
    run(main)
