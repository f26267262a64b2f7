"""The texts that the programs of the bank read: rhymes, sentences and sums, drawn from a seed."""

import random
from pathlib import Path

RHYMES = (
    "up above the world so high like a diamond in the sky",
    "row row row your boat gently down the stream",
    "merrily merrily merrily merrily life is but a dream",
    "twinkle twinkle little star how i wonder what you are",
)
BEGINNING = "00022021032110"
"""The first rhymes, as numbers: a case of the bank learns these alone, and overfits."""
WHO = ("anna", "bob", "a child", "my uncle", "the king", "the teacher", "a queen")
DOES = ("breaks", "buys", "finds", "has lost", "paints", "sings to")
WHAT = ("an apple", "every star", "his hat", "some bread", "the river", "two books")


def write_texts(folder: Path) -> None:
    """Write rhymes.txt, sentences.txt and sums.txt, always the same ones."""
    draw = random.Random(1)
    rhymes = [*(RHYMES[int(digit)] for digit in BEGINNING), *draw.choices(RHYMES, k=386)]
    (folder / "rhymes.txt").write_text("".join(f"{rhyme}. " for rhyme in rhymes))
    clauses = [" ".join(map(draw.choice, (WHO, DOES, WHAT))) for _ in range(4000)]
    lines, at = list[str](), 0
    while len(lines) < 1000:
        size = draw.randint(1, 4)
        lines.append(" and ".join(clauses[at : at + size]))
        at += size
    (folder / "sentences.txt").write_text("".join(f"{line}\n" for line in lines))
    pairs = [(draw.randrange(12), draw.randrange(12)) for _ in range(1500)]
    sums = (f"{a} and {b} make {a + b}; {b} times {a} is {a * b}\n" for a, b in pairs)
    (folder / "sums.txt").write_text("".join(sums))
