"""Write the table of who uses which norm into docs/norms.md, from cs_basics/study/norm_users.py."""

from pathlib import Path

from cs_basics.study.norm_users import with_table

DOCUMENT = Path(__file__).parents[2] / "docs" / "norms.md"

if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{DOCUMENT}: the table is that of cs_basics/study/norm_users.py")
