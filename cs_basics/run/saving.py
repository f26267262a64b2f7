"""Saving: when a run writes a checkpoint, and how it goes on from one."""

import logging
import math

from torch.optim import Optimizer

from cs_basics.run.checkpoint_file import Checkpoint, write_checkpoint
from cs_basics.run.clock import Clock
from cs_basics.run.distributed import DDP, World
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import MetricsLog
from cs_basics.run.random_state import random_states
from cs_basics.training import TrainingDivergedError

logger = logging.getLogger(__name__)

MAX_UNSAVED_S = 60.0
"""What a kill may cost, whatever eval_every says."""
SAVING_RATIO = 10
"""A checkpoint that takes long to write is followed by at least so many times that of updates."""


class Saving:
    """The checkpoints of a run.

    Args:
        folder: Where they go.
        optimizer: The optimizer, with the model's weights in it.
        layout: How both are spread over the processes.
        clock: The clock of the run.
        world: The processes, all of which save and load together.
    """

    def __init__(
        self, folder: RunFolder, optimizer: Optimizer, layout: DDP, clock: Clock, world: World
    ) -> None:
        self.folder, self.optimizer, self.layout = folder, optimizer, layout
        self.clock, self.world = clock, world
        self.saved_step: int | None = None
        self.validated: dict[int, float] = {}
        """The step that was last validated, and its loss: only its checkpoint can be the best."""
        self._due_s = 0.0

    def begin(self) -> None:
        """Count the time without a checkpoint from now."""
        self._due_s = self.world.from_first(self.clock.elapsed_s) + MAX_UNSAVED_S

    def is_due(self) -> bool:
        """Whether the last checkpoint is so old that another is due."""
        return self.clock.elapsed_s >= self._due_s

    def note_validation(self, step: int, loss: float) -> None:
        """Remember the validation loss of a step, if it is one."""
        self.validated = {step: loss} if math.isfinite(loss) else {}

    def save(self, step: int, log: MetricsLog, **progress: object) -> None:
        """Write the checkpoint of a step, and delete those that are no longer kept.

        Args:
            step: Number of the last update.
            log: The metrics, which are written out first.
            progress: What else the trainer needs to resume.

        Raises:
            OSError: The checkpoint cannot be written; older ones are unchanged.
            TrainingDivergedError: The weights are not finite; nothing was written.
        """
        held = [part for group in self.optimizer.param_groups for part in group["params"]]
        num_bad = sum(not part.isfinite().all() for part in held)
        # Of all processes: one that raised alone would leave the others waiting for it.
        if any(self.world.sum([num_bad])):
            raise TrainingDivergedError(
                f"step {step}: the update made weights that are not finite, which are not saved"
            )
        began_s = self.clock.read_s()
        model, optimizer = self.layout.whole(self.optimizer)
        if self.world.is_first:
            kept = {
                "step": step,
                "random": random_states(),
                "elapsed_s": self.clock.elapsed_s,
                "waited_s": self.clock.waited_s,
                "stages": self.clock.stages,
                "num_metrics_bytes": log.sync(),
                **progress,
            }
            write_checkpoint(self.folder.checkpoint_of(step), model, optimizer, step, kept)
            self.folder.prune_checkpoints(step, self.validated.get(step))
        self.saved_step, saved_s = step, self.clock.read_s()
        wait_s = max(MAX_UNSAVED_S, SAVING_RATIO * (saved_s - began_s))
        self._due_s = self.world.from_first(saved_s + wait_s)

    def load(self) -> Checkpoint | None:
        """Load the weights of the newest undamaged checkpoint; return it if a run wrote it.

        A checkpoint without progress holds weights that were made elsewhere: of those alone it is,
        and the rates and betas are this run's.

        Raises:
            ValueError: All checkpoints are damaged, or they are of another model.
        """
        if not self.folder.all_checkpoints():
            logger.info("%s holds no checkpoint: from the beginning", self.folder.checkpoints)
            return None
        checkpoint = self.folder.read_newest_checkpoint()
        groups = [dict(group) for group in self.optimizer.param_groups]
        self.layout.load(self.optimizer, checkpoint)
        if checkpoint.progress:
            return checkpoint
        for group, own in zip(self.optimizer.param_groups, groups, strict=True):
            group.update({name: value for name, value in own.items() if name != "params"})
        logger.info("%s was not trained here: from the first step", checkpoint.path)
        return None
