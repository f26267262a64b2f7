"""A batch such as is handed in: right, wrong, unfinished, hostile and damaged submissions.

lab.bench.batch writes one to a folder and measures how it is graded. Who hands in what
depends on the number alone, so that a small batch is the beginning of a large one.
"""

import random
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from zoo.animal import PACKAGE, adapters_of, build, load, reference

# Of each ten.
KINDS = (
    *("right", "wrong", "right", "hostile", "wrong"),
    *("right", "unfinished", "wrong", "right", "damaged"),
)
# One mistake each: a file, what stands there, what is written instead.
MISTAKES = (
    ("norms.py", "(wide * wide).mean(dim=-1, keepdim=True)", "(wide * wide).sum(-1, keepdim=True)"),
    ("norms.py", "normalised * self.weight)", "normalised * self.weight * self.weight)"),
    ("functional.py", "return x * torch.sigmoid(x)", "return x * torch.sigmoid(1.5 * x)"),
    ("functional.py", "math.sqrt(q.shape[-1])", "q.shape[-1]"),
    ("functional.py", "(log_normaliser - target_logits).mean()", "-target_logits.mean()"),
    ("rope.py", "even * cos - odd * sin", "even * cos + odd * sin"),
    ("layers.py", "silu(self.w1(x)) * self.w3(x)", "silu(self.w3(x)) * self.w1(x)"),
    ("layers.py", "return self.weight[token_ids]", "return 2 * self.weight[token_ids]"),
    ("optim.py", '(v.sqrt() + group["eps"])', '(v + group["eps"]).sqrt()'),
    ("optim.py", "0.5 * (1 + math.cos(math.pi * progress))", "(1 - progress)"),
)
UNFINISHED = ("get_adamw_cls", "run_train_bpe", "run_transformer_lm", "run_save_checkpoint")
# Hostile to the whole machine, or so slow that a batch would be about them alone.
LEFT_OUT = re.compile(r"million|bomb|memory|GB")


def hand_in(number: int, folder: Path) -> Path:
    """Write one submission into a folder for all; return what was written."""
    kind = KINDS[number % len(KINDS)]
    place = folder / f"{number:03d}-{kind}"
    chance = random.Random(number)
    return WRITERS[kind](place, number // len(KINDS), chance)


def right(place: Path, round_: int, _: random.Random) -> Path:
    write(place)
    return packed(place) if round_ % 2 else place


def wrong(place: Path, _: int, chance: random.Random) -> Path:
    """One mistake of the list, or two."""
    write(place)
    for file, ours, theirs in chance.sample(MISTAKES, chance.choice([1, 1, 2])):
        path = place / PACKAGE / file
        text = path.read_text(encoding="utf-8")
        if text.count(ours) != 1:
            raise ValueError(f"{file} has {ours!r} {text.count(ours)} times: see MISTAKES")
        path.write_text(text.replace(ours, theirs), encoding="utf-8")
    return place


def unfinished(place: Path, _: int, chance: random.Random) -> Path:
    write(place)
    missing = chance.sample(UNFINISHED, chance.randint(1, len(UNFINISHED)))
    stubs = "".join(
        f"\n\ndef {name}(*_, **__):\n    raise NotImplementedError\n" for name in missing
    )
    with adapters_of(place).open("a", encoding="utf-8") as file:
        file.write(stubs)
    return place


def hostile(place: Path, round_: int, _: random.Random) -> Path:
    """An animal of the zoo; one after the other."""
    animals = [one for one in load() if not LEFT_OUT.search(one.name)]
    # Neighbours in the zoo are alike: far steps show more of it.
    made = build(animals[round_ * 29 % len(animals)], place)
    if made != place:
        shutil.rmtree(place)
    return made


def damaged(place: Path, _: int, chance: random.Random) -> Path:
    """An archive with a few bytes changed, or without its end."""
    write(place)
    path = packed(place)
    content = bytearray(path.read_bytes())
    if chance.random() < 0.3:
        del content[chance.randrange(len(content)) :]
    for _ in range(chance.randint(1, 40)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)
    return path


WRITERS: dict[str, Callable[[Path, int, random.Random], Path]] = {
    "right": right,
    "wrong": wrong,
    "unfinished": unfinished,
    "hostile": hostile,
    "damaged": damaged,
}


def write(place: Path) -> None:
    for name, text in reference().items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def packed(place: Path) -> Path:
    """Put a folder into a zip of its name."""
    path = place.with_name(f"{place.name}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(place.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(place).as_posix())
    shutil.rmtree(place)
    return path
