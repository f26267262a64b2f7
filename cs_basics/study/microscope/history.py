"""The readings of a run: one for each step that can be looked at, kept in microscope.jsonl.

A run keeps its newest checkpoints only; the readings of deleted ones stay in the file.
"""

import json

import torch
from jaxtyping import Int
from torch import Tensor

from cs_basics.run.atomic import write_atomically
from cs_basics.run.checkpoint_file import read_checkpoint
from cs_basics.run.folder import RunFolder, step_of
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.progress import OnProgress
from cs_basics.run.random_state import seed_all
from cs_basics.run.token_file import open_token_file
from cs_basics.study.microscope.reading import Reading, read
from cs_basics.transformer import TransformerLM
from cs_basics.variants.model import Transformer


class History:
    """The readings of a run so far.

    Args:
        folder: The run, finished or in progress.
        num_windows: Windows of its validation text that the model reads; readings of another number
            do not count here, but stay in the file.

    Raises:
        FileNotFoundError: The folder holds no run, or no validation text yet.
        ValueError: A file of the run is damaged.
    """

    def __init__(self, folder: RunFolder, num_windows: int) -> None:
        self.folder, self.num_windows = folder, num_windows
        self.config = folder.read_config()
        self.path = folder.path / "microscope.jsonl"
        self.token_ids = self._windows()
        self.others: list[str] = []
        """Lines of readings of other numbers of windows: they stay in the file."""
        self.readings = self._kept()

    def update(self, on_progress: OnProgress | None = None) -> bool:
        """Read every step that has no reading yet; return whether there was one."""
        waiting = [step for step in self._steps() if step not in self.readings]
        for number, step in enumerate(waiting):
            if on_progress is not None:
                on_progress("reading", "steps", number, len(waiting))
            model = self._model_at(step)
            if model is not None:
                self.readings[step] = read(model, self.token_ids, step)
                self._keep()
        if waiting and on_progress is not None:
            on_progress("reading", "steps", len(waiting), len(waiting))
        return bool(waiting)

    def in_order(self) -> list[Reading]:
        """All readings by step."""
        return [self.readings[step] for step in sorted(self.readings)]

    def is_over(self) -> bool:
        """Whether the run has ended: its samples are written after its last checkpoint."""
        newest, samples = self.folder.all_checkpoints()[-1:], self.folder.samples
        if not newest or not samples.exists():
            return False
        return samples.stat().st_mtime >= newest[0].stat().st_mtime

    def _steps(self) -> list[int]:
        """The steps that have checkpoints, and step 0 if its weights follow from the seed."""
        paths = self.folder.all_checkpoints()
        steps = {step_of(path) for path in paths}
        # A GPU draws other numbers from the same seed.
        is_imported = self.folder.imported_from() is not None
        is_drawn_again = self.config.run.device == "cpu" and not is_imported
        return sorted(steps | {0} if is_drawn_again else steps)

    def _model_at(self, step: int) -> TransformerLM | None:
        """The model of a step; None if its checkpoint has been deleted meanwhile."""
        seed_all(self.config.run.seed)
        model = Transformer(self.config.model)
        try:
            checkpoint = read_checkpoint(self.folder.checkpoint_of(step))
        except FileNotFoundError:
            # A run that began with weights from elsewhere has them as step 0.
            return model if step == 0 else None
        checkpoint.load_into(model, make_optimizer(model, self.config))
        return model

    def _windows(self) -> Int[Tensor, "windows seq"]:
        """Windows of the validation text, spread over all of it."""
        file = open_token_file(self.folder.tokens / "valid.bin")
        length = self.config.model.context_length
        last = file.num_tokens - length
        if last < 0:
            raise ValueError(f"{file.path} holds fewer tokens than one context of {length}")
        starts = [
            last * number // max(self.num_windows - 1, 1) for number in range(self.num_windows)
        ]
        rows = [file.tokens[start : start + length].astype("int64") for start in starts]
        return torch.stack([torch.from_numpy(row) for row in rows])

    def _kept(self) -> dict[int, Reading]:
        if not self.path.exists():
            return {}
        readings: dict[int, Reading] = {}
        try:
            for line in self.path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                if row.pop("windows") == self.num_windows:
                    readings[row["step"]] = Reading(**row)
                else:
                    self.others.append(line)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{self.path} cannot be read ({error}): delete it, it is made again"
            raise ValueError(message) from None
        return readings

    def _keep(self) -> None:
        rows = ({"windows": self.num_windows, **one.to_json()} for one in self.in_order())
        lines = [*self.others, *map(json.dumps, rows)]
        write_atomically(self.path, "".join(f"{line}\n" for line in lines).encode())
