"""All that is known of one entry, computed when a check first asks for it."""

from dataclasses import dataclass
from pathlib import Path

from cs_grader.entries.entry import Entry, Terms, arguments_of
from cs_grader.entries.evaluation import (
    MAX_SHIFT,
    Reading,
    Tell,
    largest_shift,
    read,
    told_of_shift,
)
from cs_grader.entries.model import Model
from cs_grader.entries.overlap import Overlap
from cs_grader.entries.refusal import NotJudgedError, RefusedError, once
from cs_grader.entries.rerun import Rerun, run_again
from cs_grader.entries.run_files import Ids, RunFiles


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The verifier's own texts, stories separated by <|endoftext|>."""

    train: bytes
    valid: bytes


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
    def ids(self) -> Ids:
        """The validation text, encoded by the entry's tokenizer."""
        return self.model.encode(self.texts.valid)

    @once
    def reading(self) -> Reading:
        """How well the entry's model predicts the validation text."""
        return self.read(self.model, self.ids)

    @once
    def shift(self) -> float:
        """See largest_shift."""
        return largest_shift(self.model, self.reading)

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
    def rerun_reading(self) -> Reading:
        """How well `rerun_model` predicts the validation text."""
        return self.read(self.rerun_model)

    @once
    def rerun_shift(self) -> float:
        """See largest_shift; of the model that the repeated run has left."""
        return largest_shift(self.rerun_model, self.rerun_reading)

    @once
    def further(self) -> list[float]:
        """Bits per byte of runs with further seeds."""
        found: list[float] = []
        for seed in range(self.entry.seed + 1, self.entry.seed + 1 + self.terms.more_seeds):
            rerun = self._run_again(seed)
            if reason := rerun.complaint or rerun.delay or rerun.crowd:
                raise RefusedError(f"seed {seed}: {reason}")
            model = self._model_of(RunFiles(rerun.folder))
            reading = self.read(model)
            if (shift := largest_shift(model, reading)) > MAX_SHIFT:
                raise RefusedError(f"seed {seed}: {told_of_shift(shift)}")
            found.append(reading.bits_per_byte)
        return found

    @once
    def figures(self) -> list[float]:
        """The figures that count: of further runs, if any, since an entry may choose its seed."""
        return self.further or [self.rerun_reading.bits_per_byte]

    def read(self, model: Model, ids: Ids | None = None) -> Reading:
        """Let a model predict the validation text."""
        text = self.texts.valid
        ids = model.encode(text) if ids is None else ids
        with model.asked() as ask:
            return read(model, text, ids, ask, self.tell)

    def _model_of(self, files: RunFiles) -> Model:
        folder = self.scratch / f"of-{files.folder.name}"
        return Model(files, self.entry.code, folder, self.terms)

    def _run_again(self, seed: int) -> Rerun:
        if not self.terms.is_rerun:
            raise NotJudgedError("nothing was run again")
        to = self.scratch / f"seed-{seed}"
        return run_again(
            self.entry, self.arguments, self.terms, self.texts.train, to, seed, self.tell
        )
