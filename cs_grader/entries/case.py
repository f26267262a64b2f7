"""All that is known of one entry, computed when a check first asks for it."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cs_grader.entries.entry import Entry, arguments_of
from cs_grader.entries.evaluation import (
    MAX_SHIFT,
    Reading,
    Tell,
    largest_shift,
    read,
    stories_of,
    told_of_shift,
)
from cs_grader.entries.model import Model
from cs_grader.entries.overlap import Overlap
from cs_grader.entries.refusal import NotJudgedError, RefusedError, once
from cs_grader.entries.rerun import Rerun, run_again
from cs_grader.entries.run_files import Ids, RunFiles

CLASSES = {"ten-minutes": 10.0, "one-hour": 60.0}
"""Minutes of each class."""
COMPARED_BYTES = 400_000
"""The beginnings of the validation text and of fresh text that are compared story by story."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The verifier's own texts, stories separated by <|endoftext|>."""

    train: bytes
    valid: bytes
    fresh: bytes | None
    """From the source of the validation text, and held by nobody else; None: there is none."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is the same for all entries."""

    repository: Path
    tier: str
    threads: int = 2
    classes: Mapping[str, float] = field(default_factory=lambda: CLASSES)
    tolerance: float = 0.02
    """How many bits per byte worse than claimed a repeated run may be."""
    is_rerun: bool = True
    more_seeds: int = 0
    """Further runs, with the seeds that follow that of the entry."""


class Case:
    """An entry under examination.

    Args:
        entry: The entry.
        texts: The verifier's texts.
        terms: The rules.
        scratch: A folder for what the runs leave.
        tell: Told how far the work is.
    """

    def __init__(self, entry: Entry, texts: Texts, terms: Terms, scratch: Path, tell: Tell) -> None:
        self.entry, self.texts, self.terms = entry, texts, terms
        self.scratch, self.tell = scratch, tell
        self.files = RunFiles(entry.folder)
        self.model = self._model_of(self.files)

    @once
    def overlap(self) -> Overlap:
        """Pieces of the validation text."""
        return Overlap(self.texts.valid, self.texts.train)

    @once
    def asked(self) -> list[bytes]:
        """The texts to predict: validation, its first stories shuffled, and fresh text if any."""
        stories = stories_of(self.texts.valid)[: self.num_compared]
        shuffled = b"".join(stories[place] for place in self.shuffled_order)
        return [self.texts.valid, shuffled, *self.fresh_texts]

    @once
    def encoded(self) -> list[Ids]:
        """The texts in `asked`, encoded by the entry's tokenizer."""
        return self.model.encode(self.asked)

    @once
    def readings(self) -> list[Reading]:
        """How well the entry's model predicts the texts in `asked`."""
        return self.read(self.model, self.asked, self.encoded)

    @once
    def shift(self) -> float:
        """See largest_shift."""
        return largest_shift(self.model, self.readings[0])

    @once
    def rerun_shift(self) -> float:
        """See largest_shift; of the model that the repeated run has left."""
        return largest_shift(self.rerun_model, self.rerun_readings[0])

    @once
    def fresh_texts(self) -> list[bytes]:
        """The beginning of the fresh text, if there is one."""
        fresh = self.texts.fresh
        return [] if fresh is None else [b"".join(stories_of(fresh)[: num_compared(fresh)])]

    @once
    def num_compared(self) -> int:
        """How many stories of the validation text are compared with others."""
        return num_compared(self.texts.valid)

    @once
    def shuffled_order(self) -> list[int]:
        """Another order of the compared stories, drawn anew for each verification."""
        order = list(range(self.num_compared))
        random.SystemRandom().shuffle(order)
        return order

    @once
    def arguments(self) -> list[str]:
        """The arguments of the command, one by one."""
        return arguments_of(self.entry.command)

    @once
    def rerun(self) -> Rerun:
        """The command, run again with the entry's seed."""
        return self._run_again(self.entry.seed)

    @once
    def rerun_model(self) -> Model:
        """The model that the repeated run has left."""
        if self.rerun.complaint:
            raise RefusedError(self.rerun.complaint)
        return self._model_of(RunFiles(self.rerun.folder))

    @once
    def rerun_readings(self) -> list[Reading]:
        """How well `rerun_model` predicts the validation text and, if there is some, fresh text."""
        return self.read(self.rerun_model, [self.texts.valid, *self.fresh_texts])

    @once
    def further(self) -> list[float]:
        """Bits per byte of runs with further seeds."""
        found: list[float] = []
        for seed in range(self.entry.seed + 1, self.entry.seed + 1 + self.terms.more_seeds):
            rerun = self._run_again(seed)
            if reason := rerun.complaint or rerun.delay or rerun.crowd:
                raise RefusedError(f"seed {seed}: {reason}")
            model = self._model_of(RunFiles(rerun.folder))
            (reading,) = self.read(model, [self.texts.valid])
            if (shift := largest_shift(model, reading)) > MAX_SHIFT:
                raise RefusedError(f"seed {seed}: {told_of_shift(shift)}")
            found.append(reading.bits_per_byte)
        return found

    @once
    def figures(self) -> list[float]:
        """The figures that count: of further runs, if any, since an entry may choose its seed."""
        return self.further or [self.rerun_readings[0].bits_per_byte]

    def read(
        self, model: Model, texts: list[bytes], encoded: list[Ids] | None = None
    ) -> list[Reading]:
        """Let a model predict texts."""
        encoded = model.encode(texts) if encoded is None else encoded
        with model.asked() as ask:
            return [
                read(model, text, ids, ask, self.tell)
                for text, ids in zip(texts, encoded, strict=True)
            ]

    def _model_of(self, files: RunFiles) -> Model:
        terms, folder = self.terms, self.scratch / f"of-{files.folder.name}"
        return Model(files, terms.repository, self.entry.code, folder, terms.tier, terms.threads)

    def _run_again(self, seed: int) -> Rerun:
        if not self.terms.is_rerun:
            raise NotJudgedError("nothing was run again")
        return run_again(
            self.arguments,
            self.entry.code,
            self.texts.train,
            self.scratch / f"seed-{seed}",
            seed=seed,
            minutes=self.terms.classes[self.entry.contest],
            threads=self.terms.threads,
            tier=self.terms.tier,
            repository=self.terms.repository,
            tell=self.tell,
        )


def num_compared(text: bytes) -> int:
    """Return how many stories at the beginning of a text fit into COMPARED_BYTES, at least 1."""
    sizes = np.cumsum([len(story) for story in stories_of(text)])
    return max(1, int(np.searchsorted(sizes, COMPARED_BYTES, side="right")))
