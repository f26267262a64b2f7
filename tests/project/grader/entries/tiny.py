"""Tiny runs, and the entries made of them."""

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from files import write_files
from processes import ROOT

from cs_basics.stories.grammar import write_stories
from cs_grader.entries.case import Case, Texts
from cs_grader.entries.entry import Terms, read_entry

COMMAND = (
    "debug --vocab-size 300 --context-length 32 --d-model 32 --d-ff 64 --num-layers 1"
    " --batch-size 16 --max-steps 60 --eval-every 30 --num-samples 0 --dtype float32"
)
END = "<|endoftext|>\n"
SHARED = ("ids", "reading", "shift")
ROLES = ("train", "valid")


@dataclass
class Recipe:
    """How an entry is made."""

    command: str = COMMAND
    seed: int = 0
    code: dict[str, str] = field(default_factory=dict)
    """Changed files of cs_basics, by their place in it."""


class Workshop:
    """Trains and examines tiny entries.

    Args:
        folder: An empty folder.
        popen: Starts programs, as subprocess.Popen does.
        texts: Sizes and seeds are those of the grammar; or other texts.
    """

    def __init__(self, folder, popen, texts=None):
        self.folder, self.popen = folder, popen
        self.texts = texts or grammar_texts(folder)
        self.paths = {role: folder / f"{role}.txt" for role in ROLES}
        for role, path in self.paths.items():
            path.write_bytes(getattr(self.texts, role))
        self.known = {}

    def make(self, name, recipe=None):
        """Train as a recipe says and hand in what comes out."""
        recipe = recipe or Recipe()
        entry = self.folder / name
        for place, text in recipe.code.items():
            write(entry / "code" / "cs_basics" / place, text)
        self.train(entry / "run", recipe)
        self.sign(entry, recipe, claimed(entry))
        return entry

    def train(self, run, recipe, *more, texts=("train", "valid")):
        """Run scripts/train.py with the code of a recipe."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
            code = Path(folder) / "cs_basics"
            shutil.copytree(ROOT / "cs_basics", code)
            for place, text in recipe.code.items():
                (code / place).write_text(text)
            given = ["--train-text", self.paths[texts[0]], "--valid-text", self.paths[texts[1]]]
            given += ["--run-dir", run, "--seed", recipe.seed, "--no-page", "--device", "cpu"]
            command = [sys.executable, ROOT / "scripts" / "train.py", *recipe.command.split()]
            process = self.popen(
                [str(word) for word in [*command, *given, *more]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={
                    "PYTHONPATH": f"{folder}:{ROOT / 'scripts'}",
                    "HOME": folder,
                    "OMP_NUM_THREADS": "1",
                    "PATH": "/usr/bin:/bin",
                    "MPLBACKEND": "Agg",
                },
            )
            code = process.wait()
            output.seek(0)
            assert code == 0, output.read().decode()

    def sign(self, entry, recipe, figure):
        """Write entry.toml."""
        said = {"name": entry.name, "author": "A. Student", "class": "ten-minutes"}
        said |= {"command": recipe.command, "bits_per_byte": figure, "seed": recipe.seed}
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in said.items()]
        write(entry / "entry.toml", "".join(lines))

    def examine(self, entry, minutes=10.0):
        """Return the case of an entry; what equals an earlier case is taken from there."""
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        classes = {"ten-minutes": minutes}
        asked = Terms(repository=ROOT, tier="process", threads=1, classes=classes)
        read = read_entry(entry, scratch / "entry", classes)
        case = Case(read, self.texts, asked, scratch, lambda *_: None)
        self.share(case, self.key_of(read, "run", "code"), SHARED)
        run = (read.command, read.seed, repr(asked), self.key_of(read, "code"))
        self.share(case, run, ("rerun", "rerun_reading", "rerun_shift"))
        return case

    def share(self, case, key, names):
        """Let a case have what an equal one has computed."""
        first = self.known.setdefault(key, case)
        for name in names:
            if f"_{name}" in vars(first):
                vars(case)[f"_{name}"] = vars(first)[f"_{name}"]

    def key_of(self, entry, *folders):
        """Return all that a model's answers depend on."""
        parts = []
        for folder in folders:
            for path in sorted((entry.folder / folder).rglob("*")):
                name = path.relative_to(entry.folder).as_posix()
                if path.is_file() and not name.startswith(("run/metrics", "run/tokens")):
                    parts.append((name, path.read_bytes()))
        return hash(tuple(parts))


def grammar_texts(folder):
    """The first sentences of stories of the embedded grammar: many stories in few bytes."""
    read = []
    for seed, size in ((1, 60_000), (2, 10_000)):
        write_stories(folder / "stories.txt", 5 * size, seed)
        stories = (folder / "stories.txt").read_text().split(END)
        short = [". ".join(story.split(". ")[:3]) + f".\n{END}" for story in stories]
        read.append("".join(short)[:size].rpartition(END)[0].encode() + END.encode())
    return Texts(train=read[0], valid=read[1])


def claimed(entry):
    """Return the figure that the run of an entry ended with."""
    lines = (entry / "run" / "metrics.jsonl").read_text().splitlines()
    figures = [json.loads(line).get("final/bits_per_byte") for line in lines]
    return [*filter(None, figures)][-1]


def copied(entry, name):
    """Copy an entry, to plant something in it."""
    return shutil.copytree(entry, entry.with_name(name))


def write(path, text):
    """Write a file and the folders above it."""
    write_files(path.parent, {path.name: text})
