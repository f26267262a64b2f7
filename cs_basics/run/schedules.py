"""The learning rate of each update, by the name of its schedule and the clock of the run."""

import logging

from cs_basics.optim import cosine_schedule
from cs_basics.run.clock import Clock
from cs_basics.settings.run import OptimConfig, RunConfig

logger = logging.getLogger(__name__)


def linear_schedule(
    step: int, max_lr: float, min_lr: float, warmup_steps: int, cycle_steps: float
) -> float:
    """Return the learning rate of a step: warm-up as in `cosine_schedule`, then a straight line.

    Defazio et al. 2023 (https://arxiv.org/abs/2310.07831). Arguments as in `cosine_schedule`.
    """
    if step < warmup_steps or step >= cycle_steps:
        return cosine_schedule(step, max_lr, min_lr, warmup_steps, cycle_steps)
    left = (cycle_steps - step) / (cycle_steps - warmup_steps)
    return min_lr + left * (max_lr - min_lr)


SCHEDULES = {"cosine": cosine_schedule, "linear": linear_schedule}


class Schedule:
    """The learning rates of a run.

    Args:
        optim: The highest rate, the form of the schedule and its warm-up.
        clock: Says how long the run is.
    """

    def __init__(self, optim: OptimConfig, clock: Clock) -> None:
        self.optim, self.clock = optim, clock
        self._has_short_warmup = False

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        optim = self.optim
        # The schedule is over one step after the last one, which would have a rate of 0 otherwise.
        length = self.clock.expected_steps(step) + 1
        warmup_steps = self.clock.warmup_steps(step, optim.warmup_steps)
        if warmup_steps < optim.warmup_steps and not self._has_short_warmup:
            self._has_short_warmup = True
            logger.info(
                f"the run is shorter than its warm-up of {optim.warmup_steps:,} updates: "
                f"the learning rate is at its highest after {warmup_steps:,}"
            )
        # A plain number whatever it is of: each checkpoint holds it.
        return float(SCHEDULES[optim.schedule](step, optim.lr, 0.0, warmup_steps, length))

    def log_new_length(self, step: int, was: RunConfig) -> None:
        """Log how the learning rate jumps after a step if the run had another length before."""
        clock = self.clock
        seconds = was.max_minutes and 60 * was.max_minutes
        if (was.max_steps, seconds) == (clock.max_steps, clock.max_seconds):
            return
        before = Schedule(
            self.optim, Clock(was.max_steps, seconds, clock.elapsed_s, clock.waited_s)
        )
        before._has_short_warmup = True  # Of that, nothing more is to be said.
        logger.info(
            f"the schedule is stretched to the new length of the run: the learning rate was "
            f"{before.lr_at(step):.2e} at step {step:,} and is {self.lr_at(step + 1):.2e} at the "
            "next"
        )
