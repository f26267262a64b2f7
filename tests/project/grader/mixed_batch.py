"""A batch such as is handed in: right, wrong, unfinished, hostile and damaged submissions.

lab.bench.batch writes one to a folder and measures how it is graded. Who hands in what
depends on the number alone, so that a small batch is the beginning of a large one.
"""

import random
import re
import shutil
from pathlib import Path

from bank.cases import load as cases_of_the_bank
from bank.patches import STYLES, Patch, write_repository
from zoo.animal import adapters_of, build, load

UNFINISHED = ("get_adamw_cls", "run_train_bpe", "run_transformer_lm", "run_save_checkpoint")
# Hostile to the whole machine, or so slow that a batch would be about them alone.
LEFT_OUT = re.compile(r"million|bomb|memory|GB")


def hand_in(number: int, folder: Path) -> None:
    """Write one submission into a folder for all."""
    kind = KINDS[number % len(KINDS)]
    place = folder / f"{number:03d}-{kind.__name__}"
    place.mkdir()
    kind(place, number // len(KINDS), random.Random(number))


def right(place: Path, round_: int, chance: random.Random) -> None:
    write_repository(Patch("", "as it is", chance.choice(STYLES)), place)
    if round_ % 2:
        packed(place)


def wrong(place: Path, _: int, chance: random.Random) -> None:
    """With a mistake of the bank."""
    faults = [case.patch for case in cases_of_the_bank() if case.is_fault]
    write_repository(chance.choice(faults), place)


def unfinished(place: Path, _: int, chance: random.Random) -> None:
    right(place, 0, chance)
    missing = chance.sample(UNFINISHED, chance.randint(1, len(UNFINISHED)))
    with adapters_of(place).open("a", encoding="utf-8") as file:
        for name in missing:
            file.write(f"\n\ndef {name}(*_, **__):\n    raise NotImplementedError\n")


def hostile(place: Path, round_: int, _: random.Random) -> None:
    """An animal of the zoo; one after the other."""
    animals = [one for one in load() if not LEFT_OUT.search(one.name)]
    # Neighbours in the zoo are alike: far steps show more of it.
    if build(animals[round_ * 29 % len(animals)], place) != place:
        shutil.rmtree(place)


def damaged(place: Path, _: int, chance: random.Random) -> None:
    """An archive with a few bytes changed, or without its end."""
    right(place, 0, chance)
    path = packed(place)
    content = bytearray(path.read_bytes())
    if chance.random() < 0.3:
        del content[chance.randrange(len(content)) :]
    for _ in range(chance.randint(1, 40)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)


def packed(place: Path) -> Path:
    """Put a folder into a zip of its name."""
    path = Path(shutil.make_archive(str(place), "zip", place))
    shutil.rmtree(place)
    return path


# Of each ten.
KINDS = (
    *(right, wrong, right, hostile, wrong),
    *(right, unfinished, wrong, right, damaged),
)
